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

// discoverer reads which versions an API server serves now. The discovery clients of client-go cache the result or read all of it.
type discoverer interface {
	// versions returns the served versions of a resource, the preferred one first. It returns none if the resource is not served.
	versions(ctx context.Context, resource schema.GroupResource) ([]string, error)
}

// restDiscovery implements discoverer with a client for any path.
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
		if err != nil && !apierrors.IsNotFound(err) { // a version that was removed in between is not served
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

// VersionError means that a resource is served, but in none of the configured versions. Its objects cannot be read, and the API
// server does not call the webhooks for them.
type VersionError struct {
	Resource schema.GroupVersionResource
	// Served are the served versions.
	Served []string
}

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s are served in version %s, and not in %s, which warrantgate reads: configure a version that is served, or have %s served again",
		e.Resource.GroupResource(), strings.Join(e.Served, ", "), e.Resource.Version, e.Resource.Version)
}

// installed is true if the resource is served in its version, or in any version if it has none. It is an error if only other
// versions are served.
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

// notInstalled returns nil if no version of the resource is served, so that no objects exist. Otherwise it returns the reason why
// the objects are unknown.
func (r *reader) notInstalled(ctx context.Context, resource schema.GroupVersionResource) error {
	installed, err := r.installed(ctx, resource)
	if installed {
		return fmt.Errorf("%s were not served a moment ago", resource.GroupResource())
	}
	return err
}
