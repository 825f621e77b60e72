// Command oci makes the image and the chart of a release of the programs that goreleaser has built, as OCI layouts in the same
// folder, and the statement of provenance about both.
//
//	oci -chart=charts/warrantgate -registry=ghcr.io/example -source=https://github.com/example/warrantgate dist
//
// The same programs and the same chart make the same digests: all files have the date of the commit, SOURCE_DATE_EPOCH in seconds.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.chart, "chart", "charts/warrantgate", "folder of the chart's sources")
	flag.StringVar(&o.registry, "registry", "", "where the image is pushed to, such as ghcr.io/example")
	flag.StringVar(&o.source, "source", "", "URL of the repository, for the provenance")
	flag.StringVar(&o.builder, "builder", "local", "who runs the build, as a URI, for the provenance")
	flag.Parse()
	o.dist = flag.Arg(0)
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "oci:", err)
		os.Exit(1)
	}
}

type options struct {
	dist, chart, registry, source, builder string
}

func run(o options) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	b, err := readBuild(o.dist)
	if err != nil {
		return err
	}
	b.date = time.Unix(seconds, 0).UTC()
	index, err := newImage(b)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	archive, err := packageChart(o.chart, release{version: b.Version, date: b.date, repository: o.registry + "/warrantgate", digest: digest.String()})
	if err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	chart, err := newChart(archive, b.date)
	if err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	return write(o, b, index, archive, chart)
}
