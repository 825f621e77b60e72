package v1alpha1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/internal/identity"
)

// Load reads the file at path strictly, fills in defaults and validates. An empty path means the defaults. The error
// names the file and every mistake in it.
func Load(path string) (GateConfiguration, error) {
	if path == "" {
		return Default(), nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return GateConfiguration{}, fmt.Errorf("read the configuration: %w", err)
	}
	config, err := Parse(raw)
	if err != nil {
		return GateConfiguration{}, fmt.Errorf("configuration %s: %w", path, err)
	}
	return config, nil
}

// Default returns the configuration that holds where no file is given.
func Default() GateConfiguration {
	var config GateConfiguration
	config.APIVersion, config.Kind = APIVersion, Kind
	setDefaults(&config)
	return config
}

// Parse decodes, defaults and validates the content of a configuration file, in YAML or JSON. Fields that do not
// exist, are written in another case or stand there twice are errors.
func Parse(raw []byte) (GateConfiguration, error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	first, err := documents.Read()
	if err != nil && !errors.Is(err, io.EOF) { // an empty file is a document without an apiVersion
		return GateConfiguration{}, err
	}
	if _, err := documents.Read(); !errors.Is(err, io.EOF) {
		return GateConfiguration{}, errors.New("there is more than one document")
	}
	document, err := yaml.YAMLToJSONStrict(first)
	if err != nil {
		return GateConfiguration{}, err
	}
	var config GateConfiguration
	mistakes, err := kjson.UnmarshalStrict(document, &config)
	if err != nil {
		return GateConfiguration{}, err
	}
	setDefaults(&config)
	for _, mistake := range validate(config) {
		mistakes = append(mistakes, mistake)
	}
	if len(mistakes) > 0 {
		return GateConfiguration{}, utilerrors.NewAggregate(mistakes)
	}
	return config, nil
}

// Policy returns the delegation policy in the terms of the domain.
func (c GateConfiguration) Policy() identity.Policy {
	return identity.Policy{Users: c.Delegation.KeepWarrants.Users, Groups: c.Delegation.KeepWarrants.Groups}
}

func setDefaults(config *GateConfiguration) {
	for _, gate := range []*Gate{&config.Workspace.OwnerRewrite, &config.Workspace.OwnerIntegrity} {
		if gate.Mode == "" {
			gate.Mode = Enforce
		}
	}
	if config.Repair.Mode == "" {
		config.Repair.Mode = Enforce
	}
	if config.Repair.After.Duration == 0 {
		config.Repair.After.Duration = time.Minute
	}
	if config.Repair.Rate == 0 {
		config.Repair.Rate = 50
	}
}

func validate(config GateConfiguration) field.ErrorList {
	var errs field.ErrorList
	if config.APIVersion != APIVersion {
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), config.APIVersion, []string{APIVersion}))
	}
	if config.Kind != Kind {
		errs = append(errs, field.NotSupported(field.NewPath("kind"), config.Kind, []string{Kind}))
	}
	workspace := field.NewPath("workspace")
	errs = append(errs, validateMode(config.Workspace.OwnerRewrite.Mode, workspace.Child("ownerRewrite"))...)
	errs = append(errs, validateMode(config.Workspace.OwnerIntegrity.Mode, workspace.Child("ownerIntegrity"))...)
	repair := field.NewPath("repair")
	errs = append(errs, validateMode(config.Repair.Mode, repair)...)
	if config.Repair.After.Duration < 0 {
		errs = append(errs, field.Invalid(repair.Child("after"), config.Repair.After.Duration.String(), "must not be negative"))
	}
	if config.Repair.Rate < 0 {
		errs = append(errs, field.Invalid(repair.Child("rate"), config.Repair.Rate, "must be at least 1"))
	}
	return append(errs, config.Policy().Validate(field.NewPath("delegation", "keepWarrants"))...)
}

func validateMode(mode Mode, at *field.Path) field.ErrorList {
	switch mode {
	case Enforce, Warn, Off:
		return nil
	default:
		return field.ErrorList{field.NotSupported(at.Child("mode"), mode, []Mode{Enforce, Warn, Off})}
	}
}
