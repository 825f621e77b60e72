package model

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"

	"pgregory.net/rapid"
)

// report receives the messages of rapid to a test, so that several workers can run in one spec.
type report struct {
	text   strings.Builder
	failed bool
	// found is true if a sequence of this worker has failed. rapid then shortens it.
	found atomic.Bool
	// uids are the UIDs of all objects of each place, deleted ones too.
	uids []map[string]bool
}

// story is the log of the writes, without the random draws.
func (r *report) story() string {
	var lines []string
	for line := range strings.Lines(r.text.String()) {
		if !strings.HasPrefix(line, "[rapid] draw ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

var _ rapid.TB = &report{}

func (r *report) Helper()      {}
func (r *report) Name() string { return "model" }

func (r *report) Logf(format string, args ...any) { fmt.Fprintf(&r.text, format+"\n", args...) }
func (r *report) Log(args ...any)                 { fmt.Fprintln(&r.text, args...) }

func (r *report) Skipf(format string, args ...any) { r.Logf(format, args...); r.SkipNow() }
func (r *report) Skip(args ...any)                 { r.Log(args...); r.SkipNow() }
func (r *report) SkipNow()                         { runtime.Goexit() }

func (r *report) Errorf(format string, args ...any) { r.Logf(format, args...); r.Fail() }
func (r *report) Error(args ...any)                 { r.Log(args...); r.Fail() }
func (r *report) Fatalf(format string, args ...any) { r.Logf(format, args...); r.FailNow() }
func (r *report) Fatal(args ...any)                 { r.Log(args...); r.FailNow() }
func (r *report) FailNow()                          { r.Fail(); runtime.Goexit() }
func (r *report) Fail()                             { r.failed = true }
func (r *report) Failed() bool                      { return r.failed }
