package openstack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"

	yamlv2 "go.yaml.in/yaml/v2"
	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/internal/ownership"
)

const (
	// cloudsKey and caKey are the keys of a Secret that Cluster API Provider OpenStack reads.
	cloudsKey = "clouds.yaml"
	caKey     = "cacert"
	// maxCloudsBytes is the maximum size of clouds.yaml. A file with ten clouds has about 5 KiB.
	maxCloudsBytes = 64 << 10
	// maxExpandedBytes is the maximum size of clouds.yaml after the expansion of its aliases, which the conversion to JSON does.
	maxExpandedBytes = 4 * maxCloudsBytes
)

// clouds is a clouds.yaml. Types and parser are those of Cluster API Provider OpenStack, so that the gate checks the credentials that the
// provider uses.
type clouds struct {
	Clouds map[string]entry `json:"clouds"`
}

// entry contains the used fields of a cloud. The other fields are ignored: paths of files, what disables the verification of certificates, and
// "interface", which the provider does not read either.
type entry struct {
	Auth         *auth  `json:"auth"`
	AuthType     string `json:"auth_type"`
	RegionName   string `json:"region_name"`
	EndpointType string `json:"endpoint_type"`
}

type auth struct {
	AuthURL  string `json:"auth_url"`
	Token    string `json:"token"`
	UserID   string `json:"user_id"`
	Username string `json:"username"`
	Password string `json:"password"`

	ApplicationCredentialID     string `json:"application_credential_id"`
	ApplicationCredentialName   string `json:"application_credential_name"`
	ApplicationCredentialSecret string `json:"application_credential_secret"`

	ProjectID         string `json:"project_id"`
	ProjectName       string `json:"project_name"`
	ProjectDomainID   string `json:"project_domain_id"`
	ProjectDomainName string `json:"project_domain_name"`
	UserDomainID      string `json:"user_domain_id"`
	UserDomainName    string `json:"user_domain_name"`
	DomainID          string `json:"domain_id"`
	DomainName        string `json:"domain_name"`
	DefaultDomain     string `json:"default_domain"`
	SystemScope       string `json:"system_scope"`
	TrustID           string `json:"trust_id"`
}

// readEntry returns the cloud of the identity. Errors contain no part of the file, because it contains secrets.
func readEntry(identity ownership.Identity, data map[string][]byte) (entry, error) {
	fail := func(problem string) (entry, error) {
		return entry{}, unusable(identity, IdentityMalformed, "%s", problem)
	}
	all, problem := readClouds(data)
	if problem != "" {
		return fail(problem)
	}
	if len(all) == 0 {
		return fail(cloudsKey + " has no clouds")
	}
	cloud, found := all[identity.Entry]
	if !found {
		return fail(cloudsKey + " has no cloud of this name")
	}
	return cloud, nil
}

// CloudsIn returns the Keystone URL of each cloud in the clouds.yaml of a Secret, by the name of the cloud, "" for a cloud without a valid one.
// It returns none if the clouds.yaml is invalid.
func CloudsIn(data map[string][]byte) map[string]string {
	all, _ := readClouds(data)
	authURLs := make(map[string]string, len(all))
	for name, cloud := range all {
		authURLs[name] = ""
		if cloud.Auth != nil {
			authURLs[name], _ = canonicalAuthURL(cloud.Auth.AuthURL)
		}
	}
	return authURLs
}

// ChangedClouds returns the names of the clouds that a write adds to the clouds.yaml of a Secret or changes. The error is an
// *ownership.IdentityError.
func ChangedClouds(secret string, before, after map[string][]byte) ([]string, error) {
	if len(after[cloudsKey]) == 0 {
		return nil, nil
	}
	now, problem := readClouds(after)
	if problem != "" {
		return nil, &ownership.IdentityError{Reason: IdentityMalformed, Message: fmt.Sprintf("Secret %q: %s", secret, problem)}
	}
	was, _ := readClouds(before) // an invalid file counts as empty
	var changed []string
	for name := range now {
		if !reflect.DeepEqual(was[name], now[name]) {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed, nil
}

// readClouds returns the clouds of a Secret by name, or the problem of its clouds.yaml.
func readClouds(data map[string][]byte) (entries map[string]entry, problem string) {
	content, found := data[cloudsKey]
	switch {
	case !found:
		return nil, fmt.Sprintf("the Secret has no key %q", cloudsKey)
	case len(content) > maxCloudsBytes:
		return nil, fmt.Sprintf("%s has %d bytes, more than the %d that are read", cloudsKey, len(content), maxCloudsBytes)
	}
	if problem := expands(content); problem != "" {
		return nil, problem
	}
	// Parsers treat repeated keys in different ways. The provider's takes 1 and "1" for one key, and keeps one of the two values at random.
	var parsed any
	if err := yamlv2.UnmarshalStrict(content, &parsed); err != nil {
		return nil, fmt.Sprintf("%s is not valid YAML%s", cloudsKey, line(err))
	}
	if !hasTextKeys(parsed) {
		return nil, cloudsKey + " is not accepted: one of its keys is not a text, but a number, a Boolean value or null; put it in quotes"
	}
	var all clouds
	if err := yaml.Unmarshal(content, &all); err != nil {
		return nil, fmt.Sprintf("%s has a value of the wrong type%s", cloudsKey, place(err))
	}
	return all.Clouds, ""
}

// hasTextKeys reports whether all keys of a document are texts.
func hasTextKeys(value any) bool {
	switch value := value.(type) {
	case []any:
		return !slices.ContainsFunc(value, func(item any) bool { return !hasTextKeys(item) })
	case map[any]any:
		for key, inner := range value {
			if _, isText := key.(string); !isText || !hasTextKeys(inner) {
				return false
			}
		}
	}
	return true
}

// expands returns a problem if the aliases of clouds.yaml expand to more than maxExpandedBytes.
func expands(content []byte) (problem string) {
	if !bytes.Contains(content, []byte("*")) {
		return ""
	}
	var document yamlv3.Node // without expansion of aliases
	if err := yamlv3.Unmarshal(content, &document); err != nil {
		return fmt.Sprintf("%s is not valid YAML%s", cloudsKey, line(err))
	}
	if expandedSize(&document, map[*yamlv3.Node]int{}) > maxExpandedBytes {
		return fmt.Sprintf("%s is not accepted: its aliases expand to more than %d bytes", cloudsKey, maxExpandedBytes)
	}
	return ""
}

// expandedSize returns the approximate size of a node after expansion, or more than maxExpandedBytes. known contains the sizes of nodes.
func expandedSize(node *yamlv3.Node, known map[*yamlv3.Node]int) int {
	if node.Kind == yamlv3.AliasNode {
		node = node.Alias
	}
	if size, found := known[node]; found {
		return size
	}
	known[node] = maxExpandedBytes + 1 // the size of a node that contains itself
	size := len(node.Value) + 1
	for _, inner := range node.Content {
		size = min(size+expandedSize(inner, known), maxExpandedBytes+1)
	}
	known[node] = size
	return size
}

var linePattern = regexp.MustCompile(`^[^\n]{0,40}?yaml: (line [0-9]{1,6}):`)

// line returns the line number in the error of the YAML parser, "" if it has none.
func line(err error) string {
	if found := linePattern.FindStringSubmatch(err.Error()); found != nil {
		return ": " + found[1]
	}
	return ""
}

// place returns the field with the wrong type.
func place(err error) string {
	var mistyped *json.UnmarshalTypeError
	if !errors.As(err, &mistyped) || mistyped.Field == "" {
		return ""
	}
	return fmt.Sprintf(": %s has to be %s", mistyped.Field, typeOf(mistyped))
}

func typeOf(err *json.UnmarshalTypeError) string {
	if err.Type.Kind().String() == "string" {
		return "a text"
	}
	return "a mapping"
}
