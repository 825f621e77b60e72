package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

func TestVersion(t *testing.T) {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a line": {
			want: fmt.Sprintf("warrantgate dev (%s, %s, revision unknown)\n", runtime.Version(), platform),
		},
		"for machines": {
			args: []string{"-o", "json"},
			want: fmt.Sprintf("{\n  \"version\": \"dev\",\n  \"revision\": \"unknown\",\n  \"goVersion\": %q,\n  \"platform\": %q\n}\n", runtime.Version(), platform),
		},
		"for people": {
			args: []string{"-o", "yaml"},
			want: fmt.Sprintf("goVersion: %s\nplatform: %s\nrevision: unknown\nversion: dev\n", runtime.Version(), platform),
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, errOut, err := run(t, append([]string{"version"}, tc.args...)...)
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tc.want, out); diff != "" || errOut != "" {
				t.Errorf("standard error %q, standard output (-want +got):\n%s", errOut, diff)
			}
		})
	}
}

func TestRevision(t *testing.T) {
	commit, modified := debug.BuildSetting{Key: "vcs.revision", Value: "0a64"}, debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for name, tc := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"a commit":                 {info: noted(commit, debug.BuildSetting{Key: "vcs.modified", Value: "false"}), want: "0a64"},
		"a commit and more":        {info: noted(commit, modified), want: "0a64-dirty"},
		"sources outside of git":   {info: noted(modified), want: "unknown"},
		"a binary without a word":  {info: &debug.BuildInfo{}, want: "unknown"},
		"nothing that was noted":   {want: "unknown"},
		"a commit, and no further": {info: noted(commit), want: "0a64"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := revisionOf(tc.info); got != tc.want {
				t.Errorf("revisionOf() = %q, want %q", got, tc.want)
			}
		})
	}
}

func noted(settings ...debug.BuildSetting) *debug.BuildInfo {
	return &debug.BuildInfo{Settings: settings}
}

// TestBuildInfo checks that the metric and the command report the same.
func TestBuildInfo(t *testing.T) {
	out, _, err := run(t, "version", "--output=json")
	if err != nil {
		t.Fatal(err)
	}
	var b build
	if err := json.Unmarshal([]byte(out), &b); err != nil {
		t.Fatal(err)
	}
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, family := range families {
		if family.GetName() != "warrantgate_build_info" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if metric.GetGauge().GetValue() != 1 {
				t.Errorf("value = %v, want 1", metric.GetGauge().GetValue())
			}
			for _, label := range metric.GetLabel() {
				got[label.GetName()] = label.GetValue()
			}
		}
	}
	want := map[string]string{"version": b.Version, "revision": b.Revision, "go_version": b.GoVersion}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels of warrantgate_build_info (-want +got):\n%s", diff)
	}
}
