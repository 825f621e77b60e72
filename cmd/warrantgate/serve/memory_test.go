package serve

import (
	"errors"
	"math"
	"os"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
)

func TestMemoryLimit(t *testing.T) {
	none := func() (uint64, error) { return 0, errors.New("cgroups are not supported") }
	for name, tc := range map[string]struct {
		container memlimit.Provider
		variable  string
		want      int64
	}{
		"of a container":             {container: memlimit.Limit(256 << 20), want: 214748364},
		"of a container without one": {container: func() (uint64, error) { return 0, memlimit.ErrNoLimit }, want: math.MaxInt64},
		"outside of a container":     {container: none, want: 1 << 30},
		"by the variable":            {container: memlimit.Limit(256 << 20), variable: "1GiB", want: 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			before := debug.SetMemoryLimit(1 << 30) // as by the variable
			t.Cleanup(func() { debug.SetMemoryLimit(before) })
			t.Setenv("GOMEMLIMIT", tc.variable)
			if tc.variable == "" {
				if err := os.Unsetenv("GOMEMLIMIT"); err != nil {
					t.Fatal(err)
				}
			}
			limitMemory(logr.Discard(), tc.container)
			if got := debug.SetMemoryLimit(-1); got != tc.want {
				t.Errorf("memory limit = %d, want %d", got, tc.want)
			}
		})
	}
}
