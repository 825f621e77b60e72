// Package config reads the configuration file of warrantgate, in each version that it ever had, and converts it into the current one.
//
// A file is decoded strictly by the types of its own version, then converted, and completed and validated as every other. These are
// a few plain functions and no scheme of Kubernetes: that one wants types that copy themselves, and tells mistakes without the
// version that they were made in.
package config

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/internal/config/v1alpha1"
	"warrantgate.dev/internal/config/v1beta1"
)

// Load reads the file at path strictly, fills in defaults and validates. An empty path means the defaults. It also returns the
// apiVersion that the file has, which may be an older one. The error names the file and every mistake in it.
func Load(path string) (config v1beta1.GateConfiguration, apiVersion string, err error) {
	if path == "" {
		return v1beta1.Default(), v1beta1.APIVersion, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return v1beta1.GateConfiguration{}, "", fmt.Errorf("read the configuration: %w", err)
	}
	read, err := decode(raw)
	if err == nil {
		config, err = read.complete()
	}
	if err != nil {
		return v1beta1.GateConfiguration{}, "", fmt.Errorf("configuration %s: %w", path, err)
	}
	return config, read.apiVersion, nil
}

// Parse decodes, converts, defaults and validates the content of a configuration file, in YAML or JSON. Fields that do not
// exist, are written in another case or stand there twice are errors.
func Parse(raw []byte) (v1beta1.GateConfiguration, error) {
	read, err := decode(raw)
	if err != nil {
		return v1beta1.GateConfiguration{}, err
	}
	return read.complete()
}

// Convert returns the content of a configuration file in the current version, in YAML, without defaults and without comments. A file
// of the current version is returned as it is. What Parse refuses is refused.
func Convert(raw []byte) ([]byte, error) {
	read, err := decode(raw)
	if err != nil {
		return nil, err
	}
	if _, err := read.complete(); err != nil {
		return nil, err
	}
	if read.apiVersion == v1beta1.APIVersion {
		return raw, nil
	}
	return yaml.Marshal(read.config)
}

// file is a configuration file that was decoded.
type file struct {
	// apiVersion is that of the file.
	apiVersion string
	// config is what the file says, in the current version.
	config v1beta1.GateConfiguration
	// fieldPath returns the path in the file of a field of the current version.
	fieldPath func(current string) string
	// mistakes are what cannot be in a file of this version.
	mistakes []error
}

func decode(raw []byte) (file, error) {
	document, err := onlyDocument(raw)
	if err != nil {
		return file{}, err
	}
	var meta metav1.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(document, &meta); err != nil {
		return file{}, fmt.Errorf("read apiVersion and kind: %w", err)
	}
	if mistakes := validateMeta(meta); len(mistakes) > 0 { // what else is in it cannot be judged
		return file{}, mistakes.ToAggregate()
	}
	read := file{apiVersion: meta.APIVersion}
	if meta.APIVersion == v1alpha1.APIVersion {
		var older v1alpha1.GateConfiguration
		read.mistakes, err = kjson.UnmarshalStrict(document, &older)
		read.config, read.fieldPath = older.Convert(), v1alpha1.FieldPath
		return read, err
	}
	read.mistakes, err = kjson.UnmarshalStrict(document, &read.config)
	read.fieldPath = func(current string) string { return current }
	return read, err
}

// onlyDocument returns the file's only document, in JSON. An empty file is a document that says nothing.
func onlyDocument(raw []byte) ([]byte, error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	first, err := documents.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if _, err := documents.Read(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document")
	}
	return yaml.YAMLToJSONStrict(first)
}

func validateMeta(meta metav1.TypeMeta) field.ErrorList {
	var errs field.ErrorList
	switch meta.APIVersion {
	case v1beta1.APIVersion, v1alpha1.APIVersion:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), meta.APIVersion, []string{v1beta1.APIVersion, v1alpha1.APIVersion}))
	}
	if meta.Kind != v1beta1.Kind {
		errs = append(errs, field.NotSupported(field.NewPath("kind"), meta.Kind, []string{v1beta1.Kind}))
	}
	return errs
}

// complete fills in the defaults and validates. It tells each mistake with the path that the field has in the file.
func (f file) complete() (v1beta1.GateConfiguration, error) {
	config, mistakes := f.config, f.mistakes
	v1beta1.SetDefaults(&config)
	for _, mistake := range v1beta1.Validate(config) {
		mistake.Field = f.fieldPath(mistake.Field)
		mistakes = append(mistakes, mistake)
	}
	if len(mistakes) > 0 {
		return v1beta1.GateConfiguration{}, utilerrors.NewAggregate(mistakes)
	}
	return config, nil
}
