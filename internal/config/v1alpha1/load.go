package v1alpha1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
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

// RolePolicy returns which roles in OpenStack may be delegated, in the terms of the domain.
func (c GateConfiguration) RolePolicy() identity.RolePolicy {
	roles := c.Delegation.OpenStackRoles
	return identity.RolePolicy{Required: roles.Required, Allowed: roles.Allowed, Denied: roles.Denied}
}
