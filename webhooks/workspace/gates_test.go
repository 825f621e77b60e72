package workspace_test

import (
	stdcmp "cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kubeadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/internal/message"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/webhookstest"
	"warrantgate.dev/webhooks/workspace"
)

const (
	rewritten = `{"username":"system:kcp:serviceaccount:1dz6n4ubraua7pul:default:bot","groups":["system:authenticated"],` +
		`"extra":{"authorization.kcp.io/warrant":["{\"user\":\"system:serviceaccount:default:bot\",\"groups\":[\"system:authenticated\"],` +
		`\"extra\":{\"authentication.kcp.io/cluster-name\":[\"1dz6n4ubraua7pul\"],\"authentication.kcp.io/scopes\":[\"cluster:1dz6n4ubraua7pul\"]}}"]}}`
	rewriteMessage = `ervice account "system:serviceaccount:default:bot" of logical cluster "1dz6n4ubraua7pul" is foreign in logical cluster ` +
		`"m82w61j76ws21znq"; kcp acts as "system:kcp:serviceaccount:1dz6n4ubraua7pul:default:bot", backed by its warrant`
)

// rawLent is rawUser with the warrant that kcp adds to a request through an APIExport's virtual workspace.
const rawLent = `{"username":"alice","groups":["system:authenticated"],"extra":{"authorization.kcp.io/warrant":["{\"user\":\"system:serviceaccount:default:rest\",` +
	`\"groups\":[\"system:kcp:admin\"],\"extra\":{\"authentication.kcp.io/cluster-name\":[\"2v8x0q1m5k7d3b9z\"]}}"]}}`

// rawImpostor is a service account of home 1dz6n4ubraua7pul as an administrator of another workspace impersonates it.
const (
	rawImpostor = `{"username":"system:serviceaccount:default:bot","groups":["system:authenticated"],` +
		`"extra":{"authentication.kcp.io/cluster-name":["1dz6n4ubraua7pul"],"authentication.kcp.io/scopes":["cluster:attacker"]}}`
	impostorMessage = `Service account "system:serviceaccount:default:bot" is scoped to cluster:attacker, which leaves out its home, ` +
		`logical cluster "1dz6n4ubraua7pul": it was impersonated elsewhere, so its home is only claimed (HomeOutOfScope). ` +
		"Initialization will fail if kcp has to act as this owner"
)

// withWarrant adds a warrant to an owner.
func withWarrant(raw, warrant string) string {
	owner, err := identity.ParseOwner(raw)
	if err != nil {
		panic(err)
	}
	owner.Extra[identity.WarrantKey] = []string{warrant}
	return owner.String()
}

func request(tb testing.TB, old, object *unstructured.Unstructured, by user.Info) admission.Request {
	tb.Helper()
	r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "d1", Operation: admissionv1.Create, Name: "child",
		UserInfo: authenticationv1.UserInfo{Username: by.GetName(), Groups: by.GetGroups(), Extra: extraOf(by)},
		Object:   runtime.RawExtension{Raw: encode(tb, object)},
	}}
	if old != nil {
		r.Operation = admissionv1.Update
		r.OldObject = runtime.RawExtension{Raw: encode(tb, old)}
	}
	return r
}

func extraOf(by user.Info) map[string]authenticationv1.ExtraValue {
	extra := map[string]authenticationv1.ExtraValue{}
	for key, values := range by.GetExtra() {
		extra[key] = values
	}
	return extra
}

func encode(tb testing.TB, object *unstructured.Unstructured) []byte {
	tb.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

func newRewrite(mode v1beta1.Mode) webhookstest.Gate {
	return webhookstest.Gate{Gate: workspace.NewOwnerRewrite(identity.Policy{}), Mode: mode}
}

func newNotice() webhookstest.Gate {
	return webhookstest.Gate{Gate: workspace.NewOwnerNotice(), Mode: v1beta1.Enforce}
}

func newDenialNotice(mode v1beta1.Mode) webhookstest.Gate {
	return webhookstest.Gate{Gate: workspace.NewDenialNotice(), Mode: mode}
}

// eventText is the text of an Event.
type eventText struct{ Type, Reason, Message string }

func texts(recorded []events.Event) []eventText {
	var all []eventText
	for _, event := range recorded {
		all = append(all, eventText{event.Type, event.Reason, event.Message})
	}
	return all
}

// TestOwnerRewriteReadsTheParentOfTheStoredWorkspace: a requester can write another logical cluster into the annotation of its update. The
// parent makes the scope of an impersonated service account its home.
func TestOwnerRewriteReadsTheParentOfTheStoredWorkspace(t *testing.T) {
	const parentKey = "kcp.io/cluster"
	for impersonatedIn, want := range map[string]string{"parent": "ServiceAccountRewritten", "victim": "HomeUnknown"} {
		owner := impersonatedOwner("default", "bot", "cluster:"+impersonatedIn)
		stored := object(annotations(ownerKey, owner, parentKey, "parent"))
		placed := object(annotations(ownerKey, owner, parentKey, "victim", clusterKey, newCluster))
		answer := newRewrite(v1beta1.Enforce).Review(t.Context(), request(t, stored, placed, apiServer))
		if answer.Reason != want {
			t.Errorf("impersonated in %s: %s, want %s", impersonatedIn, answer.Reason, want)
		}
	}
}

func TestOwnerRewrite(t *testing.T) {
	warranted := identity.Owner{Username: "system:serviceaccount:default:bot", Groups: []string{"system:authenticated"}, Extra: map[string][]string{
		identity.ClusterNameKey: {"1dz6n4ubraua7pul"}, identity.ScopesKey: {"cluster:1dz6n4ubraua7pul"},
		identity.WarrantKey: {
			identity.Warrant{User: "somebody-else", Groups: []string{"system:kcp:admin"}}.String(),
			identity.Warrant{User: "bob"}.String(), identity.Warrant{User: "carol"}.String(),
		},
	}}.String()

	for name, tc := range map[string]struct {
		annotations map[string]any
		mode        v1beta1.Mode
		wantReason  string
		wantOwner   string // empty: no patch
		wantEvents  []eventText
	}{
		"a service account that was impersonated elsewhere": {
			annotations: annotations(ownerKey, rawImpostor, clusterKey, newCluster),
			wantReason:  "HomeOutOfScope",
			wantEvents:  []eventText{{corev1.EventTypeWarning, "OwnerNotRewritten", impostorMessage}},
		},
		"a service account that was impersonated elsewhere, with a forged administrator's warrant": {
			annotations: annotations(ownerKey, withWarrant(rawImpostor, `{"user":"root-boss","groups":["system:kcp:admin"]}`), clusterKey, newCluster),
			wantReason:  "HomeOutOfScope",
			wantOwner:   rawImpostor,
			wantEvents: []eventText{
				{corev1.EventTypeWarning, "OwnerNotRewritten", impostorMessage},
				{corev1.EventTypeNormal, "WarrantDropped", "Not passed on to the owner: 1 warrant had an administrator's permissions, which are never delegated"},
			},
		},
		"a service account that was impersonated elsewhere, with an administrator's warrant, when the gate only warns": {
			annotations: annotations(ownerKey, withWarrant(rawImpostor, `{"user":"root-boss","groups":["system:kcp:admin"]}`), clusterKey, newCluster),
			mode:        v1beta1.Warn,
			wantReason:  "HomeOutOfScope",
			wantOwner:   rawImpostor, // webhooks.Handler removes it
			wantEvents:  []eventText{{corev1.EventTypeWarning, "OwnerNotRewritten", impostorMessage}},
		},
		"a service account": {
			annotations: annotations(ownerKey, rawServiceAccount, clusterKey, newCluster),
			wantReason:  "ServiceAccountRewritten",
			wantOwner:   rewritten,
			wantEvents:  []eventText{{corev1.EventTypeNormal, "OwnerRewritten", "S" + rewriteMessage}},
		},
		"a service account with warrants for one request, whose users are not in the Event": {
			annotations: annotations(ownerKey, warranted, clusterKey, newCluster),
			wantReason:  "ServiceAccountRewritten",
			wantOwner:   rewritten,
			wantEvents: []eventText{
				{corev1.EventTypeNormal, "OwnerRewritten", "S" + rewriteMessage},
				{corev1.EventTypeNormal, "WarrantDropped", "Not passed on to the owner: " +
					"1 warrant had an administrator's permissions, which are never delegated; " +
					"2 warrant valid for one request only and not named by the delegation policy"},
			},
		},
		"a service account, when the gate only warns": {
			annotations: annotations(ownerKey, rawServiceAccount, clusterKey, newCluster),
			mode:        v1beta1.Warn,
			wantReason:  "ServiceAccountRewritten",
			wantOwner:   rewritten, // webhooks.Handler removes it
			wantEvents: []eventText{{corev1.EventTypeWarning, "OwnerNotRewritten",
				"The owner was not changed, because the gate only warns. S" + rewriteMessage}},
		},
		"a user": {
			annotations: annotations(ownerKey, rawUser, clusterKey, newCluster),
			wantReason:  "InScope",
		},
		"a user with an administrator's warrant": {
			annotations: annotations(ownerKey, rawLent, clusterKey, newCluster),
			wantReason:  "InScope",
			wantOwner:   rawUser,
			wantEvents: []eventText{
				{corev1.EventTypeNormal, "WarrantDropped", "Not passed on to the owner: 1 warrant had an administrator's permissions, which are never delegated"},
			},
		},
		"a user with an administrator's warrant, when the gate only warns": {
			annotations: annotations(ownerKey, rawLent, clusterKey, newCluster),
			mode:        v1beta1.Warn,
			wantReason:  "InScope",
			wantOwner:   rawUser, // webhooks.Handler removes it
			wantEvents: []eventText{{corev1.EventTypeWarning, "OwnerNotRewritten", `The owner was not changed, because the gate only warns. "alice" is in scope ` +
				`in logical cluster "m82w61j76ws21znq"; not passed on to the owner: 1 warrant had an administrator's permissions, which are never delegated`}},
		},
		"not placed yet": {
			annotations: annotations(ownerKey, rawServiceAccount),
			wantReason:  "NoNewCluster",
		},
		"an owner that cannot be read": {
			annotations: annotations(ownerKey, `{"username":"system:serviceaccount:`, clusterKey, newCluster),
			wantReason:  "OwnerMalformed",
			wantEvents: []eventText{{corev1.EventTypeWarning, "OwnerNotRewritten", `The recorded owner cannot be read: unexpected EOF within "/username" after offset 35 ` +
				"(OwnerMalformed). Initialization will fail if kcp has to act as this owner"}},
		},
		"a service account without a home": {
			annotations: annotations(ownerKey, `{"username":"system:serviceaccount:default:bot"}`, clusterKey, newCluster),
			wantReason:  "HomeUnknown",
			wantEvents: []eventText{{corev1.EventTypeWarning, "OwnerNotRewritten", `Service account "system:serviceaccount:default:bot" does not name its home logical ` +
				`cluster (extra "authentication.kcp.io/cluster-name"), so its workspace is unknown (HomeUnknown). kcp acts as any service account of this ` +
				"name, and each one that is created in the workspace is its administrator: let the service account create the workspace with its own token"}},
		},
		"an impersonated service account without a namespace, of which there can be none": {
			annotations: annotations(ownerKey, `{"username":"system:serviceaccount:bot"}`, clusterKey, newCluster),
			wantReason:  "OwnerMalformed",
			wantEvents: []eventText{{corev1.EventTypeWarning, "OwnerNotRewritten", `"system:serviceaccount:bot" is not the name of a service account ` +
				"(OwnerMalformed). Initialization will fail if kcp has to act as this owner"}},
		},
		"a service account without a home, scoped to another logical cluster": {
			annotations: annotations(ownerKey, `{"username":"system:serviceaccount:default:bot","extra":{"authentication.kcp.io/scopes":["cluster:x","cluster:y"]}}`,
				clusterKey, newCluster),
			wantReason: "HomeUnknown",
			wantEvents: []eventText{{corev1.EventTypeWarning, "OwnerNotRewritten", `Service account "system:serviceaccount:default:bot" does not name its home logical ` +
				`cluster (extra "authentication.kcp.io/cluster-name"), so its workspace is unknown (HomeUnknown). ` +
				"Initialization will fail if kcp has to act as this owner"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			mode := v1beta1.Enforce
			if tc.mode != "" {
				mode = tc.mode
			}
			placed := object(tc.annotations)
			answer := newRewrite(mode).Review(t.Context(), request(t, object(annotations()), placed, apiServer))
			if answer.Decision != webhooks.Allowed || answer.Reason != tc.wantReason {
				t.Errorf("answer %s %s, want allowed %s", answer.Decision, answer.Reason, tc.wantReason)
			}
			if diff := cmp.Diff(tc.wantEvents, texts(answer.Events), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Events (-want +got):\n%s", diff)
			}
			want := placed.DeepCopy()
			if tc.wantOwner != "" { // no other part may differ
				changed := want.GetAnnotations()
				changed[ownerKey] = tc.wantOwner
				if tc.wantReason == "ServiceAccountRewritten" {
					changed[createdBy] = "1dz6n4ubraua7pul:default:bot"
				}
				want.SetAnnotations(changed)
			}
			if diff := cmp.Diff(want, apply(t, placed, answer)); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOwnerRewriteAnswersCanaries: the gate removes the annotation of its own canary, and of no other.
func TestOwnerRewriteAnswersCanaries(t *testing.T) {
	for value, want := range map[string]map[string]any{
		kcp.WebhookCanary: annotations(ownerKey, rawUser),
		kcp.PolicyCanary:  annotations(ownerKey, rawUser, kcp.CanaryAnnotation, kcp.PolicyCanary),
		"true":            annotations(ownerKey, rawUser, kcp.CanaryAnnotation, "true"),
	} {
		created := object(annotations(ownerKey, rawUser, kcp.CanaryAnnotation, value))
		answer := newRewrite(v1beta1.Enforce).Review(t.Context(), request(t, nil, created, alice))
		if diff := cmp.Diff(object(want), apply(t, created, answer)); answer.Decision != webhooks.Allowed || diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", value, answer.Decision, diff)
		}
	}
}

// apply patches an object as the API server does.
func apply(t *testing.T, object *unstructured.Unstructured, answer webhookstest.Answer) *unstructured.Unstructured {
	t.Helper()
	patched := &unstructured.Unstructured{}
	if err := json.Unmarshal(answer.Apply(t, encode(t, object)), patched); err != nil {
		t.Fatal(err)
	}
	return patched
}

// TestRewriteIsAdmittedByTheOtherGates: the other gates admit the object that OwnerRewrite has changed, and OwnerRewrite does not change it
// again.
func TestRewriteIsAdmittedByTheOtherGates(t *testing.T) {
	before := object(annotations(ownerKey, rawServiceAccount))
	placed := object(annotations(ownerKey, rawServiceAccount, clusterKey, newCluster))
	rewrite := newRewrite(v1beta1.Enforce)
	after := apply(t, placed, rewrite.Review(t.Context(), request(t, before, placed, apiServer)))

	if message := denial(t, newIntegrityPolicy(t), versioned(after, before, kubeadmission.Update, apiServer)); message != "" {
		t.Errorf("owner integrity denies it: %s", message)
	}
	for _, event := range newNotice().Review(t.Context(), request(t, before, after, apiServer)).Events {
		if event.Type != corev1.EventTypeNormal { // a rewrite may have a Normal Event
			t.Errorf("owner notice reports it: %s", event.Message)
		}
	}
	if answer := rewrite.Review(t.Context(), request(t, before, after, apiServer)); len(answer.Patches) > 0 {
		t.Errorf("the rewrite changes it again: %v", answer.Patches)
	}
}

func TestOwnerNotice(t *testing.T) {
	const admin = "The recorded owner has an administrator's permissions (system:kcp:admin), and kcp initializes this workspace with them; " +
		"create workspaces with a scoped service account, or as a user without these groups"
	for name, tc := range map[string]struct {
		owner      map[string]any
		wantReason string
		wantEvents []eventText
	}{
		"an administrator": {
			owner: annotations(ownerKey, rawAdmin, clusterKey, newCluster), wantReason: "PrivilegedOwner",
			wantEvents: []eventText{{corev1.EventTypeWarning, "PrivilegedOwner", admin}},
		},
		"a user with an administrator's warrant, where the gate OwnerRewrite only warns": {
			owner: annotations(ownerKey, rawLent, clusterKey, newCluster), wantReason: "PrivilegedOwner",
			wantEvents: []eventText{{corev1.EventTypeWarning, "PrivilegedOwner", admin}},
		},
		"an administrator with an owner that is too large to be rewritten": {
			owner: annotations(ownerKey, padded(200<<10, "system:kcp:admin"), clusterKey, newCluster), wantReason: "PrivilegedOwner",
			wantEvents: []eventText{{corev1.EventTypeWarning, "PrivilegedOwner", admin}},
		},
		"a user with an owner that is too large to be rewritten": {
			owner: annotations(ownerKey, padded(200<<10, "team-a"), clusterKey, newCluster), wantReason: "OwnerTooLarge",
			wantEvents: []eventText{{corev1.EventTypeWarning, "OwnerNotRewritten", "The recorded owner was not read: it is larger than 65536 bytes (OwnerTooLarge)"}},
		},
		"a user": {owner: annotations(ownerKey, rawUser, clusterKey, newCluster), wantReason: "InScope"},
		"no owner": {
			owner: annotations(clusterKey, newCluster), wantReason: "OwnerAbsent",
			wantEvents: []eventText{{corev1.EventTypeWarning, "OwnerNotRewritten", "No owner is recorded, so kcp can impersonate no user (OwnerAbsent). " +
				"Initialization will fail if kcp has to act as this owner"}},
		},
		"an owner that is not JSON": {
			owner: annotations(ownerKey, "bot", clusterKey, newCluster), wantReason: "OwnerMalformed",
			wantEvents: []eventText{{corev1.EventTypeWarning, "OwnerNotRewritten", "The recorded owner cannot be read: " +
				"invalid character 'b' at start of value (OwnerMalformed). Initialization will fail if kcp has to act as this owner"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			answer := newNotice().Review(t.Context(), request(t, object(annotations()), object(tc.owner), apiServer))
			if answer.Decision != webhooks.Allowed || answer.Reason != tc.wantReason || len(answer.Patches) > 0 {
				t.Errorf("answer %+v, want allowed %s without patches", answer, tc.wantReason)
			}
			if diff := cmp.Diff(tc.wantEvents, texts(answer.Events), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOwnerNoticeReportsRewritesOfThePolicy(t *testing.T) {
	before := object(annotations(ownerKey, rawServiceAccount))
	after := object(annotations(ownerKey, rewritten, clusterKey, newCluster, createdBy, "1dz6n4ubraua7pul:default:bot",
		kcp.RewrittenByAnnotation, kcp.RewrittenByPolicy))
	answer := newNotice().Review(t.Context(), request(t, before, after, apiServer))
	if answer.Decision != webhooks.Allowed || answer.Reason != "ServiceAccountRewritten" || len(answer.Patches) > 0 {
		t.Errorf("answer %+v, want allowed ServiceAccountRewritten, counted and without patches", answer)
	}
	want := []eventText{{corev1.EventTypeNormal, "OwnerRewritten", "S" + rewriteMessage}}
	if diff := cmp.Diff(want, texts(answer.Events)); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}

func TestOwnerNoticeReportsWarrantsThatThePolicyDropped(t *testing.T) {
	before := object(annotations(ownerKey, rawLent))
	after := object(annotations(ownerKey, rawUser, clusterKey, newCluster, kcp.RewrittenByAnnotation, kcp.RewrittenByPolicy))
	answer := newNotice().Review(t.Context(), request(t, before, after, apiServer))
	if answer.Decision != webhooks.Allowed || answer.Reason != "InScope" || len(answer.Patches) > 0 {
		t.Errorf("answer %+v, want allowed InScope, counted and without patches", answer)
	}
	want := []eventText{{corev1.EventTypeNormal, "WarrantDropped", "Not passed on to the owner: 1 warrant had an administrator's permissions, which are never delegated"}}
	if diff := cmp.Diff(want, texts(answer.Events)); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}

// TestOwnerNoticeReportsOnlyRewritesOfThePolicy: the policy's annotation is set, but the owner is not the one that RewritePolicy would
// have written.
func TestOwnerNoticeReportsOnlyRewritesOfThePolicy(t *testing.T) {
	for name, tc := range map[string]struct{ before, after string }{
		"an owner that need not be rewritten": {before: rawUser, after: rawUser},
		"another owner than the rewritten":    {before: rawServiceAccount, after: rawUser},
	} {
		t.Run(name, func(t *testing.T) {
			before := object(annotations(ownerKey, tc.before))
			after := object(annotations(ownerKey, tc.after, clusterKey, newCluster, createdBy, "1dz6n4ubraua7pul:default:bot",
				kcp.RewrittenByAnnotation, kcp.RewrittenByPolicy))
			answer := newNotice().Review(t.Context(), request(t, before, after, apiServer))
			if answer.Decision != webhooks.Allowed || answer.Reason != "InScope" || len(answer.Events) > 0 {
				t.Errorf("answer %+v, want allowed InScope, without an Event", answer)
			}
		})
	}
}

func TestRewritesAreLogged(t *testing.T) {
	bot := identity.Owner{Username: "system:serviceaccount:default:bot", Extra: map[string][]string{
		identity.ClusterNameKey:                      {"1dz6n4ubraua7pul"},
		"authentication.kubernetes.io/credential-id": {"JTI=7d0c"}, // is dropped, but is not a warrant
		identity.WarrantKey: {
			identity.Warrant{User: "somebody-else", Groups: []string{"system:kcp:admin"}}.String(),
			identity.Warrant{User: "bob"}.String(), identity.Warrant{User: "carol"}.String(),
		},
	}}
	scoped := identity.Owner{Username: "alice", Extra: map[string][]string{identity.ScopesKey: {"cluster:parent"}}}
	for name, tc := range map[string]struct {
		owner       identity.Owner
		wantDetails []any
	}{
		"a service account with warrants for one request": {owner: bot, wantDetails: []any{
			"cluster", "parent", "createdBy", "1dz6n4ubraua7pul:default:bot",
			"dropped", "warrant somebody-else (Privileged), warrant bob (NotDelegated), warrant carol (NotDelegated)", "privileged", "system:kcp:admin",
		}},
		"a user in scope, with warrants for one request": {
			owner: identity.Owner{Username: "alice", Extra: map[string][]string{identity.WarrantKey: bot.Extra[identity.WarrantKey]}},
			wantDetails: []any{
				"cluster", "parent",
				"dropped", "warrant somebody-else (Privileged), warrant bob (NotDelegated), warrant carol (NotDelegated)", "privileged", "system:kcp:admin",
			},
		},
		"a user": {
			owner:       scoped,
			wantDetails: []any{"cluster", "parent", "createdBy", "alice"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			placed := object(annotations(ownerKey, tc.owner.String(), clusterKey, newCluster))
			answer := newRewrite(v1beta1.Enforce).Review(t.Context(), request(t, object(annotations()), placed, apiServer))
			if diff := cmp.Diff(tc.wantDetails, answer.Details()); diff != "" {
				t.Errorf("logged (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoticeAboutClaimedSystem: kcp treats all of system:masters as the system, also one that the author of a WorkspaceType claims to be.
func TestNoticeAboutClaimedSystem(t *testing.T) {
	const why = ": only the system may set it, and the author of a WorkspaceType or an APIExport can claim to be the system in a virtual workspace of kcp"
	changed := withSpec(object(annotations(ownerKey, rawUser)), "URL", "https://h")
	notice := newDenialNotice(v1beta1.Enforce).Review(t.Context(), request(t, object(annotations(ownerKey, rawUser)), changed, claimed))
	want := []eventText{{corev1.EventTypeWarning, "OwnerChangeDenied", `User "system:apiserver" tried to change spec.URL` + why + ". Nothing was changed"}}
	if diff := cmp.Diff(want, texts(notice.Events)); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}

func TestDenialNotice(t *testing.T) {
	const why = "kcp acts in the workspace as the identity that is recorded there, so only the system may change it. Nothing was changed"
	forgery := object(annotations(ownerKey, rawAdmin))
	renamed := object(annotations(ownerKey, rawAdmin))
	renamed.SetName("WIN MONEY")
	renamed.SetUID("victim")
	impostor := &user.DefaultInfo{Name: "bob\n\nEvents: all is well " + strings.Repeat("x", 200)}
	event := func(by, message string) []events.Event {
		return []events.Event{{
			Cluster: "parent", Type: corev1.EventTypeWarning, Reason: "OwnerChangeDenied", Message: message, By: by,
			Object: corev1.ObjectReference{APIVersion: "tenancy.kcp.io/v1alpha1", Kind: "Workspace", Name: "child", UID: "0eb3", ResourceVersion: "2"},
		}}
	}
	byAlice := event("alice", `User "alice" tried to change `+ownerKey+`: `+why)
	for name, tc := range map[string]struct {
		by       user.Info
		old, new *unstructured.Unstructured
		mode     v1beta1.Mode
		want     []events.Event
		// wantPutBack are the annotations after it. nil: those of the request.
		wantPutBack map[string]any
	}{
		"a forgery is reported": {by: alice, old: object(annotations(ownerKey, rawUser)), new: forgery, want: byAlice},
		"on the stored object, because the new one is not validated yet": {
			by: alice, old: object(annotations(ownerKey, rawUser)), new: renamed, want: byAlice,
		},
		"without the text of annotations that the requester chose": {
			by: alice, old: object(annotations()),
			new:  object(annotations("warrantgate.dev/all-is-well", "", "warrantgate.dev/trust-me", "", createdBy, "bob")),
			want: event("alice", `User "alice" tried to change warrantgate.dev/*, warrantgate.dev/created-by: `+why),
		},
		"with a name that is cut and quoted": {
			by: impostor, old: object(annotations(ownerKey, rawUser)), new: forgery,
			want: event(impostor.Name, fmt.Sprintf("User %q tried to change %s: %s", message.Clip(impostor.Name, 128), ownerKey, why)),
		},
		"of more annotations than the policy compares": {
			by: alice, old: object(many(256)), new: object(many(257)),
			want: event("alice", `User "alice" tried to change one of more than 256 annotations: it cannot be checked whether the recorded identity stays the same. `+
				"Nothing was changed"),
		},
		"as admitted in the mode Warn": {
			by: alice, old: object(annotations(ownerKey, rawUser)), new: forgery, mode: v1beta1.Warn,
			want: event("alice", strings.Replace(`User "alice" tried to change `+ownerKey+`: `+why, "Nothing was changed", "It was changed, because the gate only warns", 1)),
		},
		"of a change only, and not of what is left out and put back": {
			by: alice, old: object(annotations(ownerKey, rawUser, createdBy, "alice", groupsKey, "team-a")),
			new: object(annotations(ownerKey, rawAdmin)), want: byAlice, wantPutBack: annotations(ownerKey, rawAdmin, createdBy, "alice", groupsKey, "team-a"),
		},
		"what is left out is put back, without an Event": {
			by: alice, old: object(annotations(ownerKey, rawUser, createdBy, "alice", "warrantgate.dev/a~b", "", "example.com/x", "1")),
			new: object(annotations()), wantPutBack: annotations(ownerKey, rawUser, createdBy, "alice", "warrantgate.dev/a~b", ""),
		},
		"all annotations are left out": {
			by: alice, old: object(annotations(ownerKey, rawUser, createdBy, "alice")), new: object(nil),
			wantPutBack: map[string]any{ownerKey: rawUser, createdBy: "alice"},
		},
		"the system removes annotations": {by: apiServer, old: object(annotations(ownerKey, rawUser)), new: object(nil)},
		"nothing is put back to more than the policy compares": {
			by: alice, old: object(many(257, ownerKey, rawUser)), new: object(annotations()),
			want: event("alice", `User "alice" tried to change one of more than 256 annotations: it cannot be checked whether the recorded identity stays the same. `+
				"Nothing was changed"),
		},
		"a change by the system is admitted": {by: apiServer, old: object(annotations(ownerKey, rawUser)), new: forgery},
		"a change of other annotations is admitted": {
			by: alice, old: object(annotations(ownerKey, rawUser)), new: object(annotations(ownerKey, rawUser, "a", "b")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			answer := newDenialNotice(stdcmp.Or(tc.mode, v1beta1.Enforce)).Review(t.Context(), request(t, tc.old, tc.new, tc.by))
			if answer.Decision != webhooks.Allowed {
				t.Errorf("answer %+v, want allowed", answer)
			}
			kept := tc.new.DeepCopy()
			if tc.wantPutBack != nil {
				kept = object(tc.wantPutBack)
				kept.SetName(tc.new.GetName())
			}
			if diff := cmp.Diff(kept, apply(t, tc.new, answer)); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, answer.Events); diff != "" {
				t.Errorf("Events (-want +got):\n%s", diff)
			}
		})
	}
	undecodable := request(t, object(nil), object(nil), alice)
	undecodable.Object.Raw = nil
	if answer := newDenialNotice(v1beta1.Enforce).Review(t.Context(), undecodable); answer.Decision != webhooks.Allowed || len(answer.Events) > 0 {
		t.Errorf("answer to an undecodable object %+v, want allowed", answer)
	}
}

func TestUndecodableObjectsAreDenied(t *testing.T) {
	for name, gate := range map[string]webhookstest.Gate{
		"owner-rewrite": newRewrite(v1beta1.Enforce),
		"owner-notice":  newNotice(),
	} {
		for what, raw := range map[string]string{"annotations that are numbers": `{"metadata":{"annotations":{"a":1}}}`, "nothing": ""} {
			t.Run(name+" with "+what, func(t *testing.T) {
				if gate.Name() != name {
					t.Errorf("Name() = %q", gate.Name())
				}
				r := request(t, object(nil), object(nil), alice)
				r.Object.Raw = []byte(raw)
				if answer := gate.Review(t.Context(), r); answer.Decision != webhooks.Denied || answer.Reason != "Undecodable" ||
					answer.Status != metav1.StatusReasonBadRequest || answer.Message == "" {
					t.Errorf("answer %+v, want denied Undecodable as 400 with a message", answer)
				}
			})
		}
	}
}

func FuzzReview(f *testing.F) {
	for _, raw := range []string{rawServiceAccount, rawScoped, rawUser, rawAdmin, "", "{"} {
		seed, err := json.Marshal(object(annotations(ownerKey, raw, clusterKey, newCluster, groupsKey, "a,b;c")))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed, seed)
	}
	gates := []webhookstest.Gate{
		{Gate: workspace.NewOwnerRewrite(identity.Policy{Users: []string{"*"}})}, newNotice(), newDenialNotice(v1beta1.Enforce),
	}
	f.Fuzz(func(t *testing.T, old, object []byte) {
		for _, gate := range gates {
			answer := gate.Review(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Update, Object: runtime.RawExtension{Raw: object}, OldObject: runtime.RawExtension{Raw: old},
			}})
			if answer.Reason == "" || answer.Message == "" && answer.Decision != webhooks.Allowed {
				t.Errorf("%s: answer %+v has no reason or message", gate.Name(), answer)
			}
		}
	})
}
