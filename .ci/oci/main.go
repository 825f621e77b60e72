// Command oci makes the image and the chart of a release of the programs that goreleaser has built, as OCI layouts in the same
// folder, and the statement of provenance about both.
//
//	oci -chart=charts/warrantgate -registry=ghcr.io/example -source=https://github.com/example/warrantgate dist
//
// The same programs and the same chart make the same digests: all files have the date of the commit, SOURCE_DATE_EPOCH in seconds.
//
// "make image" and the Dockerfile use parts of it. The first command writes an archive that "docker load" reads, with the same image of
// one program. The second prints the CA certificates of the image. The third fails if two archives have other files, users, entrypoints
// or labels.
//
//	oci archive -image=warrantgate:test -version=v1.2.3 -revision=0123abc warrantgate image.tar
//	oci certificates
//	oci compare image.tar other.tar
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "oci:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	switch name {
	case "archive":
		return archive(args[1:])
	case "certificates":
		_, err := os.Stdout.Write(certificates())
		return err
	case "compare":
		if len(args) != 3 {
			return errors.New("compare: name two archives")
		}
		return compare(args[1], args[2])
	}
	var o options
	flags := flag.NewFlagSet("oci", flag.ExitOnError)
	flags.StringVar(&o.chart, "chart", "charts/warrantgate", "folder of the chart's sources")
	flags.StringVar(&o.registry, "registry", "", "where the image is pushed to, such as ghcr.io/example")
	flags.StringVar(&o.source, "source", "", "URL of the repository, for the provenance")
	flags.StringVar(&o.builder, "builder", "local", "who runs the build, as a URI, for the provenance")
	_ = flags.Parse(args) // it exits
	o.dist = flags.Arg(0)
	return run(o)
}

type options struct {
	dist, chart, registry, source, builder string
}

func run(o options) error {
	date, err := commitDate()
	if err != nil {
		return err
	}
	b, err := readBuild(o.dist)
	if err != nil {
		return err
	}
	b.date = date
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

// commitDate is the date that all files have.
func commitDate() (time.Time, error) {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
