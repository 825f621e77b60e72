package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
)

// build is the version, commit, Go version and platform of this binary.
type build struct {
	Version   string `json:"version"`
	Revision  string `json:"revision"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

func init() { //nolint:gochecknoinits // a collector belongs to the process, like the registry that it is put into
	metrics.Registry.MustRegister(newBuildInfo(thisBuild()))
}

// thisBuild returns the build of this process. "make build" sets the revision with the linker, so that the same sources produce the same
// binary with and without the .git directory. Otherwise it is the revision that the go command recorded.
func thisBuild() build {
	b := build{Version: version, Revision: revision, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if b.Revision == "" {
		info, _ := debug.ReadBuildInfo()
		b.Revision = revisionOf(info)
	}
	return b
}

// revisionOf returns the commit that the go command recorded in a binary, with the suffix -dirty if the sources were changed, or "unknown"
// if it recorded none.
func revisionOf(info *debug.BuildInfo) string {
	const unknown = "unknown"
	if info == nil {
		return unknown
	}
	settings := map[string]string{}
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	commit := settings["vcs.revision"]
	switch {
	case commit == "":
		return unknown
	case settings["vcs.modified"] == "true":
		return commit + "-dirty"
	}
	return commit
}

// newBuildInfo reports the build of each replica. It has few labels on purpose: client_golang's collector for this (collectors/version) has
// seven, most of which are empty here.
func newBuildInfo(b build) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "warrantgate_build_info",
		Help:        "Always 1. Its labels say what this process was built from.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "go_version": b.GoVersion},
	})
	info.Set(1)
	return info
}

func newVersionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.CheckFormat(output); err != nil {
				return err
			}
			b := thisBuild()
			return cli.PrintReport(cmd.OutOrStdout(), output, b, func(out io.Writer) error {
				_, err := fmt.Fprintf(out, "warrantgate %s (%s, %s, revision %s)\n", b.Version, b.GoVersion, b.Platform, b.Revision)
				return err
			})
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", cli.FormatText, "text, json or yaml")
	return cmd
}
