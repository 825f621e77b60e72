package main

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// archive writes the image of one program to a file that "docker load" reads.
func archive(args []string) error {
	flags := flag.NewFlagSet("oci archive", flag.ExitOnError)
	image := flags.String("image", "", "name and tag of the image")
	version := flags.String("version", "", "version of the program")
	revision := flags.String("revision", "", "commit of the program")
	arch := flags.String("arch", runtime.GOARCH, "architecture of the program, as Go names it")
	_ = flags.Parse(args) // it exits
	if flags.NArg() != 2 {
		return errors.New("archive: name the program and the archive")
	}
	tag, err := name.NewTag(*image)
	if err != nil {
		return err
	}
	date, err := commitDate()
	if err != nil {
		return err
	}
	program, err := os.ReadFile(flags.Arg(0))
	if err != nil {
		return err
	}
	made, err := newImageFor(about{version: *version, revision: *revision, date: date}, *arch, program)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(flags.Arg(1), tag, made)
}

// contents are what two images of the same sources have in common, regardless of the engine.
type contents struct {
	User       string
	Entrypoint []string
	Labels     map[string]string
	// Files are the modes and hashes of all files, by path.
	Files map[string]string
}

func newContents(image v1.Image) (contents, error) {
	var c contents
	config, err := image.ConfigFile()
	if err != nil {
		return c, err
	}
	c = contents{User: config.Config.User, Entrypoint: config.Config.Entrypoint, Labels: map[string]string{}, Files: map[string]string{}}
	for label, value := range config.Config.Labels {
		if label != "io.buildah.version" { // buildah and podman add it
			c.Labels[label] = value
		}
	}
	archive := mutate.Extract(image)
	defer archive.Close()
	for files := tar.NewReader(archive); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return c, nil
		}
		if err != nil {
			return c, err
		}
		if header.Typeflag == tar.TypeDir {
			continue // an engine writes folders, too
		}
		content, err := io.ReadAll(files)
		if err != nil {
			return c, err
		}
		c.Files[strings.TrimPrefix(header.Name, "/")] = describe(header.FileInfo().Mode(), content)
	}
}

func describe(mode os.FileMode, content []byte) string {
	return fmt.Sprintf("%s, %d bytes, sha256:%x", mode, len(content), sha256.Sum256(content))
}

// compare returns an error that says what is different in two archives.
func compare(one, other string) error {
	var both [2]contents
	for i, file := range []string{one, other} {
		image, err := tarball.ImageFromPath(file, nil)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if both[i], err = newContents(image); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	if !reflect.DeepEqual(both[0], both[1]) {
		return fmt.Errorf("%s has\n%+v\n%s has\n%+v", one, both[0], other, both[1])
	}
	fmt.Printf("%s and %s have the same content:\n", one, other)
	for file, content := range both[0].Files {
		fmt.Printf("%s: %s\n", file, content)
	}
	return nil
}
