package clusterapi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// discoverer tells what an API server serves now. The discovery clients of client-go remember that, or read all of it.
type discoverer interface {
	// versions returns the versions in which a resource is served, the preferred one first, none if it is not served.
	versions(ctx context.Context, resource schema.GroupResource) ([]string, error)
}

// restDiscovery asks an API server, by a client for any of its paths.
type restDiscovery struct{ client rest.Interface }

func (d restDiscovery) versions(ctx context.Context, resource schema.GroupResource) ([]string, error) {
	var group metav1.APIGroup
	err := d.client.Get().AbsPath("/apis", resource.Group).Do(ctx).Into(&group)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read which versions of group %q are served: %w", resource.Group, err)
	}
	var served []string
	for _, version := range group.Versions {
		var resources metav1.APIResourceList
		err := d.client.Get().AbsPath("/apis", resource.Group, version.Version).Do(ctx).Into(&resources)
		if err != nil && !apierrors.IsNotFound(err) { // what is gone since is not served
			return nil, fmt.Errorf("read which resources of %q are served: %w", version.GroupVersion, err)
		}
		if !slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool { return r.Name == resource.Resource }) {
			continue
		}
		if version.Version == group.PreferredVersion.Version {
			served = slices.Insert(served, 0, version.Version)
		} else {
			served = append(served, version.Version)
		}
	}
	return served, nil
}

// VersionError says that a resource is served, but in none of the versions that are configured. Its objects cannot be read,
// and the webhooks are not asked about them.
type VersionError struct {
	Resource schema.GroupVersionResource
	// Served are the versions in which it is served.
	Served []string
}

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s are served in version %s, and not in %s, which warrantgate reads: configure a version that is served, or have %s served again",
		e.Resource.GroupResource(), strings.Join(e.Served, ", "), e.Resource.Version, e.Resource.Version)
}

// installed is true if the resource is served in its version, or in any if it has none. It is an error if it is served in other
// versions only.
func (r *reader) installed(ctx context.Context, resource schema.GroupVersionResource) (bool, error) {
	served, err := r.discovery.versions(ctx, resource.GroupResource())
	switch {
	case err != nil:
		return false, err
	case len(served) == 0 || resource.Version == "" || slices.Contains(served, resource.Version):
		return len(served) > 0, nil
	}
	return false, &VersionError{Resource: resource, Served: served}
}

// notInstalled returns nil if no version of the resource is served, so that there are no objects, and otherwise why they are
// not known.
func (r *reader) notInstalled(ctx context.Context, resource schema.GroupVersionResource) error {
	installed, err := r.installed(ctx, resource)
	if installed {
		return fmt.Errorf("%s were not served a moment ago", resource.GroupResource())
	}
	return err
}
