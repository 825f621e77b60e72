package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// newDist contains the files of goreleaser that this program reads.
func newDist(t *testing.T) options {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string]string{
		"dist/metadata.json": `{"version": "1.2.3", "tag": "v1.2.3", "commit": "c0ffee"}`,
		"dist/artifacts.json": `[
			{"path": "dist/amd64", "goos": "linux", "goarch": "amd64", "type": "Binary"},
			{"path": "dist/arm64", "goos": "linux", "goarch": "arm64", "type": "Binary"},
			{"path": "dist/darwin", "goos": "darwin", "goarch": "arm64", "type": "Binary"},
			{"path": "dist/a.tar.gz", "goos": "linux", "goarch": "arm64", "type": "Archive"}]`,
		"dist/amd64": "program for amd64", "dist/arm64": "program for arm64",
		"chart/Chart.yaml":  "apiVersion: v2\nname: warrantgate\ndescription: A chart\nversion: 0.1.0\nappVersion: dev\n",
		"chart/values.yaml": "image:\n  repository: warrantgate\n  digest: \"\"\n",
		"chart/files/a.txt": "text",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	return options{
		dist: filepath.Join(root, "dist"), chart: filepath.Join(root, "chart"), registry: "registry.example.com",
		source: "https://git.example.com/warrantgate", builder: "https://git.example.com/release",
	}
}

// stored is the only thing that a layout has.
func stored(t *testing.T, o options, name string) (layout.Path, v1.Hash) {
	t.Helper()
	path, err := layout.FromPath(filepath.Join(o.dist, name))
	if err != nil {
		t.Fatal(err)
	}
	index, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("%s has %d manifests", name, len(manifest.Manifests))
	}
	return path, manifest.Manifests[0].Digest
}

func storedIndex(t *testing.T, o options) (v1.ImageIndex, v1.Hash) {
	t.Helper()
	path, digest := stored(t, o, "image")
	root, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	index, err := root.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	return index, digest
}

func TestImage(t *testing.T) {
	o := newDist(t)
	if err := run(o); err != nil {
		t.Fatal(err)
	}
	index, _ := storedIndex(t, o)
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != m.Platform.Architecture || config.Config.User != "65532:65532" || config.Config.Entrypoint[0] != "/warrantgate" {
			t.Errorf("config = %+v", config)
		}
		if got := config.Created.UTC().Format("2006-01-02"); got != "2023-11-14" {
			t.Errorf("created = %s", got)
		}
		files := unpack(t, tar.NewReader(mutate.Extract(image)))
		if files["warrantgate"] != "program for "+config.Architecture || len(files) != 2 {
			t.Errorf("files = %v", files)
		}
		if authorities := files["etc/ssl/certs/ca-certificates.crt"]; strings.Count(authorities, "BEGIN CERTIFICATE") < 100 {
			t.Errorf("the CA certificates are %q", authorities)
		}
	}
	if got := strings.Join(platforms, " "); got != "linux/amd64 linux/arm64" {
		t.Errorf("platforms = %s", got)
	}
}

func TestChart(t *testing.T) {
	o := newDist(t)
	if err := run(o); err != nil {
		t.Fatal(err)
	}
	_, image := storedIndex(t, o)
	path, digest := stored(t, o, "chart")
	chart, err := path.Image(digest)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := chart.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, tar.NewReader(content))
	for name, want := range map[string]string{
		"warrantgate/Chart.yaml":  "apiVersion: v2\nname: warrantgate\ndescription: A chart\nversion: 1.2.3\nappVersion: v1.2.3\n",
		"warrantgate/values.yaml": "image:\n  repository: registry.example.com/warrantgate\n  digest: " + image.String() + "\n",
		"warrantgate/files/a.txt": "text",
	} {
		if files[name] != want {
			t.Errorf("%s = %q, want %q", name, files[name], want)
		}
	}
	config, err := chart.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	var metadata struct{ Name, Version, AppVersion string }
	if err := json.Unmarshal(config, &metadata); err != nil || metadata.Name != "warrantgate" || metadata.Version != "1.2.3" || metadata.AppVersion != "v1.2.3" {
		t.Errorf("metadata = %+v, %v", metadata, err)
	}
	manifest, err := chart.Manifest()
	if err != nil || manifest.Config.MediaType != helmConfig || manifest.Layers[0].MediaType != helmChart {
		t.Errorf("manifest = %+v, %v", manifest, err)
	}
}

func TestProvenance(t *testing.T) {
	o := newDist(t)
	if err := run(o); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(o.dist, "provenance.json"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"buildDefinition":{"buildType":"https://git.example.com/warrantgate/blob/main/Makefile#release",` +
		`"externalParameters":{"ref":"v1.2.3","source":"git+https://git.example.com/warrantgate"},` +
		`"resolvedDependencies":[{"digest":{"gitCommit":"c0ffee"},"uri":"git+https://git.example.com/warrantgate"}]},` +
		`"runDetails":{"builder":{"id":"https://git.example.com/release"}}}`
	var compact bytes.Buffer
	if err := json.Compact(&compact, got); err != nil || compact.String() != want {
		t.Errorf("provenance = %s, want %s", compact.String(), want)
	}
}

func TestTheSameSourcesMakeTheSameDigests(t *testing.T) {
	first, second := newDist(t), newDist(t)
	for _, o := range []options{first, second} {
		if err := run(o); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"image", "chart"} {
		_, one := stored(t, first, name)
		_, other := stored(t, second, name)
		if one != other {
			t.Errorf("%s: %s and %s", name, one, other)
		}
	}
}

func TestMistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		file, content, want string
	}{
		"a chart without a version":        {"chart/Chart.yaml", "name: warrantgate\nappVersion: dev\n", "Chart.yaml: 0 lines match ^version: .*$, want 1"},
		"a chart that names an image":      {"chart/values.yaml", "  repository: other\n", "values.yaml: 0 lines match ^  repository: warrantgate$, want 1"},
		"a folder without programs":        {"dist/artifacts.json", "[]", "has no program for Linux"},
		"a list that is not goreleaser's":  {"dist/metadata.json", "version", "metadata.json: invalid character"},
		"a program that is not there more": {"dist/artifacts.json", `[{"path":"dist/none","goos":"linux","type":"Binary"}]`, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newDist(t)
			if err := os.WriteFile(filepath.Join(filepath.Dir(o.dist), tc.file), []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := run(o); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("run() error = %v, want one with %q", err, tc.want)
			}
		})
	}
	o := newDist(t)
	t.Setenv("SOURCE_DATE_EPOCH", "today")
	if err := run(o); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("run() without a date: error = %v", err)
	}
}

func unpack(t *testing.T, archive *tar.Reader) map[string]string {
	t.Helper()
	files := map[string]string{}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}
