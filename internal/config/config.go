// Package config reads the configuration file of warrantgate, config.warrantgate.dev/v1beta1.
//
// A file is decoded strictly, completed with defaults and validated. These are a few plain functions and no scheme of Kubernetes, which
// requires types with DeepCopy methods.
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

	"warrantgate.dev/internal/config/v1beta1"
)

// Load reads the file at path strictly, sets defaults and validates. An empty path means the defaults. The error contains the path of
// the file and all mistakes.
func Load(path string) (v1beta1.GateConfiguration, error) {
	if path == "" {
		return v1beta1.Default(), nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return v1beta1.GateConfiguration{}, fmt.Errorf("read the configuration: %w", err)
	}
	config, err := Parse(raw)
	if err != nil {
		return v1beta1.GateConfiguration{}, fmt.Errorf("configuration %s: %w", path, err)
	}
	return config, nil
}

// Parse decodes, defaults and validates the content of a configuration file, in YAML or JSON. Fields that are unknown, written in
// another case or repeated are errors.
func Parse(raw []byte) (v1beta1.GateConfiguration, error) {
	document, err := onlyDocument(raw)
	if err != nil {
		return v1beta1.GateConfiguration{}, err
	}
	var meta metav1.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(document, &meta); err != nil {
		return v1beta1.GateConfiguration{}, fmt.Errorf("read apiVersion and kind: %w", err)
	}
	if mistakes := validateMeta(meta); len(mistakes) > 0 { // the rest cannot be interpreted
		return v1beta1.GateConfiguration{}, mistakes.ToAggregate()
	}
	var config v1beta1.GateConfiguration
	mistakes, err := kjson.UnmarshalStrict(document, &config)
	if err != nil {
		return v1beta1.GateConfiguration{}, err
	}
	v1beta1.SetDefaults(&config)
	for _, mistake := range v1beta1.Validate(config) {
		mistakes = append(mistakes, mistake)
	}
	if len(mistakes) > 0 {
		return v1beta1.GateConfiguration{}, utilerrors.NewAggregate(mistakes)
	}
	return config, nil
}

// onlyDocument returns the file's only document, in JSON. An empty file is an empty document.
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
	if meta.APIVersion != v1beta1.APIVersion {
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), meta.APIVersion, []string{v1beta1.APIVersion}))
	}
	if meta.Kind != v1beta1.Kind {
		errs = append(errs, field.NotSupported(field.NewPath("kind"), meta.Kind, []string{v1beta1.Kind}))
	}
	return errs
}
