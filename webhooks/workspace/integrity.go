package workspace

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/kcp"
)

// guardedOnUpdate are kcp's annotations that only the system may change: the owner, and the annotations that a rewrite depends on. The
// new owner is scoped to the logical cluster, and is a member of the required groups there.
var guardedOnUpdate = []string{kcp.OwnerAnnotation, kcp.ClusterAnnotation, kcp.RequiredGroupsAnnotation}

// guardedOnCreate are the guarded annotations that kcp does not set, check or overwrite when a Workspace is created.
var guardedOnCreate = []string{kcp.ClusterAnnotation}

// What kcp takes over from system:masters, and sets, checks or denies itself for all other requesters: annotations of a Workspace that is created, and
// fields.
var (
	keptFromSystem = []string{kcp.OwnerAnnotation, kcp.RequiredGroupsAnnotation}
	specOfSystem   = []string{"spec.cluster", "spec.URL"}
)

// reasonUnchanged is the reason of requests that change no guarded annotation.
const reasonUnchanged = "Unchanged"

// Texts of a denial.
const (
	whyGuarded  = "kcp acts in the workspace as the identity that is recorded there, so only the system may change it"
	whatToDo    = "leave it as it is"
	orLeaveOut  = ", or out of the request" // of an annotation that was not left out
	orAccess    = "; to give others access, bind them to a role inside the workspace"
	whyTooMany  = "it cannot be checked whether the recorded identity stays the same"
	whyClaimed  = "only the system may set it, and the author of a WorkspaceType or an APIExport can claim to be the system in a virtual workspace of kcp"
	whatClaimed = "leave it out, and send the request as yourself"
)

// maxAnnotations is the number of annotations that the admission policy can compare in milliseconds. An API server takes half a minute for
// 20,000 of them, which fit into an object, and with more it exceeds its cost limit.
const maxAnnotations = 256

var (
	// tooMany is in place of the annotations that a request changes if there are more than maxAnnotations.
	tooMany     = fmt.Sprintf("one of more than %d annotations", maxAnnotations)
	whatTooMany = fmt.Sprintf("use at most %d annotations when you create it, because kcp and warrantgate add some; if it has more than %d, only "+
		"system:masters can remove them", maxAnnotations-16, maxAnnotations)
)

// isDenied reports whether the policy denies changes of guarded annotations or fields: those by anybody but the system.
func isDenied(request admission.Request, changed []string) bool {
	return len(changed) > 0 && !identity.IsSystem(request.UserInfo.Groups, request.UserInfo.Extra[identity.WarrantKey])
}

// whyDenied returns the reason for the denial of changes.
func whyDenied(request admission.Request, changed []string) string {
	switch {
	case slices.Contains(changed, tooMany):
		return whyTooMany
	case claimsSystem(request):
		return whyClaimed
	}
	return whyGuarded
}

// claimsSystem reports whether a request comes from system:masters that anybody can claim to be. kcp treats it like the system.
func claimsSystem(request admission.Request) bool {
	requester := request.UserInfo
	return slices.Contains(requester.Groups, user.SystemPrivilegedGroup) && !identity.IsSystem(requester.Groups, requester.Extra[identity.WarrantKey])
}

// changes returns the guarded annotations and fields that a request changes.
func (r reviewed) changes(request admission.Request) []string {
	changed := guardedChanges(request.Operation, r.old.Annotations, r.object.Annotations)
	if claimsSystem(request) {
		changed = append(changed, r.claimedChanges()...)
	}
	return changed
}

// claimedChanges returns what else a request changes that kcp allows to system:masters only.
func (r reviewed) claimedChanges() []string {
	var changed []string
	for _, key := range keptFromSystem {
		if _, has := r.object.Annotations[key]; has && !r.exists {
			changed = append(changed, key)
		}
	}
	for i, differs := range []bool{r.object.spec.Cluster != r.old.spec.Cluster, r.object.spec.URL != r.old.spec.URL} {
		if differs {
			changed = append(changed, specOfSystem[i])
		}
	}
	return changed
}

// guardedChanges returns the guarded annotations that differ, sorted, or tooMany. Those that an update leaves out were put back before, by
// restorePolicy or by DenialNotice. If they were not, because neither was there, the update is denied.
func guardedChanges(operation admissionv1.Operation, before, after map[string]string) []string {
	if max(len(before), len(after)) > maxAnnotations {
		if maps.Equal(before, after) {
			return nil
		}
		return []string{tooMany}
	}
	guarded := guardedOnUpdate
	if operation == admissionv1.Create {
		guarded = guardedOnCreate
	}
	changed := map[string]bool{}
	for _, annotations := range []map[string]string{before, after} {
		for key := range annotations {
			was, had := before[key]
			is, has := after[key]
			// An update may leave out the logical cluster of the object, but must not set another one.
			moved := key == logicalcluster.AnnotationKey && operation == admissionv1.Update && has
			if !moved && !isGuarded(key, guarded) {
				continue
			}
			if had != has || was != is {
				changed[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(changed))
}

// isGuarded reports whether an annotation is one of a list, or warrantgate's own.
func isGuarded(key string, guarded []string) bool {
	return slices.Contains(guarded, key) || strings.HasPrefix(key, annotationPrefix)
}
