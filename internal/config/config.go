// Package config reads the configuration file of warrantgate, config.warrantgate.dev/v1beta1.
//
// A file is decoded strictly, completed with defaults and validated. These are a few plain functions and no scheme of Kubernetes, which
// requires types with DeepCopy methods.
package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

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
// another case or repeated are errors. An error is of type Mistakes.
func Parse(raw []byte) (v1beta1.GateConfiguration, error) {
	var document yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(raw))
	if err := documents.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return v1beta1.GateConfiguration{}, Mistakes{explainTab(err, raw)}
	}
	if err := documents.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return v1beta1.GateConfiguration{}, Mistakes{cmp.Or(err, errors.New("there is more than one document"))}
	}
	var config v1beta1.GateConfiguration
	d := &decoder{lines: map[string]int{}}
	for _, content := range document.Content { // none in an empty file
		d.decode(content, reflect.ValueOf(&config).Elem(), nil)
	}
	if mistakes := validateMeta(config.TypeMeta); len(mistakes) > 0 { // the rest cannot be interpreted
		if d.found = slices.DeleteFunc(d.found, func(m mistake) bool { return m.path != "" }); len(d.found) == 0 {
			d.validate(mistakes)
		}
	} else {
		v1beta1.SetDefaults(&config)
		d.validate(v1beta1.Validate(config))
	}
	if err := d.mistakes(); err != nil {
		return v1beta1.GateConfiguration{}, err
	}
	return config, nil
}

// tabError matches errors of the YAML parser about a tab. A character that cannot start a token may also be another one.
var tabError = regexp.MustCompile(`line ([0-9]+): found (a tab character|character that cannot start any token)`)

// explainTab returns an error of the YAML parser, or that a line begins with a tab: YAML allows spaces only. The line in an error about a tab may be
// that of the field before.
func explainTab(err error, raw []byte) error {
	found := tabError.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	named, convErr := strconv.Atoi(found[1])
	later := found[2] == "a tab character"
	for i, line := range bytes.Split(raw, []byte("\n")) {
		if convErr == nil && (i+1 == named || later && i+1 > named) && bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("\t")) {
			return fmt.Errorf("line %d: begins with a tab; indent it with spaces", i+1)
		}
	}
	return err
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
