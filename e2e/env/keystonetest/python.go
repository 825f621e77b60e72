package keystonetest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
)

// PythonEnv names a Python interpreter that has keystone 22 and nova 26, if it is not Debian's.
const PythonEnv = "TEST_ASSET_PYTHON"

// Python returns the interpreter of Debian's packages, unless PythonEnv names another one.
func Python() string { return cmp.Or(os.Getenv(PythonEnv), "/usr/bin/python3") }

// Find returns an error if there is no Keystone. The error contains the packages to install, and the variable for another interpreter.
func Find(ctx context.Context) error { return FindModule(ctx, "keystone", "22") }

// FindModule returns an error if Python has no such module of OpenStack. It does not import the module, which takes seconds.
func FindModule(ctx context.Context, module, version string) error {
	program := fmt.Sprintf("import importlib.util, sys; sys.exit(importlib.util.find_spec('%s') is None)", module)
	text, err := exec.CommandContext(ctx, Python(), "-E", "-c", program).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%[1]s has no %[2]s: %[3]w\n%[4]s"+
			"Install it on Debian: apt-get update && apt-get install -y --no-install-recommends python3-%[2]s\n"+
			"Elsewhere, name an interpreter that has %[2]s %[5]s in %[6]s", Python(), module, err, text, version, PythonEnv)
	}
	return nil
}
