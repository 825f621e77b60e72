// Package volume says how much the end-to-end suites do. "make e2e" sends few objects of each kind, so that it is finished in minutes.
// "make test-all" sets TEST_ALL=1, with which the suites also send thousands of objects and run the specs that measure.
package volume

import "os"

// Env is the environment variable that selects all specs and the large numbers. Any value but the empty one does.
const Env = "TEST_ALL"

// Label marks the specs that only run with TEST_ALL: those with thousands of objects, and those whose result depends on how fast the
// machine is.
const Label = "volume"

// All returns whether everything runs.
func All() bool { return os.Getenv(Env) != "" }

// Of returns how many objects a spec uses: few or, with TEST_ALL, many.
func Of(few, many int) int {
	if All() {
		return many
	}
	return few
}

// Filter adds to a label filter of Ginkgo that specs with Label do not run, unless everything runs.
func Filter(labels string) string {
	switch {
	case All():
		return labels
	case labels == "":
		return "!" + Label
	default:
		return "(" + labels + ") && !" + Label
	}
}
