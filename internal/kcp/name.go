package kcp

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/client-go/rest"
)

// clusterName matches the names that kcp gives to the logical clusters of workspaces: one path segment without a colon. IsValid of
// logicalcluster.Name also accepts every text with the prefix "system:", even with slashes.
var clusterName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// exportName matches the names of APIExports: one path segment.
var exportName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// maxShownBytes limits how much of an invalid name an error quotes.
const maxShownBytes = 64

// ValidateName returns an error if name is not the name of a workspace's logical cluster. It rejects the wildcard "*", paths of
// workspaces such as "root:org", and the logical clusters of a shard, such as "system:admin". Validate a name from a request before
// it becomes part of a URL.
func ValidateName(name logicalcluster.Name) error {
	if clusterName.MatchString(name.String()) {
		return nil
	}
	return fmt.Errorf("%.*q is not the name of a logical cluster", maxShownBytes, name.String())
}

// maxSegments limits the names in a path. kcp has no limit: the administrator of a workspace can write hundreds of thousands into its
// LogicalCluster, and whether a workspace exists takes one request for each of them.
const maxSegments = 32

// validatePath accepts the path of a workspace, the name of its logical cluster, and the logical clusters of a shard: valid names,
// separated by colons.
func validatePath(path logicalcluster.Path) error {
	segments := 0
	for segment := range strings.SplitSeq(path.String(), ":") {
		if segments++; segments > maxSegments {
			return fmt.Errorf("%.*q has more than %d names", maxShownBytes, path.String(), maxSegments)
		}
		if !clusterName.MatchString(segment) {
			return fmt.Errorf("%.*q is not the path of a workspace", maxShownBytes, path.String())
		}
	}
	return nil
}

// ConfigForName returns config for the logical cluster of a workspace, by its name. It validates the name, so the name may come
// from a request.
func ConfigForName(config *rest.Config, name logicalcluster.Name) (*rest.Config, error) {
	if err := ValidateName(name); err != nil {
		return nil, err
	}
	return ConfigFor(config, name.Path())
}

// RequestPath returns the URL path of the logical cluster of a workspace.
func RequestPath(name logicalcluster.Name) (string, error) {
	if err := ValidateName(name); err != nil {
		return "", err
	}
	return name.Path().RequestPath(), nil
}
