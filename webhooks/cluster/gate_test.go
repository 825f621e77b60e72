package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/impersonation"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/cluster"
	"warrantgate.dev/webhooks/webhookstest"
)

// alice has all fields that a review has to contain.
var alice = authenticationv1.UserInfo{
	Username: "alice", UID: "u1", Groups: []string{"team-a", "system:authenticated"},
	Extra: map[string]authenticationv1.ExtraValue{"example.com/scope": {"a", "b"}},
}

// impersonate and getIn are the reviews for alice. getIn is for the Secret "user" of a namespace.
func impersonate(name string) authorizationv1.SubjectAccessReviewSpec {
	return requested(authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: "users", Name: name})
}

func getIn(namespace string) authorizationv1.SubjectAccessReviewSpec {
	return requested(authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: namespace, Name: "user"})
}

func requested(attributes authorizationv1.ResourceAttributes) authorizationv1.SubjectAccessReviewSpec {
	return authorizationv1.SubjectAccessReviewSpec{
		User: "alice", UID: "u1", Groups: []string{"team-a", "system:authenticated"},
		Extra: map[string]authorizationv1.ExtraValue{"example.com/scope": {"a", "b"}}, ResourceAttributes: &attributes,
	}
}

// fakeReviewer records the reviews, and allows only the listed attributes.
type fakeReviewer struct {
	allowed, evaluationErrors map[authorizationv1.ResourceAttributes]string
	err                       error
	requested                 []authorizationv1.SubjectAccessReviewSpec
}

var _ impersonation.Reviewer = &fakeReviewer{}

func (r *fakeReviewer) Review(
	_ context.Context, spec authorizationv1.SubjectAccessReviewSpec,
) (authorizationv1.SubjectAccessReviewStatus, error) {
	r.requested = append(r.requested, spec)
	_, allowed := r.allowed[*spec.ResourceAttributes]
	return authorizationv1.SubjectAccessReviewStatus{
		Allowed: allowed, EvaluationError: r.evaluationErrors[*spec.ResourceAttributes],
	}, r.err
}

func reviewerThatAllows(questions ...authorizationv1.SubjectAccessReviewSpec) *fakeReviewer {
	r := &fakeReviewer{allowed: map[authorizationv1.ResourceAttributes]string{}}
	for _, question := range questions {
		r.allowed[*question.ResourceAttributes] = ""
	}
	return r
}

// fakeUsers are the Secrets by namespace and name, and the clusters that refer to each.
type fakeUsers struct {
	emails     map[string]string
	dependents map[string][]clusterapi.Dependent
	err        error
	// shared is true if clusters without a user share an account.
	shared bool
	// account is that of every cluster object.
	account    ownership.Account
	accountErr error
	// objects has the objects by resource.
	objects    map[string]object
	objectsErr error
}

var _ cluster.Users = &fakeUsers{}

func (u *fakeUsers) User(_ context.Context, ref clusterapi.UserRef) (string, error) {
	if u.err != nil {
		return "", u.err
	}
	email, found := u.emails[ref.SecretNamespace+"/"+ref.SecretName]
	if !found {
		return "", &clusterapi.AccountError{Reason: clusterapi.UserSecretMissing, Message: fmt.Sprintf(
			"spec.userRef: there is no Secret %q in namespace %q", ref.SecretName, ref.SecretNamespace)}
	}
	if email == "" {
		return "", &clusterapi.AccountError{Reason: clusterapi.UserMissing, Message: fmt.Sprintf(
			"spec.userRef: Secret %q in namespace %q has nothing under the key userEmail", ref.SecretName, ref.SecretNamespace)}
	}
	return email, nil
}

func (u *fakeUsers) AccountOf(context.Context, v1beta1.Provider, *unstructured.Unstructured) (ownership.Account, error) {
	return u.account, u.accountErr
}

func (u *fakeUsers) SharedAccount() bool { return u.shared }

func (u *fakeUsers) UserDependents(_ context.Context, namespace, secret, user string) ([]clusterapi.Dependent, error) {
	dependents := slices.Clone(u.dependents[namespace+"/"+secret])
	for i := range dependents {
		dependents[i].Account.User = user
	}
	return dependents, u.err
}

func (u *fakeUsers) Object(_ context.Context, resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	found, exists := u.objects[resource.Resource]
	if !exists || namespace != "team-a" || name != "prod" {
		return nil, u.objectsErr
	}
	raw, err := json.Marshal(found)
	if err != nil {
		return nil, err
	}
	read := &unstructured.Unstructured{}
	return read, json.Unmarshal(raw, &read.Object)
}

// enforced is a configuration with mode Enforce.
var enforced = v1beta1.Cluster{
	Impersonation: v1beta1.ClusterImpersonation{Mode: v1beta1.Enforce}, Delegation: v1beta1.ClusterDelegation{Mode: v1beta1.Enforce},
}

// regions are the allowed regions.
var regions = []string{"next", "zrh"}

// object is the object of a request, as JSON.
type object map[string]any

func metadata(more object) object {
	all := object{"name": "prod", "namespace": "team-a", "uid": "0eb3", "resourceVersion": "2"}
	for key, value := range more {
		all[key] = value
	}
	return all
}

// clusterWith is a CloudSigmaCluster.
func clusterWith(spec any) object { return object{"metadata": metadata(nil), "spec": spec} }

// kdcWith is a KdcCluster.
func kdcWith(annotations any) object {
	return object{"metadata": metadata(object{"annotations": annotations})}
}

// secretWith is a Secret with data.
func secretWith(data map[string][]byte) object {
	return object{"metadata": metadata(object{"name": "user"}), "data": data, "type": "Opaque"}
}

func userRef(name, namespace string) object {
	return object{"name": name, "namespace": namespace}
}

var resources = map[string]metav1.GroupVersionResource{
	"cloudsigmaclusters": {Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Resource: "cloudsigmaclusters"},
	"kdcclusters":        {Group: "k8s.kube-dc.com", Version: "v1alpha1", Resource: "kdcclusters"},
	"secrets":            {Version: "v1", Resource: "secrets"},
}

// delegationResources are those of the gate on delegated roles.
var delegationResources = map[string]metav1.GroupVersionResource{
	"openstackclusters": {Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Resource: "openstackclusters"},
	"openstackmachines": {Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Resource: "openstackmachines"},
	"secrets":           {Version: "v1", Resource: "secrets"},
}

func resourceOf(name string) metav1.GroupVersionResource {
	if resource, found := delegationResources[name]; found {
		return resource
	}
	return resources[name]
}

// request is alice's request to update an object, or to create it if before is nil.
func request(t *testing.T, resource string, before, after object) admission.Request {
	t.Helper()
	r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "d1", Operation: admissionv1.Create, Resource: resourceOf(resource), Namespace: "team-a", Name: "prod", UserInfo: alice,
		Object: runtime.RawExtension{Raw: encode(t, after)},
	}}
	if before != nil {
		r.Operation, r.OldObject.Raw = admissionv1.Update, encode(t, before)
	}
	return r
}

func encode(t *testing.T, object any) []byte {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func newGate(config v1beta1.Cluster, reviewer impersonation.Reviewer, users cluster.Users, holdings *cluster.Holdings) webhookstest.Gate {
	gate := cluster.NewImpersonation(config, regions, impersonation.NewChecker(reviewer), users, holdings)
	return webhookstest.Gate{Gate: gate, Mode: config.Impersonation.Mode}
}

// newForProvider returns the gate for the provider of logical cluster "pppppppp".
func newForProvider(config v1beta1.Cluster, reviewer impersonation.Reviewer, users cluster.Users) webhookstest.Gate {
	gate := cluster.NewImpersonation(config, regions, impersonation.NewProviderChecker(reviewer, "pppppppp"), users, nil)
	return webhookstest.Gate{Gate: gate, Mode: config.Impersonation.Mode}
}

func newDelegationGate(
	config v1beta1.Cluster, policy identity.CredentialPolicy, delegations cluster.Delegations,
	with func(namespace, name string, data map[string][]byte) cluster.Proposed, credentials cluster.Credentials, holdings *cluster.Holdings,
) webhookstest.Gate {
	return webhookstest.Gate{Gate: cluster.NewDelegation(config, policy, delegations, with, credentials, holdings), Mode: config.Delegation.Mode}
}

// compareAnswers compares the answers, and the details as they are logged.
func compareAnswers(t *testing.T, want, got webhookstest.Answer) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(webhookstest.Answer{}, "Details")); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	var wantDetails, gotDetails []any
	if want.Details != nil {
		wantDetails = want.Details()
	}
	if got.Details != nil {
		gotDetails = got.Details()
	}
	if diff := cmp.Diff(wantDetails, gotDetails, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
}

func details(pairs ...any) func() []any { return func() []any { return pairs } }

const (
	grantAlice = "kubectl create clusterrole warrantgate:impersonate:tenant@example.com --verb=impersonate --resource=users " +
		"--resource-name=tenant@example.com; kubectl create clusterrolebinding warrantgate:impersonate:tenant@example.com:alice " +
		"--clusterrole=warrantgate:impersonate:tenant@example.com --user=alice"
	ofCluster = ` of CloudSigmaCluster "prod" of namespace "team-a": `
	ofSecret  = `data.userEmail of Secret "user" of namespace "team-a": `
	remedy    = "; name a user that you may impersonate, or have it granted: "
	byName    = remedy + "verb impersonate on resource users, by the name of this user in lower case"
	writeThen = "; write the user's email there under the key userEmail first, or name the user in spec.userEmail"
)

// eventOn is the Event about the object of a request to update it.
func eventOn(apiVersion, kind, name, reason, message string) []events.Event {
	return []events.Event{{
		Object: corev1.ObjectReference{
			APIVersion: apiVersion, Kind: kind, Namespace: "team-a", Name: name, UID: "0eb3", ResourceVersion: "2",
		},
		Type: corev1.EventTypeWarning, Reason: reason, Message: message,
	}}
}

func eventOnCluster(reason, message string) []events.Event {
	return eventOn("infrastructure.cluster.x-k8s.io/v1beta1", "CloudSigmaCluster", "prod", reason, message)
}

// malformed is the denial of an email with blanks around it. event is nil if there is no object for an Event.
func malformed(field, of string, event func(reason, message string) []events.Event) webhookstest.Answer {
	answer := webhookstest.Answer{
		Status: metav1.StatusReasonInvalid, Reason: "UserMalformed", Field: field,
		Message: field + of + "there are blanks, tabs or line breaks around the email address, which the provider sends as part of it; write it without them",
	}
	if event != nil {
		answer.Events = event("UserMalformed", "Denied: "+answer.Message)
	}
	return answer
}

// TestUsersOfClusters tests the gate on CloudSigmaClusters.
func TestUsersOfClusters(t *testing.T) {
	emails := map[string]string{"team-a/user": "tenant@example.com", "team-b/user": "tenant@example.com", "team-a/empty": ""}
	allowed := webhookstest.Answer{Decision: webhooks.Allowed, Reason: "ImpersonationAllowed"}
	nothing := webhookstest.Answer{Decision: webhooks.Allowed, Reason: "NothingNamed"}
	deniedEmail := `spec.userEmail` + ofCluster + `user "alice" may not impersonate "tenant@example.com"` + remedy + grantAlice
	deniedRef := `spec.userRef` + ofCluster + `user "alice" may not impersonate the user that Secret "user" of namespace "team-a" names` + byName

	for name, tc := range map[string]struct {
		old, new      object
		reviewer      *fakeReviewer
		err           error // of the Secret
		want          webhookstest.Answer
		wantRequested []authorizationv1.SubjectAccessReviewSpec
	}{
		"an email of a user that the requester may impersonate": {
			new: clusterWith(object{"userEmail": "tenant@example.com"}), reviewer: reviewerThatAllows(impersonate("tenant@example.com")),
			want: allowed, wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("tenant@example.com")},
		},
		"an email with capitals, and a permission for the email in lower case": {
			new: clusterWith(object{"userEmail": "Tenant@Example.com"}), reviewer: reviewerThatAllows(impersonate("tenant@example.com")),
			want: allowed, wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("Tenant@Example.com"), impersonate("tenant@example.com")},
		},
		"an email with blanks around it": {
			old: clusterWith(object{"userEmail": "tenant@example.com"}), new: clusterWith(object{"userEmail": "tenant@example.com\n"}), reviewer: reviewerThatAllows(),
			want: malformed("spec.userEmail", ofCluster, eventOnCluster),
		},
		"blanks only, next to a Secret": {
			new: clusterWith(object{"userEmail": " ", "userRef": userRef("user", "")}), reviewer: reviewerThatAllows(impersonate("tenant@example.com")),
			want: malformed("spec.userEmail", ofCluster, nil),
		},
		"a Secret whose email has blanks around it": {
			new: clusterWith(object{"userRef": userRef("user", "")}), reviewer: reviewerThatAllows(impersonate("tenant@example.com")),
			err: &clusterapi.AccountError{Reason: clusterapi.UserMalformed, Message: `spec.userRef: key userEmail of Secret "user" in namespace "team-a": why`},
			want: webhookstest.Answer{
				Status: metav1.StatusReasonInvalid, Reason: "UserMalformed", Field: "spec.userRef",
				Message: `spec.userRef` + ofCluster + `key userEmail of Secret "user" in namespace "team-a": why`,
			},
		},
		"an email with capitals, and a permission for the same spelling": {
			new: clusterWith(object{"userEmail": "Tenant@Example.com"}), reviewer: reviewerThatAllows(impersonate("Tenant@Example.com")),
			want: allowed, wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("Tenant@Example.com")},
		},
		"the email of another user on create, without an object for an Event": {
			new: clusterWith(object{"userEmail": "tenant@example.com"}), reviewer: reviewerThatAllows(),
			want: webhookstest.Answer{
				Reason: "ImpersonationNotAllowed", Message: deniedEmail, Field: "spec.userEmail",
			},
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("tenant@example.com")},
		},
		"the email of another user on create, with the Event on the owner": {
			new: object{"metadata": metadata(object{"ownerReferences": []object{
				{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": "prod", "uid": "7c1d"}, {"kind": "Other"},
			}}), "spec": object{"userEmail": "tenant@example.com"}},
			reviewer: reviewerThatAllows(),
			want: webhookstest.Answer{
				Reason: "ImpersonationNotAllowed", Message: deniedEmail, Field: "spec.userEmail",
				Events: []events.Event{{
					Object: corev1.ObjectReference{
						APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Cluster", Namespace: "team-a", Name: "prod", UID: types.UID("7c1d"),
					},
					Type: corev1.EventTypeWarning, Reason: "ImpersonationNotAllowed", Message: "Denied: " + deniedEmail,
				}},
			},
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("tenant@example.com")},
		},
		"the email of another user on update": {
			old: clusterWith(object{"userEmail": "alice@example.com"}), new: clusterWith(object{"userEmail": "tenant@example.com"}),
			reviewer: reviewerThatAllows(impersonate("alice@example.com")),
			want: webhookstest.Answer{
				Reason: "ImpersonationNotAllowed", Message: deniedEmail, Field: "spec.userEmail",
				Events: eventOnCluster("ImpersonationNotAllowed", "Denied: "+deniedEmail),
			},
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("tenant@example.com")},
		},
		"the email of another user and a Secret, over which the email has precedence": {
			old: clusterWith(object{"userRef": userRef("user", "")}), new: clusterWith(object{"userEmail": "TENANT@example.com", "userRef": userRef("user", "")}),
			reviewer: reviewerThatAllows(getIn("team-a")),
			want: webhookstest.Answer{
				Reason: "ImpersonationNotAllowed", Message: strings.Replace(deniedEmail, "tenant@example.com", "TENANT@example.com", 1), Field: "spec.userEmail",
				Events: eventOnCluster("ImpersonationNotAllowed", "Denied: "+strings.Replace(deniedEmail, "tenant@example.com", "TENANT@example.com", 1)),
			},
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("TENANT@example.com"), impersonate("tenant@example.com")},
		},
		"a permission that could not be evaluated": {
			new: clusterWith(object{"userEmail": "tenant@example.com"}),
			reviewer: &fakeReviewer{evaluationErrors: map[authorizationv1.ResourceAttributes]string{
				*impersonate("tenant@example.com").ResourceAttributes: "clusterrole \"x\" not found"}},
			want: webhookstest.Answer{
				Reason: "ImpersonationNotAllowed", Message: deniedEmail, Field: "spec.userEmail",
				Details: details("evaluationErrors", []string{`clusterrole "x" not found`}),
			},
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("tenant@example.com")},
		},
		"an API server that does not respond": {
			old: clusterWith(object{}), new: clusterWith(object{"userEmail": "tenant@example.com"}), reviewer: &fakeReviewer{err: context.DeadlineExceeded},
			want: webhookstest.Answer{
				Decision: webhooks.Undecided, Reason: "ImpersonationUnknown", Field: "spec.userEmail",
				Message: `spec.userEmail` + ofCluster + `the permissions of the requester could not be checked; try again`,
				Details: details("error", "context deadline exceeded"),
				Events: eventOnCluster("ImpersonationUnknown",
					`Denied: spec.userEmail`+ofCluster+`the permissions of the requester could not be checked; try again`),
			},
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("tenant@example.com")},
		},
		// The user in a Secret.
		"a Secret of a user that the requester may impersonate": {
			new: clusterWith(object{"userRef": userRef("user", "")}), reviewer: reviewerThatAllows(impersonate("tenant@example.com")),
			want: allowed, wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("tenant@example.com")},
		},
		"a Secret of another user, which the requester may not read": {
			old: clusterWith(object{}), new: clusterWith(object{"userRef": userRef("user", "team-a")}), reviewer: reviewerThatAllows(),
			want: webhookstest.Answer{
				Reason: "ImpersonationNotAllowed", Message: deniedRef, Field: "spec.userRef", Details: details("secret", "team-a/user"),
				Events: eventOnCluster("ImpersonationNotAllowed", "Denied: "+deniedRef),
			},
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("tenant@example.com"), getIn("team-a")},
		},
		"a Secret of another user, which the requester may read, but readers of Events may not": {
			old: clusterWith(object{}), new: clusterWith(object{"userRef": userRef("user", "")}), reviewer: reviewerThatAllows(getIn("team-a")),
			want: webhookstest.Answer{
				Reason: "ImpersonationNotAllowed", Field: "spec.userRef", Details: details("secret", "team-a/user"),
				Message: strings.Replace(deniedEmail, "spec.userEmail", "spec.userRef", 1),
				Events:  eventOnCluster("ImpersonationNotAllowed", "Denied: "+deniedRef),
			},
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("tenant@example.com"), getIn("team-a")},
		},
		"an email is cleared, and the Secret is used instead": {
			old: clusterWith(object{"userEmail": "alice@example.com", "userRef": userRef("user", "")}), new: clusterWith(object{"userRef": userRef("user", "")}),
			reviewer: reviewerThatAllows(impersonate("alice@example.com")),
			want: webhookstest.Answer{
				Reason: "ImpersonationNotAllowed", Message: deniedRef, Field: "spec.userRef", Details: details("secret", "team-a/user"),
				Events: eventOnCluster("ImpersonationNotAllowed", "Denied: "+deniedRef),
			},
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("tenant@example.com"), getIn("team-a")},
		},
		"a Secret of another namespace that the requester may read, of a user that it may impersonate": {
			new:      clusterWith(object{"userRef": userRef("user", "team-b")}),
			reviewer: reviewerThatAllows(getIn("team-b"), impersonate("tenant@example.com")),
			want:     allowed, wantRequested: []authorizationv1.SubjectAccessReviewSpec{getIn("team-b"), impersonate("tenant@example.com")},
		},
		"a Secret of another namespace that the requester may not read, though it may impersonate all users": {
			new: clusterWith(object{"userRef": userRef("user", "team-b")}), reviewer: &fakeReviewer{
				allowed: map[authorizationv1.ResourceAttributes]string{*impersonate("tenant@example.com").ResourceAttributes: ""},
				evaluationErrors: map[authorizationv1.ResourceAttributes]string{
					*getIn("team-b").ResourceAttributes: "role not found",
				},
			},
			want: webhookstest.Answer{
				Reason: "SecretNotReadable", Field: "spec.userRef", Details: details("evaluationErrors", []string{"role not found"}),
				Message: `spec.userRef` + ofCluster + `it names Secret "user" of another namespace, "team-b", which user "alice" may not read; ` +
					`name a Secret of the cluster's own namespace or one that you may read, or have the permission granted: verb get on this Secret`,
			},
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{getIn("team-b")},
		},
		"a Secret of another namespace, and an API server that does not respond": {
			new: clusterWith(object{"userRef": userRef("user", "team-b")}), reviewer: &fakeReviewer{err: errors.New("boom")},
			want: webhookstest.Answer{
				Decision: webhooks.Undecided, Reason: "ImpersonationUnknown", Field: "spec.userRef", Details: details("error", "boom"),
				Message: `spec.userRef` + ofCluster + `the permissions of the requester could not be checked; try again`,
			},
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{getIn("team-b")},
		},
		"a Secret that does not exist": {
			new: clusterWith(object{"userRef": userRef("none", "")}), reviewer: reviewerThatAllows(),
			want: webhookstest.Answer{
				Reason: "UserSecretMissing", Field: "spec.userRef",
				Message: `spec.userRef` + ofCluster + `there is no Secret "none" in namespace "team-a"` + writeThen,
			},
		},
		"a Secret that names no user": {
			new: clusterWith(object{"userRef": userRef("empty", "")}), reviewer: reviewerThatAllows(),
			want: webhookstest.Answer{
				Reason: "UserMissing", Field: "spec.userRef",
				Message: `spec.userRef` + ofCluster + `Secret "empty" in namespace "team-a" has nothing under the key userEmail` + writeThen,
			},
		},
		"a Secret that cannot be read": {
			new: clusterWith(object{"userRef": userRef("user", "")}), reviewer: reviewerThatAllows(), err: errors.New("boom"),
			want: webhookstest.Answer{
				Decision: webhooks.Undecided, Reason: "SecretUnknown", Field: "spec.userRef", Details: details("error", "boom"),
				Message: `spec.userRef` + ofCluster + `the Secret cannot be read now; try again`,
			},
		},
		// No other user is named.
		"no user on create": {new: clusterWith(object{"region": "zrh"}), reviewer: reviewerThatAllows(), want: nothing},
		"both cleared": {
			old: clusterWith(object{"userEmail": "tenant@example.com", "userRef": userRef("user", "")}), new: clusterWith(object{}),
			reviewer: reviewerThatAllows(), want: nothing,
		},
		"another Secret below the same email": {
			old: clusterWith(object{"userEmail": "tenant@example.com"}), new: clusterWith(object{"userEmail": "tenant@example.com", "userRef": userRef("user", "team-b")}),
			reviewer: reviewerThatAllows(), want: nothing,
		},
		"the same email in capitals": {
			old: clusterWith(object{"userEmail": "tenant@example.com"}), new: clusterWith(object{"userEmail": "TENANT@EXAMPLE.COM"}),
			reviewer: reviewerThatAllows(), want: nothing,
		},
		"the same Secret, with the namespace that it has anyway": {
			old: clusterWith(object{"userRef": userRef("user", "")}), new: clusterWith(object{"userRef": userRef("user", "team-a")}),
			reviewer: reviewerThatAllows(), want: nothing,
		},
		// Malformed objects.
		"an email that is not a string": {
			new: clusterWith(object{"userEmail": 5}), reviewer: reviewerThatAllows(),
			want: webhookstest.Answer{Status: metav1.StatusReasonInvalid, Reason: "ClusterUnreadable", Message: `CloudSigmaCluster "prod": spec.userEmail is float64 where a string belongs`},
		},
		"an email that was not a string before": {
			old: clusterWith(object{"userEmail": 5}), new: clusterWith(object{"userEmail": "tenant@example.com"}),
			reviewer: reviewerThatAllows(impersonate("tenant@example.com")), want: allowed,
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("tenant@example.com")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			gate := newGate(enforced, tc.reviewer, &fakeUsers{emails: emails, err: tc.err}, nil)
			compareAnswers(t, tc.want, gate.Review(t.Context(), request(t, "cloudsigmaclusters", tc.old, tc.new)))
			if diff := cmp.Diff(tc.wantRequested, tc.reviewer.requested); diff != "" {
				t.Errorf("reviews (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUsersOfKdcClusters(t *testing.T) {
	const newer, older = "cloudsigma.com/owner-email", "kube-dc.com/owner-email"
	denial := func(key string) webhookstest.Answer {
		message := `metadata.annotations[` + key + `] of KdcCluster "prod" of namespace "team-a": user "alice" may not impersonate "tenant@example.com"` +
			remedy + grantAlice
		return webhookstest.Answer{
			Reason: "ImpersonationNotAllowed", Message: message, Field: "metadata.annotations[" + key + "]",
			Events: eventOn("k8s.kube-dc.com/v1alpha1", "KdcCluster", "prod", "ImpersonationNotAllowed", "Denied: "+message),
		}
	}
	onKdc := func(reason, message string) []events.Event {
		return eventOn("k8s.kube-dc.com/v1alpha1", "KdcCluster", "prod", reason, message)
	}
	for name, tc := range map[string]struct {
		old, new      any // annotations
		want          webhookstest.Answer
		wantRequested []authorizationv1.SubjectAccessReviewSpec
	}{
		"a user that the requester may impersonate": {
			old: nil, new: object{newer: "Alice@example.com"}, want: webhookstest.Answer{Decision: webhooks.Allowed, Reason: "ImpersonationAllowed"},
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("Alice@example.com"), impersonate("alice@example.com")},
		},
		"another": {
			old: object{newer: "alice@example.com"}, new: object{newer: "tenant@example.com"}, want: denial(newer),
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("tenant@example.com")},
		},
		"another in the older annotation, next to one that is allowed": {
			old: object{}, new: object{newer: "alice@example.com", older: "tenant@example.com"}, want: denial(older),
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("alice@example.com"), impersonate("tenant@example.com")},
		},
		"another user, who was already named": {
			old: object{older: "tenant@example.com"}, new: object{newer: "alice@example.com", older: "TENANT@example.com"},
			want:          webhookstest.Answer{Decision: webhooks.Allowed, Reason: "ImpersonationAllowed"},
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("alice@example.com")},
		},
		"another in the older annotation, which counts after the newer one is removed": {
			old: object{newer: "alice@example.com", older: "tenant@example.com"}, new: object{older: "tenant@example.com"}, want: denial(older),
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("tenant@example.com")},
		},
		"another in the older annotation, which counts after the newer one is empty": {
			old: object{newer: "alice@example.com", older: "tenant@example.com"}, new: object{newer: "", older: "tenant@example.com"}, want: denial(older),
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("tenant@example.com")},
		},
		"blanks around it": {
			old: object{newer: "alice@example.com"}, new: object{newer: "\talice@example.com"},
			want: malformed("metadata.annotations["+newer+"]", ` of KdcCluster "prod" of namespace "team-a": `, onKdc),
		},
		"blanks around the older one": {
			old: object{}, new: object{older: "alice@example.com "},
			want: malformed("metadata.annotations["+older+"]", ` of KdcCluster "prod" of namespace "team-a": `, onKdc),
		},
		"the same in the older annotation, after the newer one is removed": {
			old: object{newer: "TENANT@example.com", older: "tenant@example.com"}, new: object{older: "tenant@example.com"},
			want: webhookstest.Answer{Decision: webhooks.Allowed, Reason: "NothingNamed"},
		},
		"the older one is removed": {
			old: object{newer: "tenant@example.com", older: "alice@example.com"}, new: object{newer: "tenant@example.com"},
			want: webhookstest.Answer{Decision: webhooks.Allowed, Reason: "NothingNamed"},
		},
		"both are cleared": {
			old: object{newer: "tenant@example.com", older: "tenant@example.com"}, new: object{older: ""},
			want: webhookstest.Answer{Decision: webhooks.Allowed, Reason: "NothingNamed"},
		},
		"annotations that could not be read before": {
			old: "odd", new: object{newer: "tenant@example.com"}, want: denial(newer),
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("tenant@example.com")},
		},
		"annotations that cannot be read": {
			old: nil, new: object{newer: 5}, want: webhookstest.Answer{Status: metav1.StatusReasonBadRequest, Reason: "Undecodable", Message: "the KdcCluster cannot be decoded"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			reviewer := reviewerThatAllows(impersonate("alice@example.com"))
			answer := newGate(enforced, reviewer, &fakeUsers{}, nil).Review(t.Context(), request(t, "kdcclusters", kdcWith(tc.old), kdcWith(tc.new)))
			compareAnswers(t, tc.want, answer)
			if diff := cmp.Diff(tc.wantRequested, reviewer.requested); diff != "" {
				t.Errorf("reviews (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUsersOfSecrets tests a bypass of the gate: a write of the Secret after or while the cluster is admitted.
func TestUsersOfSecrets(t *testing.T) {
	const canary = "canary-of-the-secret"
	data := func(email string) map[string][]byte {
		return map[string][]byte{"userEmail": []byte(email), "password": []byte(canary)}
	}
	public := `Denied: ` + ofSecret + `user "alice" may not impersonate the user that Secret "user" of namespace "team-a" names`

	for name, tc := range map[string]struct {
		old, new      object
		exempt        bool
		want          webhookstest.Answer
		wantRequested []authorizationv1.SubjectAccessReviewSpec
	}{
		"another user, in a namespace to whose Secrets no cluster can refer": {
			old: secretWith(data("alice@example.com")), new: secretWith(data("tenant@example.com")), exempt: true,
			want: webhookstest.Answer{Decision: webhooks.Allowed, Reason: "NamespaceExempt"},
		},
		"a user that the requester may impersonate": {
			old: secretWith(data("tenant@example.com")), new: secretWith(data("alice@example.com")),
			want:          webhookstest.Answer{Decision: webhooks.Allowed, Reason: "ImpersonationAllowed"},
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("alice@example.com")},
		},
		"another user, whose name readers of Events must not see": {
			old: secretWith(data("alice@example.com")), new: secretWith(data("TENANT@example.com")),
			want: webhookstest.Answer{
				Reason: "ImpersonationNotAllowed", Field: "data.userEmail",
				Message: ofSecret + `user "alice" may not impersonate "TENANT@example.com"` + remedy + grantAlice,
				Details: details("secret", "team-a/user"),
				Events:  eventOn("v1", "Secret", "user", "ImpersonationNotAllowed", public+byName),
			},
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("TENANT@example.com"), impersonate("tenant@example.com")},
		},
		"another on create": {
			new: secretWith(data("tenant@example.com")),
			want: webhookstest.Answer{
				Reason: "ImpersonationNotAllowed", Field: "data.userEmail",
				Message: ofSecret + `user "alice" may not impersonate "tenant@example.com"` + remedy + grantAlice,
				Details: details("secret", "team-a/user"),
			},
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("tenant@example.com")},
		},
		"the same user in another spelling": {
			old: secretWith(data("tenant@example.com")), new: secretWith(data("Tenant@Example.com")),
			want: webhookstest.Answer{Decision: webhooks.Allowed, Reason: "NothingNamed"},
		},
		"a line break after the user, as from a file": {
			old: secretWith(data("alice@example.com")), new: secretWith(data("alice@example.com\n")), want: malformed("data.userEmail",
				` of Secret "user" of namespace "team-a": `, func(reason, message string) []events.Event { return eventOn("v1", "Secret", "user", reason, message) }),
		},
		"the user is cleared": {
			old: secretWith(data("tenant@example.com")), new: secretWith(nil),
			want: webhookstest.Answer{Decision: webhooks.Allowed, Reason: "NothingNamed"},
		},
		"a Secret that could not be read before": {
			old: object{"data": canary}, new: secretWith(data("alice@example.com")),
			want:          webhookstest.Answer{Decision: webhooks.Allowed, Reason: "ImpersonationAllowed"},
			wantRequested: []authorizationv1.SubjectAccessReviewSpec{impersonate("alice@example.com")},
		},
		"a Secret that cannot be decoded, whose content is not disclosed": {
			old: secretWith(nil), new: object{"data": object{"userEmail": canary}},
			want: webhookstest.Answer{Status: metav1.StatusReasonBadRequest, Reason: "Undecodable", Message: "the Secret cannot be decoded"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			reviewer := reviewerThatAllows(impersonate("alice@example.com"))
			config := enforced
			if tc.exempt {
				config.ExemptNamespaces = []string{"other", "team-a"}
			}
			r := request(t, "secrets", tc.old, tc.new)
			r.Name = "user"
			answer := newGate(config, reviewer, &fakeUsers{}, nil).Review(t.Context(), r)
			compareAnswers(t, tc.want, answer)
			if diff := cmp.Diff(tc.wantRequested, reviewer.requested); diff != "" {
				t.Errorf("reviews (-want +got):\n%s", diff)
			}
			if text := fmt.Sprintf("%+v", answer); strings.Contains(text, canary) {
				t.Errorf("the answer contains a secret: %s", text)
			}
		})
	}
}

func TestRequestsThatCannotBeEvaluatedAreDenied(t *testing.T) {
	gate := newGate(enforced, reviewerThatAllows(), &fakeUsers{}, nil)
	for name, tc := range map[string]struct {
		resource, raw string
		want          webhookstest.Answer
	}{
		"a kind that names no user": {
			resource: "pods", raw: "{}", want: webhookstest.Answer{Status: metav1.StatusReasonBadRequest, Reason: "UnknownKind", Message: `pods of group "" is not a kind of objects that name users`},
		},
		"nothing": {
			resource: "secrets", want: webhookstest.Answer{Status: metav1.StatusReasonBadRequest, Reason: "Undecodable", Message: "the Secret cannot be decoded"},
		},
		"a list": {
			resource: "kdcclusters", raw: "[]", want: webhookstest.Answer{Status: metav1.StatusReasonBadRequest, Reason: "Undecodable", Message: "the KdcCluster cannot be decoded"},
		},
		"a number that is too large": {
			resource: "cloudsigmaclusters", raw: `{"spec":{"x":1e999}}`,
			want: webhookstest.Answer{Status: metav1.StatusReasonBadRequest, Reason: "Undecodable", Message: "the CloudSigmaCluster cannot be decoded"},
		},
		"null": {
			resource: "cloudsigmaclusters", raw: "null", want: webhookstest.Answer{Decision: webhooks.Allowed, Reason: "NothingNamed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			resource, known := resources[tc.resource]
			if !known {
				resource = metav1.GroupVersionResource{Version: "v1", Resource: tc.resource}
			}
			compareAnswers(t, tc.want, gate.Review(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Update, Resource: resource, Object: runtime.RawExtension{Raw: []byte(tc.raw)},
			}}))
		})
	}
}

// TestACreationIgnoresTheOldObject: a request to create an object names its user, also if it contains an old object.
func TestACreationIgnoresTheOldObject(t *testing.T) {
	config := enforced
	config.Impersonation.Kinds = []v1beta1.UserKind{{Group: "example.com", Version: "v1", Kind: "Farm", Resource: "farms", EmailPath: "spec.userEmail"}}
	for resource, content := range map[string]object{
		"cloudsigmaclusters": clusterWith(object{"userEmail": "tenant@example.com"}),
		"kdcclusters":        kdcWith(object{"cloudsigma.com/owner-email": "tenant@example.com"}),
		"secrets":            secretWith(map[string][]byte{"userEmail": []byte("tenant@example.com")}),
		"farms":              clusterWith(object{"userEmail": "tenant@example.com"}),
	} {
		t.Run(resource, func(t *testing.T) {
			r := request(t, resource, content, content)
			if resource == "farms" {
				r.Resource = metav1.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "farms"}
			}
			gate := newGate(config, reviewerThatAllows(), &fakeUsers{}, nil)
			if got := gate.Review(t.Context(), r); got.Decision != webhooks.Allowed || got.Reason != "NothingNamed" {
				t.Errorf("Review() of an update = %s %s (%s)", got.Decision, got.Reason, got.Message)
			}
			r.Operation = admissionv1.Create
			if got := gate.Review(t.Context(), r); got.Decision != webhooks.Denied || got.Reason != "ImpersonationNotAllowed" {
				t.Errorf("Review() of a creation = %s %s (%s)", got.Decision, got.Reason, got.Message)
			}
		})
	}
}

// TestUsersOfConfiguredKinds checks a kind that names a user in a field.
func TestUsersOfConfiguredKinds(t *testing.T) {
	owner := func(email any) object {
		return object{"metadata": metadata(nil), "spec": object{"owner": object{"email": email}}}
	}
	const of = `spec.owner.email of Farm "prod" of namespace "team-a": user "alice" may not impersonate `
	config := enforced
	config.Impersonation.Kinds = []v1beta1.UserKind{{Group: "example.com", Version: "v1", Kind: "Farm", Resource: "farms", EmailPath: "spec.owner.email"}}
	denied := webhookstest.Answer{
		Reason: "ImpersonationNotAllowed", Field: "spec.owner.email", Message: of + `"tenant@example.com"` + remedy + grantAlice,
		Events: eventOn("example.com/v1", "Farm", "prod", "ImpersonationNotAllowed", "Denied: "+of+`"tenant@example.com"`+remedy+grantAlice),
	}
	nothing := webhookstest.Answer{Decision: webhooks.Allowed, Reason: "NothingNamed"}
	for name, tc := range map[string]struct {
		old, new object
		want     webhookstest.Answer
	}{
		"another":      {old: owner("alice@example.com"), new: owner("tenant@example.com"), want: denied},
		"a first user": {old: owner(nil), new: owner("tenant@example.com"), want: denied},
		"a user after a value that was not a string": {old: owner(5), new: owner("tenant@example.com"), want: denied},
		"a user that the requester may impersonate":  {old: owner("tenant@example.com"), new: owner("alice@example.com"), want: webhookstest.Answer{Decision: webhooks.Allowed, Reason: "ImpersonationAllowed"}},
		"the same user in capitals":                  {old: owner("tenant@example.com"), new: owner("TENANT@example.com"), want: nothing},
		"blanks around the user": {old: owner("alice@example.com"), new: owner("alice@example.com "), want: malformed("spec.owner.email", ` of Farm "prod" of namespace "team-a": `,
			func(reason, message string) []events.Event {
				return eventOn("example.com/v1", "Farm", "prod", reason, message)
			})},
		"no user after it": {old: owner("tenant@example.com"), new: owner(""), want: nothing},
		"a value that is not a string": {old: owner("alice@example.com"), new: owner(5), want: webhookstest.Answer{
			Status: metav1.StatusReasonInvalid, Reason: "ClusterUnreadable", Message: `Farm "prod": spec.owner.email is not a string`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, "cloudsigmaclusters", tc.old, tc.new)
			r.Resource = metav1.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "farms"}
			gate := newGate(config, reviewerThatAllows(impersonate("alice@example.com")), &fakeUsers{}, nil)
			compareAnswers(t, tc.want, gate.Review(t.Context(), r))
		})
	}
}

// TestFieldNamesAreCaseSensitive checks that a field that only looks like the metadata does not count as what the object said before. A kind whose
// schema preserves unknown fields can have one.
func TestFieldNamesAreCaseSensitive(t *testing.T) {
	annotations := object{"cloudsigma.com/owner-email": "tenant@example.com"}
	before := object{"Metadata": object{"annotations": annotations}, "metadata": metadata(nil)}
	after := object{"Metadata": object{"annotations": annotations}, "metadata": metadata(object{"annotations": annotations})}
	gate := newGate(enforced, &fakeReviewer{}, &fakeUsers{}, nil)
	if got := gate.Review(t.Context(), request(t, "kdcclusters", before, after)); got.Reason != "ImpersonationNotAllowed" {
		t.Errorf("Review() = %s %s (%s)", got.Decision, got.Reason, got.Message)
	}
}
