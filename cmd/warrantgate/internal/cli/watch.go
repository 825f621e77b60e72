package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// Watched is a report about an object that a command prints again when the object changes.
type Watched struct {
	// Make makes the report, and reports whether no other one is to be printed.
	Make func() (report any, done bool, err error)
	// Print prints the last report.
	Print func() error
	// Start starts a watch of the object.
	Start func() (watch.Interface, error)
}

// Run prints the report, and prints it again in a format after each change, until it is done or ctx ends. API servers end a watch after some
// minutes; it is then started again.
func (w Watched) Run(ctx context.Context, out io.Writer, format string) error {
	var last []byte
	changed := func() (bool, error) {
		report, done, err := w.Make()
		if err != nil {
			return false, err
		}
		encoded, err := json.Marshal(report)
		if err != nil || bytes.Equal(encoded, last) {
			return done, err
		}
		if last != nil && format != formatJSON {
			fmt.Fprintln(out, "---")
		}
		last = encoded
		return done, w.Print()
	}
	done, err := changed()
	for !done && err == nil {
		var watcher watch.Interface
		if watcher, err = w.Start(); err != nil {
			return err
		}
		done, err = each(watcher, changed)
		watcher.Stop()
		if done || err != nil {
			break
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
	return err
}

// each calls changed for each event of a watch.
func each(watcher watch.Interface, changed func() (done bool, err error)) (done bool, err error) {
	for event := range watcher.ResultChan() {
		if event.Type == watch.Error {
			return false, apierrors.FromObject(event.Object)
		}
		if done, err := changed(); done || err != nil {
			return done, err
		}
	}
	return false, nil
}
