package novatest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"

	"warrantgate.dev/e2e/env/keystonetest"
)

// python returns the interpreter of Debian's packages, unless the variable names another one.
func python() string { return cmp.Or(os.Getenv(keystonetest.PythonEnv), "/usr/bin/python3") }

// findNova returns an error if an interpreter has no Nova. It does not import Nova, which takes seconds.
func findNova(ctx context.Context, interpreter string) error {
	const program = "import importlib.util, sys; sys.exit(importlib.util.find_spec('nova') is None)"
	text, err := exec.CommandContext(ctx, interpreter, "-E", "-c", program).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s has no Nova: %w\n%s"+
			"Install it on Debian: apt-get update && apt-get install -y --no-install-recommends python3-nova\n"+
			"Elsewhere, name an interpreter that has nova 26 in %s", interpreter, err, text, keystonetest.PythonEnv)
	}
	return nil
}
