package keystonetest_test

import (
	"strings"
	"testing"

	"warrantgate.dev/e2e/env/keystonetest"
)

func TestStartReportsWhatIsMissing(t *testing.T) {
	for name, tc := range map[string]struct {
		python, env string
	}{
		"an interpreter without Keystone":                    {python: "/bin/false"},
		"an interpreter that does not exist":                 {python: "/bin/no-such-python"},
		"an interpreter without Keystone in the environment": {env: "/bin/false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(keystonetest.PythonEnv, tc.env)
			_, err := keystonetest.Start(t.Context(), keystonetest.Options{Python: tc.python})
			for _, want := range []string{
				tc.python + tc.env + " has no Keystone", "apt-get install -y --no-install-recommends python3-keystone", keystonetest.PythonEnv,
			} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Start() error = %v, want one with %q", err, want)
				}
			}
		})
	}
}
