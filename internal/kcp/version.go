package kcp

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

// OwnerWarning is a warning for administrators of a kcp before v0.32.
const OwnerWarning = "this kcp is older than v0.32: a user who creates a WorkspaceType and a workspace of it can change the owner " +
	"annotation of its LogicalCluster while it is Initializing, and kcp then acts as any user in that workspace. warrantgate cannot prevent " +
	"that. Upgrade kcp to v0.32, or permit only administrators to create WorkspaceTypes"

// kcpVersion matches the version that a release of kcp reports, such as v1.34.2+kcp-v0.30.0.
var kcpVersion = regexp.MustCompile(`\+kcp-v(\d+)\.(\d+)\.`)

// OwnerIsImmutable reports whether kcp reads the owner of a LogicalCluster from spec.createdBy, which only
// system:kcp:external-logical-cluster-admin can change. kcp does from v0.32 on. Older versions read an annotation.
func OwnerIsImmutable(server discovery.DiscoveryInterface) (bool, error) {
	version, err := server.ServerVersion()
	if err != nil {
		return false, fmt.Errorf("read the version of kcp: %w", err)
	}
	if match := kcpVersion.FindStringSubmatch(version.GitVersion); match != nil {
		major, _ := strconv.Atoi(match[1]) // digits
		minor, _ := strconv.Atoi(match[2])
		return major > 0 || minor >= 32, nil
	}
	// A kcp that was built with "go build" reports no version.
	return HasMutatingPolicies(server)
}

// HasMutatingPolicies reports whether an API server serves MutatingAdmissionPolicies of admissionregistration.k8s.io/v1. kcp does from
// v0.32 on. The API server may serve them without evaluating them.
func HasMutatingPolicies(server discovery.DiscoveryInterface) (bool, error) {
	list, err := server.ServerResourcesForGroupVersion(admissionregistrationv1.SchemeGroupVersion.String())
	if err != nil {
		return false, fmt.Errorf("list the resources of %s: %w", admissionregistrationv1.SchemeGroupVersion, err)
	}
	return slices.ContainsFunc(list.APIResources, func(resource metav1.APIResource) bool {
		return resource.Name == "mutatingadmissionpolicies"
	}), nil
}
