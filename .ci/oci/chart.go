package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// Media types of charts in registries: https://helm.sh/docs/topics/registries/#helm-chart-manifest.
const (
	helmConfig types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	helmChart  types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// chartName is the name of the chart, and of the folder in its archive.
const chartName = "warrantgate"

// release is what a released chart says that the sources do not.
type release struct {
	version, repository, digest string
	date                        time.Time
}

// packageChart makes the archive of a chart, as "helm package" does, and has it name the image by digest. That command, of Helm 3,
// writes the time of day into the archive, so that each one is another.
func packageChart(folder string, r release) ([]byte, error) {
	changes := map[string][]change{
		"Chart.yaml":  {{`^version: .*$`, "version: " + r.version}, {`^appVersion: .*$`, "appVersion: v" + r.version}},
		"values.yaml": {{`^  repository: warrantgate$`, "  repository: " + r.repository}, {`^  digest: ""$`, "  digest: " + r.digest}},
	}
	var files []file
	sources := os.DirFS(folder)
	// In lexical order, which is always the same.
	err := fs.WalkDir(sources, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(sources, name)
		if err != nil {
			return err
		}
		for _, c := range changes[name] {
			if content, err = c.apply(content); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		files = append(files, file{name: path.Join(chartName, name), mode: 0o644, content: content})
		return nil
	})
	if err != nil {
		return nil, err
	}
	archive, err := pack(r.date, files...)
	if err != nil {
		return nil, err
	}
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	if _, err := w.Write(archive); err != nil {
		return nil, err
	}
	err = w.Close()
	return compressed.Bytes(), err
}

// change replaces a line, which is the only one that the expression matches.
type change struct {
	line, by string
}

func (c change) apply(content []byte) ([]byte, error) {
	line, err := regexp.Compile("(?m)" + c.line)
	if err != nil {
		return nil, err
	}
	if found := len(line.FindAll(content, -1)); found != 1 {
		return nil, fmt.Errorf("%d lines match %s, want 1", found, c.line)
	}
	return line.ReplaceAllLiteral(content, []byte(c.by)), nil
}

// artifact is an image with any configuration.
type artifact struct {
	config, manifest []byte
	layer            v1.Layer
}

// newChart is the chart as it is stored in a registry, as "helm push" does, with the date of the commit in place of the time of day.
func newChart(archive []byte, date time.Time) (v1.Image, error) {
	metadata, err := chartMetadata(archive)
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(metadata)
	if err != nil {
		return nil, err
	}
	a := &artifact{config: config, layer: static.NewLayer(archive, helmChart)}
	configDescriptor, err := partial.Descriptor(static.NewLayer(config, helmConfig))
	if err != nil {
		return nil, err
	}
	layerDescriptor, err := partial.Descriptor(a.layer)
	if err != nil {
		return nil, err
	}
	annotations := map[string]string{"org.opencontainers.image.created": date.Format(time.RFC3339)}
	for annotation, field := range map[string]string{"title": "name", "version": "version", "description": "description"} {
		annotations["org.opencontainers.image."+annotation] = fmt.Sprint(metadata[field])
	}
	a.manifest, err = json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: *configDescriptor, Layers: []v1.Descriptor{*layerDescriptor},
		Annotations: annotations,
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(a)
}

// chartMetadata is the Chart.yaml of an archive.
func chartMetadata(archive []byte) (map[string]any, error) {
	uncompressed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	for files := tar.NewReader(uncompressed); ; {
		header, err := files.Next()
		if err != nil {
			return nil, errors.Join(errors.New("no Chart.yaml"), err)
		}
		if header.Name != chartName+"/Chart.yaml" {
			continue
		}
		content, err := io.ReadAll(files)
		if err != nil {
			return nil, err
		}
		metadata := map[string]any{}
		return metadata, yaml.UnmarshalStrict(content, &metadata)
	}
}

// MediaType implements partial.CompressedImageCore, as the methods below do.
func (a *artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// RawConfigFile returns the chart's metadata.
func (a *artifact) RawConfigFile() ([]byte, error) { return a.config, nil }

// RawManifest returns the manifest as it is stored.
func (a *artifact) RawManifest() ([]byte, error) { return a.manifest, nil }

// LayerByDigest returns the archive.
func (a *artifact) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	if own, err := a.layer.Digest(); err != nil || own != digest {
		return nil, fmt.Errorf("no layer %s", digest)
	}
	return a.layer, nil
}
