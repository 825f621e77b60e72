package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// build is what goreleaser has built.
type build struct {
	Version string `json:"version"`
	Tag     string `json:"tag"`
	Commit  string `json:"commit"`
	// programs are the paths of the programs for Linux, by architecture.
	programs map[string]string
	date     time.Time
}

// readBuild reads the lists that goreleaser leaves in its folder.
func readBuild(dist string) (build, error) {
	var b build
	if err := readJSON(filepath.Join(dist, "metadata.json"), &b); err != nil {
		return b, err
	}
	var artifacts []struct {
		Path string `json:"path"`
		OS   string `json:"goos"`
		Arch string `json:"goarch"`
		Type string `json:"type"`
	}
	if err := readJSON(filepath.Join(dist, "artifacts.json"), &artifacts); err != nil {
		return b, err
	}
	b.programs = map[string]string{}
	for _, a := range artifacts {
		if a.Type == "Binary" && a.OS == "linux" {
			// Their paths are relative to the folder that goreleaser ran in.
			b.programs[a.Arch] = filepath.Join(filepath.Dir(dist), a.Path)
		}
	}
	if b.Version == "" || len(b.programs) == 0 {
		return b, fmt.Errorf("%s has no program for Linux", dist)
	}
	return b, nil
}

func readJSON(file string, into any) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// write puts the layouts image and chart, the chart's archive and the provenance into the folder.
func write(o options, b build, index v1.ImageIndex, archive []byte, chart v1.Image) error {
	if err := os.WriteFile(filepath.Join(o.dist, "warrantgate-"+b.Version+".tgz"), archive, 0o644); err != nil {
		return err
	}
	images, err := layout.Write(filepath.Join(o.dist, "image"), empty.Index)
	if err != nil {
		return err
	}
	if err := images.AppendIndex(index); err != nil {
		return err
	}
	charts, err := layout.Write(filepath.Join(o.dist, "chart"), empty.Index)
	if err != nil {
		return err
	}
	if err := charts.AppendImage(chart); err != nil {
		return err
	}
	provenance, err := json.MarshalIndent(newProvenance(o, b), "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.dist, "provenance.json"), provenance, 0o644)
}

// newProvenance is the predicate of https://slsa.dev/spec/v1.0/provenance, without what differs between two builds of the same sources.
func newProvenance(o options, b build) map[string]any {
	source := "git+" + o.source
	return map[string]any{
		"buildDefinition": map[string]any{
			"buildType":            o.source + "/blob/main/Makefile#release",
			"externalParameters":   map[string]any{"source": source, "ref": b.Tag},
			"resolvedDependencies": []any{map[string]any{"uri": source, "digest": map[string]any{"gitCommit": b.Commit}}},
		},
		"runDetails": map[string]any{"builder": map[string]any{"id": o.builder}},
	}
}
