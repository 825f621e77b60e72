package policies

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/internal/oslopolicy"
)

// standardInput is the argument for standard input, and stdinName its name in messages.
const standardInput, stdinName = "-", "stdin"

// inputs reads the files that the arguments of a command name.
type inputs struct {
	// stdin is nil after it has been read.
	stdin io.Reader
}

// readSources reads the policy files that a name stands for: a file, a directory such as policy.d, an archive in the form that the charm
// of Keystone accepts, or standard input. It returns them in the order in which Keystone loads them.
func (in *inputs) readSources(name string) ([]oslopolicy.Source, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return in.readDirectory(name)
	}
	i, err := in.read(name)
	if err != nil {
		return nil, err
	}
	if strings.EqualFold(filepath.Ext(name), ".zip") || bytes.HasPrefix(i.data, []byte("PK\x03\x04")) {
		return readArchive(i)
	}
	if err := checkManifest(i); err != nil {
		return nil, err
	}
	return []oslopolicy.Source{{Name: i.name, Data: i.data}}, nil
}

// checkManifest returns an error for the manifest of a Kubernetes object. Its data may contain a policy.
func checkManifest(i input) error {
	kind := manifestKind(i.data)
	if kind == "" {
		return nil
	}
	const instead = `; give the policy in its data instead, as kubectl get %s NAME --namespace NAMESPACE --output jsonpath='{.data.policy\.yaml}'` +
		"%s | warrantgate lint keystone-policy -"
	extract := ""
	switch kind {
	case "ConfigMap":
		extract = fmt.Sprintf(instead, "configmap", "")
	case "Secret":
		extract = fmt.Sprintf(instead, "secret", " | base64 -d")
	}
	return fmt.Errorf("%s is the manifest of a Kubernetes object (%.100q), not a policy%s", i.name, kind, extract)
}

// manifestKind returns the kind of a Kubernetes object, "" for other files.
func manifestKind(data []byte) string {
	var manifest metav1.TypeMeta
	if err := yaml.Unmarshal(data, &manifest); err != nil || manifest.APIVersion == "" {
		return ""
	}
	return manifest.Kind
}

// readBase reads the files that --base names, in order.
func (in *inputs) readBase(names []string) ([]*oslopolicy.File, error) {
	var base []*oslopolicy.File
	for _, name := range names {
		sources, err := in.readSources(name)
		if err != nil {
			return nil, fmt.Errorf("--base: %w", err)
		}
		files, err := oslopolicy.ReadAll(sources)
		if err != nil {
			return nil, fmt.Errorf("--base: %w", err)
		}
		base = append(base, files...)
	}
	return base, nil
}

// input is the content of a file or of standard input.
type input struct {
	// name is the name in messages.
	name string
	data []byte
}

// read reads a file or standard input. A file that is compressed is an error.
func (in *inputs) read(name string) (input, error) {
	i := input{name: name}
	var err error
	switch {
	case name != standardInput:
		i.data, err = os.ReadFile(name)
	case in.stdin == nil:
		err = errors.New("standard input can be read only once: give - once")
	default:
		i.name = stdinName
		i.data, err = io.ReadAll(in.stdin)
		in.stdin = nil
	}
	if err != nil {
		return input{}, err
	}
	if oslopolicy.IsGzip(i.data) {
		return input{}, fmt.Errorf("%s is compressed with gzip, so that Keystone cannot read it; unpack it first", i.name)
	}
	return i, nil
}

// readDirectory reads the files that oslo.policy loads of a directory, in the order of their names. It does not read subdirectories.
func (in *inputs) readDirectory(name string) ([]oslopolicy.Source, error) {
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var sources []oslopolicy.Source
	for _, entry := range entries {
		file := filepath.Join(name, entry.Name())
		info, err := os.Stat(file) // a mounted ConfigMap has links to its files
		if err != nil {
			return nil, err
		}
		if info.IsDir() || !oslopolicy.Loads(entry.Name()) {
			continue
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is not a regular file", file)
		}
		i, err := in.read(file)
		if err != nil {
			return nil, err
		}
		if err := checkManifest(i); err != nil {
			return nil, err
		}
		sources = append(sources, oslopolicy.Source{Name: file, Data: i.data})
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("%s has no policy files", name)
	}
	return sources, nil
}

// maxArchived limits the policy files of an archive, of which each may have oslopolicy.MaxFileBytes: a small archive can expand to gigabytes.
const maxArchived = 100

// readArchive reads a zip archive as the charm does: each YAML file becomes a file of policy.d under its own name, in whatever directory of
// the archive it is, and other files are ignored. Nothing is written. A malicious archive is an error.
func readArchive(i input) ([]oslopolicy.Source, error) {
	name := i.name
	archive, err := zip.NewReader(bytes.NewReader(i.data), int64(len(i.data)))
	if err != nil {
		return nil, fmt.Errorf("%s is not a readable zip archive: %w", name, err)
	}
	byName := map[string]*zip.File{}
	for _, entry := range archive.File {
		isPolicy, err := isArchivedPolicy(entry)
		if err != nil {
			return nil, fmt.Errorf("%s: %.200q %w", name, entry.Name, err)
		}
		if !isPolicy {
			continue
		}
		// The charm names the file after the entry, with another extension.
		base := strings.TrimSuffix(path.Base(entry.Name), path.Ext(entry.Name)) + ".yaml"
		if byName[base] != nil {
			return nil, fmt.Errorf("%s: %.200q and %.200q become the same file of policy.d", name, byName[base].Name, entry.Name)
		}
		if byName[base] = entry; len(byName) > maxArchived {
			return nil, fmt.Errorf("%s has more than %d policy files", name, maxArchived)
		}
	}
	if len(byName) == 0 {
		return nil, fmt.Errorf("%s has no policy files", name)
	}
	return unpack(name, byName)
}

// isArchivedPolicy reports whether the charm treats an entry as a policy file.
func isArchivedPolicy(entry *zip.File) (bool, error) {
	const encrypted = 1
	switch {
	case !fs.ValidPath(strings.TrimSuffix(entry.Name, "/")), strings.ContainsFunc(entry.Name, func(r rune) bool { return r == '\\' || !unicode.IsPrint(r) }):
		return false, errors.New("is not a path within the archive")
	case entry.Mode().IsDir():
		return false, nil
	case !entry.Mode().IsRegular():
		return false, errors.New("is not a regular file")
	case entry.Flags&encrypted != 0:
		return false, errors.New("is encrypted")
	}
	switch strings.ToLower(path.Ext(entry.Name)) {
	case ".yaml", ".yml":
		return true, nil
	case ".j2", ".tmpl", ".tpl":
		return false, errors.New("is a template; the policy that the charm renders from it is unknown")
	}
	return false, nil
}

// unpack reads the entries in the order of their names in policy.d.
func unpack(name string, byName map[string]*zip.File) ([]oslopolicy.Source, error) {
	var sources []oslopolicy.Source
	for _, base := range slices.Sorted(maps.Keys(byName)) {
		reader, err := byName[base].Open()
		if err != nil {
			return nil, fmt.Errorf("%s: %.200q: %w", name, byName[base].Name, err)
		}
		// A file that is larger than the limit is rejected when it is parsed.
		document, err := io.ReadAll(io.LimitReader(reader, oslopolicy.MaxFileBytes+1))
		if err = errors.Join(err, reader.Close()); err != nil {
			return nil, fmt.Errorf("%s: %.200q: %w", name, byName[base].Name, err)
		}
		sources = append(sources, oslopolicy.Source{Name: name + "/" + byName[base].Name, Data: document})
	}
	return sources, nil
}
