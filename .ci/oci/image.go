package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the one of distroless' nonroot, by number, because runAsNonRoot cannot check a name.
const user = "65532:65532"

// newImage returns an index with an image for each architecture. Each has the static program and the CA certificates of
// Mozilla, which come from a Go module and so are pinned by hash. There is no base image: no shell, no package manager, and nothing
// else that has to be kept up to date.
func newImage(b build) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range slices.Sorted(maps.Keys(b.programs)) {
		program, err := os.ReadFile(b.programs[arch])
		if err != nil {
			return nil, err
		}
		image, err := newImageFor(about{version: "v" + b.Version, revision: b.Commit, date: b.date}, arch, program)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return index, nil
}

// about is what an image says about its program.
type about struct {
	version, revision string
	date              time.Time
}

func newImageFor(a about, arch string, program []byte) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, content := range []file{
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: certificates()},
		{name: "warrantgate", mode: 0o755, content: program},
	} {
		archive, err := pack(a.date, content)
		if err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil },
			tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{
			Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: a.date}, CreatedBy: content.name},
		})
		if err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: a.date}
	config.Config = v1.Config{
		Entrypoint: []string{"/warrantgate"}, User: user,
		Labels: map[string]string{
			"org.opencontainers.image.title":       "warrantgate",
			"org.opencontainers.image.description": "Admission webhooks that keep the identities right that control planes act as",
			"org.opencontainers.image.version":     a.version,
			"org.opencontainers.image.revision":    a.revision,
			"org.opencontainers.image.licenses":    "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// certificates are those of the CAs that a program trusts, in PEM. CAs that are trusted for a part of what they sign only are left out: a
// file cannot say that.
func certificates() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return all.Bytes()
}

type file struct {
	name    string
	mode    int64
	content []byte
}

// pack makes a tar archive of files, in that order, which belong to root.
func pack(date time.Time, files ...file) ([]byte, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: date}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}
