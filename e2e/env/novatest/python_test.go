package novatest_test

import (
	"strings"
	"testing"

	"warrantgate.dev/e2e/env/keystonetest"
	"warrantgate.dev/e2e/env/novatest"
)

func TestStartReportsWhatIsMissing(t *testing.T) {
	for name, tc := range map[string]struct {
		python, env string
	}{
		"an interpreter without Nova":                    {python: "/bin/false"},
		"an interpreter that does not exist":             {python: "/bin/no-such-python"},
		"an interpreter without Nova in the environment": {env: "/bin/false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(keystonetest.PythonEnv, tc.env)
			_, err := novatest.Start(t.Context(), novatest.Options{Python: tc.python, Keystone: &keystonetest.Keystone{}})
			for _, want := range []string{
				tc.python + tc.env + " has no Nova", "apt-get install -y --no-install-recommends python3-nova", keystonetest.PythonEnv,
			} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Start() error = %v, want one with %q", err, want)
				}
			}
		})
	}
	if _, err := novatest.Start(t.Context(), novatest.Options{}); err == nil || !strings.Contains(err.Error(), "there is no Keystone") {
		t.Errorf("Start() error = %v, want that there is no Keystone", err)
	}
}
