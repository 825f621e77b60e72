package workspace

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/kcp"
)

// RestorePolicyName is the name of the MutatingAdmissionPolicy for Workspaces that are restored from a backup or applied from a manifest, and
// of its binding.
const RestorePolicyName = "warrantgate-restore"

// notRestored are the annotations that kcp's scheduler and warrantgate set on a Workspace. A backup contains them, and a Workspace that is
// created again must get new ones. kcp sets the owner, the required groups and kcp.io/* of a new Workspace itself, so they are not among them.
// No other annotation of warrantgate.dev is: the creation of a Workspace with one is denied, and canaries depend on that.
var notRestored = []string{
	kcp.ClusterAnnotation, kcp.ShardAnnotation, kcp.ShardHashAnnotation,
	kcp.CreatedByAnnotation, kcp.RewrittenByAnnotation, kcp.RepairedAtAnnotation,
}

// keptOnUpdate are kcp's annotations that an update cannot leave out: the guarded ones, and the shard, which kcp before v0.32 does not record
// again.
var keptOnUpdate = append(slices.Clone(guardedOnUpdate), kcp.ShardAnnotation, kcp.ShardHashAnnotation)

// placement are the fields of spec that kcp's scheduler sets. kcp denies the creation of a Workspace with them.
var placement = []string{"cluster", "URL"}

// restorePolicy returns the policy that keeps what kcp and warrantgate have recorded out of the requests of users, and its binding. When a
// Workspace is created, it removes notRestored and placement. When one is updated, it puts back annotations that the request leaves
// out, of keptOnUpdate and warrantgate.dev. Changes are left to the policy of owner integrity, and so are requests with more than maxAnnotations.
//
// kcp records the owner before it evaluates policies, and records it once more after a policy has changed the object. Both times it
// overwrites what the request contains.
func restorePolicy(config v1beta1.Workspace) []client.Object {
	if config.OwnerIntegrity.Mode != v1beta1.Enforce {
		return nil
	}
	annotationPatch := func(operation, value string) string {
		return fmt.Sprintf("JSONPatch{op: '%s', path: '/metadata/annotations/' + jsonpatch.escapeKey(key)%s}", operation, value)
	}
	remove := fmt.Sprintf("%s.filter(key, key in %s).map(key, %s)", celList(notRestored), celAfter, annotationPatch("remove", ""))
	for _, field := range placement {
		remove += fmt.Sprintf(" + (object.?spec[?'%[1]s'].hasValue() ? [JSONPatch{op: 'remove', path: '/spec/%[1]s'}] : [])", field)
	}
	putBack := fmt.Sprintf("(size(%[1]s) == 0 ? [JSONPatch{op: 'add', path: '/metadata/annotations', value: {}}] : []) + %[2]s.map(key, %[3]s)",
		celAfter, celLeftOut, annotationPatch("add", ", value: "+celBefore+"[key]"))
	return mutatingPolicy(RestorePolicyName, []admissionregistrationv1.MatchCondition{
		{Name: "not-by-system-masters", Expression: celKeepsRecorded},
		{Name: "removes-or-puts-back", Expression: celRemovable + " || " + celPutBack},
	}, nil, fmt.Sprintf("request.operation == 'CREATE' ? %s : %s", remove, putBack))
}

var (
	// celKeepsRecorded is keepsRecorded in CEL.
	celKeepsRecorded = "!" + celMasters

	// celRemovable is true of creations from which restorePolicy removes something.
	celRemovable = fmt.Sprintf("(request.operation == 'CREATE' && size(%[1]s) <= %[2]d && (%[3]s.exists(key, key in %[1]s) || "+
		"%[4]s.exists(key, object.?spec[?key].hasValue())))", celAfter, maxAnnotations, celList(notRestored), celList(placement))

	// celLeftOut is the list of annotations that an update leaves out and that are put back.
	celLeftOut = leftOutKeys(celBefore, celAfter, fmt.Sprintf("(key.startsWith('%s') || key in %s)", annotationPrefix, celList(keptOnUpdate)))

	// celPutBack is true of updates to which annotations are put back.
	celPutBack = fmt.Sprintf("(request.operation == 'UPDATE' && size(%[1]s) <= %[3]d && size(%[2]s) <= %[3]d && size(%[4]s) > 0)",
		celBefore, celAfter, maxAnnotations, celLeftOut)
)

// keepsRecorded reports whether restorePolicy changes the requests of a user. It does not change those of system:masters, because kcp stores the
// owner, required groups, spec.cluster and spec.URL that these contain: they are admitted or denied as they are.
func keepsRecorded(by authenticationv1.UserInfo) bool {
	return !slices.Contains(by.Groups, user.SystemPrivilegedGroup)
}

// removedFrom returns what restorePolicy removes from a Workspace that is created, sorted, and the annotations that remain.
func removedFrom(raw runtime.RawExtension, annotations map[string]string) (removed []string, remaining map[string]string) {
	if len(annotations) > maxAnnotations {
		return nil, annotations
	}
	remaining = maps.Clone(annotations)
	for _, key := range notRestored {
		if _, has := remaining[key]; has {
			removed = append(removed, key)
			delete(remaining, key)
		}
	}
	var sent struct {
		Spec map[string]any `json:"spec"`
	}
	if err := json.Unmarshal(raw.Raw, &sent); err != nil {
		return removed, remaining // kcp denies it
	}
	for _, field := range placement {
		if _, has := sent.Spec[field]; has {
			removed = append(removed, "spec."+field)
		}
	}
	slices.Sort(removed)
	return removed, remaining
}

// putBack returns the annotations of an update with those that it leaves out and that are kept, and the keys of those, sorted.
func putBack(before, after map[string]string) (all map[string]string, leftOut []string) {
	if max(len(before), len(after)) > maxAnnotations {
		return after, nil
	}
	all = map[string]string{}
	maps.Copy(all, after)
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, has := after[key]; !has && isGuarded(key, keptOnUpdate) {
			all[key] = before[key]
			leftOut = append(leftOut, key)
		}
	}
	return all, leftOut
}
