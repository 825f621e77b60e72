package keystonetest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
)

// PythonEnv names a Python interpreter that has keystone 22, if it is not Debian's.
const PythonEnv = "TEST_ASSET_PYTHON"

// python returns the interpreter of Debian's packages, unless the variable names another one.
func python() string { return cmp.Or(os.Getenv(PythonEnv), "/usr/bin/python3") }

// Find returns an error if there is no Keystone. The error contains the packages to install, and the variable for another interpreter.
func Find(ctx context.Context) error { return findKeystone(ctx, python()) }

// findKeystone returns an error if an interpreter has no Keystone. It does not import Keystone, which takes a second.
func findKeystone(ctx context.Context, interpreter string) error {
	const program = "import importlib.util, sys; sys.exit(importlib.util.find_spec('keystone') is None)"
	text, err := exec.CommandContext(ctx, interpreter, "-E", "-c", program).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s has no Keystone: %w\n%s"+
			"Install it on Debian: apt-get update && apt-get install -y --no-install-recommends python3-keystone\n"+
			"Elsewhere, name an interpreter that has keystone 22 in %s", interpreter, err, text, PythonEnv)
	}
	return nil
}
