package workspace_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/workspace"
)

const (
	ownerKey   = "experimental.tenancy.kcp.io/owner"
	clusterKey = "internal.tenancy.kcp.io/cluster"
	groupsKey  = "authorization.kcp.io/required-groups"
	createdBy  = "warrantgate.dev/created-by"

	rawServiceAccount = `{"username":"system:serviceaccount:default:bot","groups":["system:authenticated"],` +
		`"extra":{"authentication.kcp.io/cluster-name":["1dz6n4ubraua7pul"],"authentication.kcp.io/scopes":["cluster:1dz6n4ubraua7pul"]}}`
	rawScoped  = `{"username":"alice","groups":["system:authenticated"],"extra":{"authentication.kcp.io/scopes":["cluster:parent"]}}`
	rawUser    = `{"username":"alice","groups":["system:authenticated"]}`
	rawAdmin   = `{"username":"kcp-admin","groups":["system:kcp:admin","system:authenticated"]}`
	newCluster = "m82w61j76ws21znq"
)

var (
	apiServer = &user.DefaultInfo{Name: "system:apiserver", Groups: []string{"system:masters"}}
	alice     = &user.DefaultInfo{Name: "alice", Groups: []string{"system:authenticated"}}
	noGroups  = &user.DefaultInfo{Name: "nobody"}
	// claimed is what kcp says about a user who impersonates the API server in the virtual workspace of an initializer.
	claimed = &user.DefaultInfo{Name: "system:apiserver", Groups: []string{"system:kcp:initializer:1dz6n4ubraua7pul:trap", "system:masters"}}
	// inExport is what kcp says about a user who impersonates the API server in the virtual workspace of an APIExport.
	inExport = &user.DefaultInfo{Name: "system:apiserver", Groups: []string{"system:masters"}, Extra: map[string][]string{identity.WarrantKey: {
		identity.Warrant{User: "system:serviceaccount:default:rest", Groups: []string{"system:kcp:admin"}}.String()}}}
)

// annotations returns a map of pairs of key and value.
func annotations(pairs ...string) map[string]any {
	made := map[string]any{"kcp.io/cluster": "parent"}
	for pair := range slices.Chunk(pairs, 2) {
		made[pair[0]] = pair[1]
	}
	return made
}

// many returns a map of as many annotations, which contain the pairs.
func many(count int, pairs ...string) map[string]any {
	made := annotations(pairs...)
	for i := 0; len(made) < count; i++ {
		if key := strconv.Itoa(i); made[key] == nil {
			made[key] = ""
		}
	}
	return made
}

// padded is the owner of a user with a group, and of a size.
func padded(size int, group string) string {
	owner := identity.Owner{Username: "alice", Groups: []string{group}, Extra: map[string][]string{"example.com/x": {""}}}
	owner.Extra["example.com/x"][0] = strings.Repeat("x", size-len(owner.String()))
	return owner.String()
}

// object is a Workspace with a value for its annotations. nil: it has none.
func object(annotations any) *unstructured.Unstructured {
	metadata := map[string]any{"name": "child", "uid": "0eb3", "resourceVersion": "2"}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": metadata, "spec": map[string]any{},
	}}
}

// withSpec is a Workspace with pairs of field and value in its spec.
func withSpec(workspace *unstructured.Unstructured, pairs ...string) *unstructured.Unstructured {
	spec := map[string]any{}
	for pair := range slices.Chunk(pairs, 2) {
		spec[pair[0]] = pair[1]
	}
	workspace.Object["spec"] = spec
	return workspace
}

// TestMatchConditionsSelectRequests evaluates the match conditions and the admission policy with the API server's own code.
func TestMatchConditionsSelectRequests(t *testing.T) {
	const rewrite, notice, denial, policy = "owner-rewrite", "owner-notice", "denial-notice", "policy"
	warrant := func(w identity.Warrant) string {
		return identity.Owner{Username: "alice", Extra: map[string][]string{identity.WarrantKey: {w.String()}}}.String()
	}
	nested := identity.Warrant{User: "bob", Extra: map[string][]string{identity.WarrantKey: {
		identity.Warrant{User: "carol", Groups: []string{"system:masters"}}.String()}}}

	type write struct {
		by       user.Info
		old, new any // annotations; old nil and create true for a create
		create   bool
		spec     []string // pairs of field and value of the new spec
		dryRun   bool
		stale    bool     // the request has an older resource version than the stored Workspace
		want     []string // the webhooks that are called, and "policy" if the policy denies
	}
	// placed is the update of kcp's scheduler for a workspace with an owner.
	placed := func(owner string, want ...string) write {
		return write{by: apiServer, old: annotations(ownerKey, owner), new: annotations(ownerKey, owner, clusterKey, newCluster), want: want}
	}

	for name, tc := range map[string]write{
		// The scheduler's update, for each kind of owner.
		"a service account's workspace is placed": placed(rawServiceAccount, rewrite),
		"a service account's workspace is placed by a scheduler with an old resource version, which is a conflict": {
			by: apiServer, old: annotations(ownerKey, rawServiceAccount),
			new: annotations(ownerKey, rawServiceAccount, clusterKey, newCluster), stale: true,
		},
		"an administrator's workspace is placed by a scheduler with an old resource version": {
			by: apiServer, old: annotations(ownerKey, rawAdmin),
			new: annotations(ownerKey, rawAdmin, clusterKey, newCluster), stale: true,
		},
		"a user changes the owner with an old resource version": {
			by: alice, old: annotations(ownerKey, rawUser), new: annotations(ownerKey, rawAdmin), stale: true, want: []string{policy},
		},
		"a scoped user's workspace is placed": placed(rawScoped, rewrite),
		"a workspace is placed again, in another cluster": {
			by: apiServer, old: annotations(ownerKey, rawServiceAccount, clusterKey, "older"),
			new: annotations(ownerKey, rawServiceAccount, clusterKey, newCluster), want: []string{rewrite},
		},
		"a user's workspace is placed": placed(rawUser),
		"a user's workspace with a scope inside a warrant is placed": placed(
			warrant(identity.Warrant{User: "bob", Extra: map[string][]string{identity.ScopesKey: {"cluster:x"}}}), rewrite),
		"a user's workspace with a warrant in another spelling is placed": placed(
			strings.Replace(warrant(identity.Warrant{User: "bob"}), "kcp.io/", `kcp.io\/`, 1), rewrite),
		"a user's workspace with a warrant before the name is placed": placed(`{"extra":{"authorization.kcp.io/warrant":["{}"]},"username":"alice"}`, rewrite, notice),
		"a user whose group is named like the key of warrants":        placed(`{"username":"alice","groups":["authorization.kcp.io/warrant"]}`),
		"an administrator's workspace is placed":                      placed(rawAdmin, notice),
		"an administrator's workspace is placed, and its owner is as large as a regular expression may read": placed(
			padded(identity.MaxOwnerBytes, "system:kcp:admin"), notice),
		"an administrator's workspace is placed, and its owner is larger":                          placed(padded(identity.MaxOwnerBytes+1, "system:kcp:admin"), notice),
		"an administrator's workspace is placed, and its owner is as large as annotations may be":  placed(padded(256<<10, "system:kcp:admin"), notice),
		"a user's workspace is placed, and its owner is as large as a regular expression may read": placed(padded(identity.MaxOwnerBytes, "team-a")),
		// notice is called if the warrant is still there after the rewrite.
		"an owner with an initializer's warrant": placed(
			warrant(identity.Warrant{User: "bob", Groups: []string{"system:kcp:initializer:root:org"}}), rewrite, notice),
		"an owner with an administrator's warrant nested in another": placed(warrant(nested), rewrite, notice),
		"a group whose name has the prefix of an administrator's":    placed(`{"username":"alice","groups":["system:masters-of-the-universe"]}`),
		"no owner": {
			by: apiServer, old: annotations(), new: annotations(clusterKey, newCluster), want: []string{notice},
		},
		"an empty owner":                             placed("", notice),
		"an owner that is not JSON":                  placed("bot", notice),
		"a service account's owner that is not JSON": placed(`{"username":"system:serviceaccount:`, rewrite),
		// Other writes of a Workspace.
		"no annotations on either side":      {by: apiServer, old: nil, new: nil},
		"annotations are null on both sides": {by: apiServer, old: map[string]any(nil), new: map[string]any(nil)},
		"annotations appear":                 {by: apiServer, old: nil, new: annotations(ownerKey, rawServiceAccount)},
		"an empty cluster name":              {by: apiServer, old: annotations(), new: annotations(ownerKey, rawServiceAccount, clusterKey, "")},
		"a later update of a placed workspace": {
			by: apiServer, old: annotations(ownerKey, rawServiceAccount, clusterKey, newCluster),
			new: annotations(ownerKey, rawServiceAccount, clusterKey, newCluster, "example.com/x", "1"),
		},
		"kcp shortens the owner": {
			by: apiServer, old: annotations(ownerKey, rawServiceAccount, clusterKey, newCluster),
			new: annotations(ownerKey, `{"username":"system:serviceaccount:default:bot"}`, clusterKey, newCluster),
		},
		"kcp records the owner on create": {by: alice, create: true, new: annotations(ownerKey, rawUser, groupsKey, "team-a")},
		"a user changes labels and other annotations": {
			by: alice, old: annotations(ownerKey, rawUser, createdBy, "alice"),
			new: annotations(ownerKey, rawUser, createdBy, "alice", "example.com/x", "1"),
		},
		// Forgeries.
		"a user changes the owner": {
			by: alice, old: annotations(ownerKey, rawUser), new: annotations(ownerKey, rawAdmin), want: []string{denial, policy},
		},
		"a user removes the owner": {
			by: alice, old: annotations(ownerKey, rawUser), new: annotations(), want: []string{denial, policy},
		},
		"a user removes all annotations": {
			by: alice, old: annotations(ownerKey, rawUser), new: nil, want: []string{denial, policy},
		},
		"a user without groups changes the owner": {
			by: noGroups, old: annotations(ownerKey, rawUser), new: annotations(ownerKey, rawAdmin), want: []string{denial, policy},
		},
		"a kcp administrator changes the owner": {
			by:  &user.DefaultInfo{Name: "kcp-admin", Groups: []string{"system:kcp:admin"}},
			old: annotations(ownerKey, rawUser), new: annotations(ownerKey, rawAdmin), want: []string{denial, policy},
		},
		"the system changes the owner": {by: apiServer, old: annotations(ownerKey, rawUser), new: annotations(ownerKey, rawAdmin)},
		"a user sets an annotation of warrantgate on create": {
			by: alice, create: true, new: annotations(ownerKey, rawUser, createdBy, "bob"), want: []string{policy},
		},
		"a user sets an annotation of warrantgate": {
			by: alice, old: annotations(), new: annotations("warrantgate.dev/anything", ""), want: []string{denial, policy},
		},
		"a user removes an annotation of warrantgate": {
			by: alice, old: annotations(createdBy, "alice"), new: annotations(), want: []string{denial, policy},
		},
		"a user sends the canary": {
			by: alice, create: true, new: annotations(ownerKey, rawUser, kcp.CanaryAnnotation, "true"), want: []string{policy},
		},
		"a user sends the canary of the webhook that rewrites": {
			by: alice, create: true, dryRun: true, new: annotations(ownerKey, rawUser, kcp.CanaryAnnotation, kcp.WebhookCanary), want: []string{rewrite, policy},
		},
		"a user sends it, and not as a dry run": {
			by: alice, create: true, new: annotations(ownerKey, rawUser, kcp.CanaryAnnotation, kcp.WebhookCanary), want: []string{policy},
		},
		"a user sends it as an update": {
			by: alice, dryRun: true, old: annotations(), new: annotations(kcp.CanaryAnnotation, kcp.WebhookCanary), want: []string{denial, policy},
		},
		"the system creates a service account's workspace with a cluster": {
			by: apiServer, create: true, new: annotations(ownerKey, rawServiceAccount, clusterKey, newCluster),
		},
		"a user sends the canary with a change of a guarded annotation": {
			by: alice, old: annotations(), new: annotations(createdBy, "bob", kcp.CanaryAnnotation, "true"), want: []string{denial, policy},
		},
		"a user sets the cluster of the scheduler on create": {
			by: alice, create: true, new: annotations(ownerKey, rawUser, clusterKey, "victim"), want: []string{policy},
		},
		"a user changes the cluster of the scheduler": {
			by: alice, old: annotations(ownerKey, rawUser, clusterKey, newCluster),
			new: annotations(ownerKey, rawUser, clusterKey, "victim"), want: []string{denial, policy},
		},
		"a user changes the logical cluster that holds the workspace": {
			by: alice, old: annotations(ownerKey, rawUser),
			new: annotations("kcp.io/cluster", "victim", ownerKey, rawUser), want: []string{denial, policy},
		},
		"a user leaves out the logical cluster that holds the workspace": {
			by: alice, old: annotations(ownerKey, rawUser), new: map[string]any{ownerKey: rawUser},
		},
		"a user sets on create the logical cluster that holds the workspace, which kcp overwrites": {
			by: alice, create: true, new: annotations("kcp.io/cluster", "victim", ownerKey, rawUser),
		},
		"a user removes the required groups": {
			by: alice, old: annotations(groupsKey, "team-a"), new: annotations(), want: []string{denial, policy},
		},
		// kcp treats a user who claims to be system:masters like the system.
		"an initializer that claims to be the system changes the owner": {
			by: claimed, old: annotations(ownerKey, rawUser), new: annotations(ownerKey, rawAdmin), want: []string{denial, policy},
		},
		"a terminator that claims to be the system removes the owner": {
			by:  &user.DefaultInfo{Name: "system:apiserver", Groups: []string{"system:masters", "system:authenticated", "system:kcp:terminator:x:y"}},
			old: annotations(ownerKey, rawUser), new: annotations(), want: []string{denial, policy},
		},
		"an initializer that claims to be the system places a workspace": {
			by: claimed, old: annotations(ownerKey, rawUser), new: annotations(ownerKey, rawUser, clusterKey, "victim"), want: []string{denial, policy},
		},
		"a shard administrator creates a workspace with an owner and required groups": {
			by: apiServer, create: true, new: annotations(ownerKey, rawAdmin, groupsKey, ""), spec: []string{"cluster", "victim", "URL", "https://h"},
		},
		"an initializer that claims to be the system creates a workspace with an owner": {
			by: claimed, create: true, new: annotations(ownerKey, rawAdmin), want: []string{policy},
		},
		"an initializer that claims to be the system creates a workspace with required groups, which may be empty": {
			by: claimed, create: true, new: annotations(groupsKey, ""), want: []string{policy},
		},
		"an initializer that claims to be the system creates a workspace of another's logical cluster": {
			by: claimed, create: true, new: annotations(), spec: []string{"cluster", "victim"}, want: []string{policy},
		},
		"an initializer that claims to be the system creates a workspace with a URL": {
			by: claimed, create: true, new: nil, spec: []string{"URL", "https://h"}, want: []string{policy},
		},
		"an initializer that claims to be the system creates a workspace with nothing of it": {
			by: claimed, create: true, new: annotations("example.com/x", "1"), spec: []string{"cluster", "", "other", "x"},
		},
		"an initializer that claims to be the system sets the logical cluster of a workspace": {
			by: claimed, old: annotations(), new: annotations(), spec: []string{"cluster", "victim"}, want: []string{denial, policy},
		},
		"system:masters in the virtual workspace of an APIExport creates a workspace with an owner": {
			by: inExport, create: true, new: annotations(ownerKey, rawAdmin), want: []string{policy},
		},
		"system:masters in the virtual workspace of an APIExport changes the owner": {
			by: inExport, old: annotations(ownerKey, rawUser), new: annotations(ownerKey, rawAdmin), want: []string{denial, policy},
		},
		"an initializer that claims to be the system with tens of thousands of groups": {
			by:  &user.DefaultInfo{Name: "a", Groups: append(slices.Repeat([]string{"group"}, 50_000), claimed.Groups...)},
			old: annotations(), new: annotations(), spec: []string{"URL", "https://h"}, want: []string{denial, policy},
		},
		"the system with tens of thousands of groups": {
			by:  &user.DefaultInfo{Name: "a", Groups: append(slices.Repeat([]string{"group"}, 50_000), "system:masters")},
			old: annotations(), new: annotations(), spec: []string{"URL", "https://h"},
		},
		"an initializer that is in another group changes nothing": {
			by:  &user.DefaultInfo{Name: "a", Groups: []string{"system:kcp:initializer:x:y", "system:kcp:admin"}},
			old: annotations(), new: annotations(), spec: []string{"URL", "https://h"}, // kcp denies it
		},
		// An API server would compare many annotations for half a minute.
		"a user changes one of as many annotations as are compared": {by: alice, old: many(256), new: many(256, "0", "other")},
		"a user changes the owner beside as many annotations as are compared": {
			by: alice, old: many(256), new: many(256, ownerKey, rawUser), want: []string{denial, policy},
		},
		"a user adds one to as many annotations as are compared": {by: alice, old: many(256), new: many(257), want: []string{denial, policy}},
		"a user removes one of more":                             {by: alice, old: many(257), new: many(256), want: []string{denial, policy}},
		"a user changes one of tens of thousands":                {by: alice, old: many(50_000), new: many(50_000, "0", "other"), want: []string{denial, policy}},
		"a user creates a workspace with tens of thousands":      {by: alice, create: true, new: many(50_000), want: []string{policy}},
		"a user changes none of tens of thousands":               {by: alice, old: many(50_000), new: many(50_000)},
		"a user with tens of thousands of groups changes the owner": {
			by: &user.DefaultInfo{Name: "alice", Groups: slices.Repeat([]string{"group"}, 50_000)}, old: annotations(ownerKey, rawUser),
			new: annotations(ownerKey, rawAdmin), want: []string{denial, policy},
		},
		"a workspace with tens of thousands is placed": {by: apiServer, old: many(50_000, ownerKey, rawUser), new: many(50_000, ownerKey, rawUser, clusterKey, newCluster)},
	} {
		t.Run(name, func(t *testing.T) {
			operation := admission.Update
			var old runtime.Object = object(tc.old)
			if tc.create {
				operation, old = admission.Create, nil
			}
			changed := withSpec(object(tc.new), tc.spec...)
			if tc.stale {
				changed.SetResourceVersion("1")
			}
			attributes := versioned(changed, old, operation, tc.by)
			if tc.dryRun {
				attributes.Attributes = admission.NewAttributesRecord(changed, old, attributes.GetKind(), "", "child", attributes.GetResource(), "", operation, nil, true, tc.by)
			}
			if diff := cmp.Diff(tc.want, calledBy(t, attributes), cmpopts.EquateEmpty(), cmpopts.SortSlices(strings.Compare)); diff != "" {
				t.Errorf("called (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMessageOfThePolicy: a denial says who changed what, why that is denied, and what to do.
func TestMessageOfThePolicy(t *testing.T) {
	const (
		guarded = ": kcp acts in the workspace as the identity that is recorded there, so only the system may change it; leave it as it is%s; " +
			"to give others access, bind them to a role inside the workspace"
		claims = ": only the system may set it, and the author of a WorkspaceType or an APIExport can claim to be the system in a virtual workspace " +
			"of kcp; leave it out, and send the request as yourself"
		tooMany = ": it cannot be checked whether the recorded identity stays the same; use at most 240 annotations when you create it, because kcp and " +
			"warrantgate add some; if it has more than 256, only system:masters can remove them"
		inRoot = ` of workspace "child" in logical cluster "parent"`
	)
	orLeaveOut := fmt.Sprintf(guarded, ", or out of the request")
	for name, change := range map[string]struct {
		old, new *unstructured.Unstructured
		by       user.Info // default: alice
		want     string
	}{
		"an update": {
			old: object(annotations(ownerKey, rawUser)), new: object(annotations(ownerKey, rawAdmin)),
			want: `user "alice" tried to change ` + ownerKey + inRoot + orLeaveOut,
		},
		"an update that changes the logical cluster that holds the object": {
			old: object(annotations(ownerKey, rawUser)), new: object(annotations("kcp.io/cluster", "victim", ownerKey, rawUser)),
			want: `user "alice" tried to change kcp.io/cluster` + inRoot + orLeaveOut,
		},
		"an update that leaves out the owner, and the logical cluster that holds the object": {
			old: object(annotations(ownerKey, rawUser)), new: object(nil),
			want: `user "alice" tried to change ` + ownerKey + inRoot + fmt.Sprintf(guarded, ""),
		},
		"a create": {new: object(annotations(createdBy, "bob")), want: `user "alice" tried to change ` + createdBy + inRoot + orLeaveOut},
		"a create without a logical cluster": {
			new: object(map[string]any{createdBy: "bob"}), want: `user "alice" tried to change ` + createdBy + ` of workspace "child"` + orLeaveOut,
		},
		"a create with generateName": {
			new:  generated(annotations(createdBy, "bob"), ""),
			want: `user "alice" tried to change ` + createdBy + ` of workspace "child-" in logical cluster "parent"` + orLeaveOut,
		},
		"a create with a generated name": {
			new:  generated(annotations(createdBy, "bob"), "child-x2x4z"),
			want: `user "alice" tried to change ` + createdBy + ` of workspace "child-x2x4z" in logical cluster "parent"` + orLeaveOut,
		},
		"an update of many annotations": {
			old: object(many(257)), new: object(many(256)), want: `user "alice" tried to change one of more than 256 annotations` + inRoot + tooMany,
		},
		"a create with many annotations": {
			new: object(many(257)), want: `user "alice" tried to change one of more than 256 annotations` + inRoot + tooMany,
		},
		"an update by an initializer that claims to be the system": {
			old: object(annotations(ownerKey, rawUser)), new: withSpec(object(annotations(ownerKey, rawAdmin)), "URL", "https://h"), by: claimed,
			want: `user "system:apiserver" tried to change ` + ownerKey + ", spec.URL" + inRoot + claims,
		},
		"a create by an initializer that claims to be the system": {
			new: withSpec(object(annotations(ownerKey, rawAdmin, groupsKey, "")), "cluster", "victim", "URL", "https://h"), by: claimed,
			want: `user "system:apiserver" tried to change ` + ownerKey + ", " + groupsKey + ", spec.cluster, spec.URL" + inRoot + claims,
		},
	} {
		t.Run(name, func(t *testing.T) {
			by := change.by
			if by == nil {
				by = alice
			}
			attributes := versioned(change.new, nil, admission.Create, by)
			if change.old != nil {
				attributes = versioned(change.new, change.old, admission.Update, by)
			}
			decisions := policyDecisions(t, attributes)
			if len(decisions) != 1 {
				t.Fatalf("%d decisions, want 1", len(decisions))
			}
			if diff := cmp.Diff(change.want, decisions[0].Message); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			if decisions[0].Reason != "Forbidden" {
				t.Errorf("reason %q, want Forbidden", decisions[0].Reason)
			}
		})
	}
}

// TestPolicyAgreesWithNotice: for random requesters and changes, DenialNotice is called for the updates that the admission policy denies and for
// nothing else, and names the same annotations and fields.
func TestPolicyAgreesWithNotice(t *testing.T) {
	count := 10_000
	if testing.Short() {
		count = 1_000
	}
	policy := newIntegrityPolicy(t)
	mutating, _ := webhookConfigurations(t)
	var hook webhook.WebhookAccessor
	for i := range mutating.Webhooks {
		if mutating.Webhooks[i].Name == "denial-notice.warrantgate.dev" {
			hook = webhook.NewMutatingWebhookAccessor("", mutating.Name, &mutating.Webhooks[i])
		}
	}
	compiler := celplugin.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	r := rand.New(rand.NewPCG(31, 2))
	some := func(values ...string) []string {
		return slices.DeleteFunc(slices.Clone(values), func(string) bool { return r.IntN(3) > 0 })
	}
	draw := func() *unstructured.Unstructured {
		made := map[string]any{"kcp.io/cluster": "parent"}
		for _, key := range some(ownerKey, clusterKey, groupsKey, createdBy, "kcp.io/cluster", "example.com/x") {
			made[key] = pick(r, "", "a", "a", "b")
		}
		var spec []string
		for _, field := range some("cluster", "URL", "type") {
			spec = append(spec, field, pick(r, "", "a", "b"))
		}
		return withSpec(object(made), spec...)
	}
	decided := map[bool]int{}
	for range count {
		by := &user.DefaultInfo{Name: "a", Groups: some("system:masters", "system:masters", "system:kcp:initializer:x:y", "system:kcp:terminator:x:y",
			"system:kcp:admin", "system:kcp:initializer", "a:system:kcp:initializer:x:y", "system:kcp:initializer:", "system:authenticated")}
		if r.IntN(4) == 0 {
			by.Extra = map[string][]string{pick(r, identity.WarrantKey, "example.com/x"): {"{}"}}
		}
		before, after := draw(), draw()
		for key, value := range before.GetAnnotations() { // what is left out is put back before the policy is evaluated
			if _, has := after.GetAnnotations()[key]; !has {
				after.SetAnnotations(mergeOf(after.GetAnnotations(), key, value))
			}
		}
		attributes := versioned(after, before, admission.Update, by)
		notice := newDenialNotice(v1beta1.Enforce).Review(t.Context(), request(t, before, after, by))
		message := denial(t, policy, attributes)
		called := hook.GetCompiledMatcher(compiler).Match(t.Context(), attributes, nil, nil)
		denied := message != ""
		if called.Error != nil || called.Matches != denied || denied != (notice.Reason == events.OwnerChangeDenied) ||
			denied && changedIn(message, " of workspace ") != changedIn(notice.Message, ": ") {
			t.Fatalf("groups %q, from %v to %v: the notice says %s %q and is called %t (%v), the policy says %q",
				by.Groups, before, after.Object, notice.Reason, notice.Message, called.Matches, called.Error, message)
		}
		decided[denied]++
	}
	if min(decided[true], decided[false]) < count/20 {
		t.Errorf("denied and admitted: %v: the generator has to be corrected", decided)
	}
}

// mergeOf returns annotations with one more.
func mergeOf(annotations map[string]string, key, value string) map[string]string {
	merged := maps.Clone(annotations)
	if merged == nil {
		merged = map[string]string{}
	}
	merged[key] = value
	return merged
}

// changedIn returns the names of the changed annotations and fields in a message, in order. They end before a text.
func changedIn(message, before string) string {
	_, rest, _ := strings.Cut(message, "tried to change ")
	keys, _, _ := strings.Cut(rest, before)
	return strings.Join(slices.Sorted(slices.Values(strings.Split(keys, ", "))), ", ")
}

// generated is a Workspace that is created with generateName. Its name is empty until the API server has generated it.
func generated(annotations map[string]any, name string) *unstructured.Unstructured {
	made := object(annotations)
	made.SetName(name)
	made.SetGenerateName("child-")
	return made
}

func versioned(object, old runtime.Object, operation admission.Operation, by user.Info) *admission.VersionedAttributes {
	name := "child"
	if workspace, ok := object.(*unstructured.Unstructured); ok && workspace.GetGenerateName() != "" {
		name = "" // that of the request
	}
	attributes := admission.NewAttributesRecord(object, old, tenancyv1alpha1.SchemeGroupVersion.WithKind("Workspace"), "", name,
		tenancyv1alpha1.SchemeGroupVersion.WithResource("workspaces"), "", operation, nil, false, by)
	return &admission.VersionedAttributes{
		Attributes: attributes, VersionedObject: object, VersionedOldObject: old,
		VersionedKind: tenancyv1alpha1.SchemeGroupVersion.WithKind("Workspace"),
	}
}

// calledBy returns the webhooks that the API server would call, and "policy" if the policy denies.
func calledBy(t *testing.T, attributes *admission.VersionedAttributes) []string {
	t.Helper()
	compiler := celplugin.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	mutating, validatingConfiguration := webhookConfigurations(t)
	var accessors []webhook.WebhookAccessor
	for i := range mutating.Webhooks {
		accessors = append(accessors, webhook.NewMutatingWebhookAccessor("", mutating.Name, &mutating.Webhooks[i]))
	}
	for i := range validatingConfiguration.Webhooks {
		accessors = append(accessors, webhook.NewValidatingWebhookAccessor("", validatingConfiguration.Name, &validatingConfiguration.Webhooks[i]))
	}
	var called []string
	for _, accessor := range accessors {
		if accessor.GetRules()[0].Operations[0] == admissionregistrationv1.Update && attributes.GetOperation() == admission.Create {
			continue
		}
		result := accessor.GetCompiledMatcher(compiler).Match(t.Context(), attributes, nil, nil)
		if result.Error != nil {
			t.Errorf("%s: %v", accessor.GetName(), result.Error)
		}
		if result.Matches {
			called = append(called, strings.TrimSuffix(accessor.GetName(), ".warrantgate.dev"))
		}
	}
	for _, decision := range policyDecisions(t, attributes) {
		switch {
		case decision.Evaluation == validating.EvalError:
			t.Errorf("policy: %s", decision.Message)
		case decision.Action == validating.ActionDeny:
			called = append(called, "policy")
		}
	}
	return called
}

// denial returns the message with which a policy denies a request, "" if it does not.
func denial(t *testing.T, policy validating.Validator, attributes *admission.VersionedAttributes) (message string) {
	t.Helper()
	for _, decision := range policy.Validate(t.Context(), attributes.GetResource(), attributes, nil, nil, celconfig.RuntimeCELCostBudget, nil).Decisions {
		if decision.Action == validating.ActionDeny {
			message = decision.Message
		}
	}
	return message
}

// policyDecisions evaluates the admission policy as the API server does.
func policyDecisions(t *testing.T, attributes *admission.VersionedAttributes) []validating.PolicyDecision {
	t.Helper()
	return newIntegrityPolicy(t).Validate(t.Context(), attributes.GetResource(), attributes, nil, nil, celconfig.RuntimeCELCostBudget, nil).Decisions
}

// newIntegrityPolicy compiles the admission policy as the API server does.
func newIntegrityPolicy(t *testing.T) validating.Validator {
	t.Helper()
	policy := registered[*admissionregistrationv1.ValidatingAdmissionPolicy](t)
	compiler, err := celplugin.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	declarations := celplugin.OptionalVariableDeclarations{HasAuthorizer: true}
	var variables []celplugin.NamedExpressionAccessor
	for _, v := range policy.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, declarations, environment.StoredExpressions)
	var conditions, rules, messages []celplugin.ExpressionAccessor
	for _, c := range policy.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&c))
	}
	for _, v := range policy.Spec.Validations {
		rules = append(rules, &validating.ValidationCondition{Expression: v.Expression, Reason: v.Reason})
		messages = append(messages, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression})
	}
	matcher := matchconditions.NewMatcher(compiler.CompileCondition(conditions, declarations, environment.StoredExpressions),
		policy.Spec.FailurePolicy, "policy", "validate", policy.Name)
	return validating.NewValidator(
		compiler.CompileCondition(rules, declarations, environment.StoredExpressions), matcher,
		compiler.CompileCondition(nil, declarations, environment.StoredExpressions),
		compiler.CompileCondition(messages, celplugin.OptionalVariableDeclarations{}, environment.StoredExpressions),
		policy.Spec.FailurePolicy, nil,
	)
}

func webhookConfigurations(t *testing.T) (
	*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration,
) {
	t.Helper()
	return registered[*admissionregistrationv1.MutatingWebhookConfiguration](t),
		registered[*admissionregistrationv1.ValidatingWebhookConfiguration](t)
}

// registered returns the one object of a type that is registered by default.
func registered[T any](tb testing.TB) T {
	tb.Helper()
	for _, object := range workspace.Registration(webhooks.Server{URL: "https://warrantgate.example.com:9443", CABundle: []byte("CA")}, v1beta1.Default().Workspace) {
		if found, ok := object.(T); ok {
			return found
		}
	}
	var none T
	tb.Fatalf("no %T is registered", none)
	return none
}
