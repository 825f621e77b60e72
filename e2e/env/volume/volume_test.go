package volume_test

import (
	"testing"

	"warrantgate.dev/e2e/env/volume"
)

func TestOf(t *testing.T) {
	t.Setenv(volume.Env, "")
	if got := volume.Of(10, 1000); got != 10 {
		t.Errorf("Of() = %d without %s, want 10", got, volume.Env)
	}
	t.Setenv(volume.Env, "1")
	if got := volume.Of(10, 1000); got != 1000 {
		t.Errorf("Of() = %d with %s, want 1000", got, volume.Env)
	}
}

func TestFilter(t *testing.T) {
	for name, tc := range map[string]struct{ env, labels, want string }{
		"everyday specs":                 {want: "!volume"},
		"everyday specs of other labels": {labels: "a || b", want: "(a || b) && !volume"},
		"everything":                     {env: "1"},
		"everything of other labels":     {env: "1", labels: "a || b", want: "a || b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(volume.Env, tc.env)
			if got := volume.Filter(tc.labels); got != tc.want {
				t.Errorf("Filter(%q) = %q, want %q", tc.labels, got, tc.want)
			}
		})
	}
}
