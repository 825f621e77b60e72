package kcp

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/client-go/rest"
)

// clusterName is what kcp names the logical clusters of workspaces: one segment of a path, without a colon. The IsValid of
// logicalcluster.Name also takes everything that begins with "system:", slashes included.
var clusterName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// maxShownBytes is how much of an invalid name is quoted.
const maxShownBytes = 64

// ValidateName returns why name is not the name of a workspace's logical cluster, nil if it is. It rejects the wildcard "*",
// paths of workspaces such as "root:org", and the logical clusters of a shard itself, such as "system:admin". A name that comes
// with a request has to be validated before it becomes part of an address.
func ValidateName(name logicalcluster.Name) error {
	if clusterName.MatchString(name.String()) {
		return nil
	}
	return fmt.Errorf("%.*q is not the name of a logical cluster", maxShownBytes, name.String())
}

// validatePath takes the path of a workspace, the name of its logical cluster, and those of a shard itself: valid names,
// separated by colons.
func validatePath(path logicalcluster.Path) error {
	for segment := range strings.SplitSeq(path.String(), ":") {
		if !clusterName.MatchString(segment) {
			return fmt.Errorf("%.*q is not the path of a workspace", maxShownBytes, path.String())
		}
	}
	return nil
}

// ConfigForName returns config for the logical cluster of a workspace, by its name. Unlike ConfigFor it takes names that come
// with requests.
func ConfigForName(config *rest.Config, name logicalcluster.Name) (*rest.Config, error) {
	if err := ValidateName(name); err != nil {
		return nil, err
	}
	return ConfigFor(config, name.Path())
}

// RequestPath returns the path below which kcp serves the logical cluster of a workspace.
func RequestPath(name logicalcluster.Name) (string, error) {
	if err := ValidateName(name); err != nil {
		return "", err
	}
	return name.Path().RequestPath(), nil
}
