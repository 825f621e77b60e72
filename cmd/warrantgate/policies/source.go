package policies

import (
	"archive/zip"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"warrantgate.dev/internal/oslopolicy"
)

const (
	// maxPolicyBytes limits the bytes that are read of a policy file. It is one byte more than lint evaluates, so that a larger file is found
	// to be larger.
	maxPolicyBytes = 256<<10 + 1
	// maxPolicyFiles limits the policy files of a directory or an archive.
	maxPolicyFiles = 64
	// maxArchiveBytes limits the size of an archive, and maxArchiveEntries its number of entries.
	maxArchiveBytes, maxArchiveEntries = 4 << 20, 1000
)

// readSources reads the policy files that a name stands for: a file, a directory such as policy.d, or an archive in the form that the charm
// of Keystone accepts. It returns them in the order in which Keystone loads them.
func readSources(name string) ([]oslopolicy.Source, error) {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return readDirectory(name)
	case strings.EqualFold(filepath.Ext(name), ".zip"):
		return readArchive(name)
	}
	document, err := readPolicy(name)
	if err != nil {
		return nil, err
	}
	return []oslopolicy.Source{{Name: name, Data: document}}, nil
}

// readBase reads the files that --base names, in order.
func readBase(names []string) ([]*oslopolicy.File, error) {
	var base []*oslopolicy.File
	for _, name := range names {
		sources, err := readSources(name)
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

// readPolicy reads a file, up to maxPolicyBytes.
func readPolicy(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	document, err := io.ReadAll(io.LimitReader(file, maxPolicyBytes))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return document, nil
}

// readDirectory reads the files that oslo.policy loads of a directory: those whose names do not begin with a dot, in the order of their
// names. It does not read subdirectories.
func readDirectory(name string) ([]oslopolicy.Source, error) {
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
		if info.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is not a regular file", file)
		}
		if len(sources) == maxPolicyFiles {
			return nil, fmt.Errorf("%s has more than %d files", name, maxPolicyFiles)
		}
		document, err := readPolicy(file)
		if err != nil {
			return nil, err
		}
		sources = append(sources, oslopolicy.Source{Name: file, Data: document})
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("%s has no policy files", name)
	}
	return sources, nil
}

// readArchive reads a zip archive as the charm does: each YAML file becomes a file of policy.d under its own name, in whatever directory of
// the archive it is, and other files are ignored. Nothing is written. A malicious archive is an error.
func readArchive(name string) ([]oslopolicy.Source, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxArchiveBytes {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, info.Size(), maxArchiveBytes)
	}
	archive, err := zip.OpenReader(name)
	if err != nil {
		return nil, fmt.Errorf("%s is not a readable zip archive: %w", name, err)
	}
	defer archive.Close()
	if len(archive.File) > maxArchiveEntries {
		return nil, fmt.Errorf("%s has %d entries, more than %d", name, len(archive.File), maxArchiveEntries)
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
		byName[base] = entry
	}
	if len(byName) == 0 || len(byName) > maxPolicyFiles {
		return nil, fmt.Errorf("%s has %d policy files, and must have 1 to %d", name, len(byName), maxPolicyFiles)
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
	bases := make([]string, 0, len(byName))
	for base := range byName {
		bases = append(bases, base)
	}
	slices.SortFunc(bases, cmp.Compare[string])
	for _, base := range bases {
		reader, err := byName[base].Open()
		if err != nil {
			return nil, fmt.Errorf("%s: %.200q: %w", name, byName[base].Name, err)
		}
		// The size in the archive's header may be wrong.
		document, err := io.ReadAll(io.LimitReader(reader, maxPolicyBytes))
		if err = errors.Join(err, reader.Close()); err != nil {
			return nil, fmt.Errorf("%s: %.200q: %w", name, byName[base].Name, err)
		}
		sources = append(sources, oslopolicy.Source{Name: name + "/" + byName[base].Name, Data: document})
	}
	return sources, nil
}
