package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
)

func TestWatched(t *testing.T) {
	for name, tc := range map[string]struct {
		// reports are the reports in order. The last one is the one that ends the watch.
		reports []string
		failure error
		want    string
	}{
		"done at once":    {reports: []string{"a"}, want: "a\n"},
		"changed":         {reports: []string{"a", "a", "b", "b", "c"}, want: "a\n---\nb\n---\nc\n"},
		"failed at first": {failure: errors.New("away"), want: ""},
		"failed later":    {reports: []string{"a", "b"}, failure: errors.New("away"), want: "a\n---\nb\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			calls := 0
			watched := cli.Watched{
				Make: func() (any, bool, error) {
					if calls == len(tc.reports) {
						return nil, false, tc.failure
					}
					calls++
					return tc.reports[calls-1], tc.failure == nil && calls == len(tc.reports), nil
				},
				Print: func() error { _, err := fmt.Fprintln(&out, tc.reports[calls-1]); return err },
				Start: func() (watch.Interface, error) {
					watcher := watch.NewFakeWithChanSize(len(tc.reports), false)
					for range tc.reports {
						watcher.Modify(&corev1.ConfigMap{})
					}
					return watcher, nil
				},
			}
			if err := watched.Run(t.Context(), &out, cli.FormatText); !errors.Is(err, tc.failure) {
				t.Errorf("Run() = %v, want %v", err, tc.failure)
			}
			if out.String() != tc.want {
				t.Errorf("output = %q, want %q", out.String(), tc.want)
			}
		})
	}
}
