package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	goruntime "runtime"
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

// impersonationAllowed and nothingNamed are answers that admit a request.
var (
	impersonationAllowed = webhookstest.Answer{Decision: webhooks.Allowed, Reason: "ImpersonationAllowed"}
	nothingNamed         = webhookstest.Answer{Decision: webhooks.Allowed, Reason: "NothingNamed"}
)

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

func eventOnKdc(reason, message string) []events.Event {
	return eventOn("k8s.kube-dc.com/v1alpha1", "KdcCluster", "prod", reason, message)
}

func eventOnSecret(reason, message string) []events.Event {
	return eventOn("v1", "Secret", "user", reason, message)
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

// asks are reviews.
func asks(reviews ...authorizationv1.SubjectAccessReviewSpec) []authorizationv1.SubjectAccessReviewSpec {
	return reviews
}

// answerAbout is the answer about a field. Without event, there is no object for an Event.
func answerAbout(field, reason, message string, event func(reason, message string) []events.Event) webhookstest.Answer {
	answer := webhookstest.Answer{Reason: reason, Field: field, Message: message}
	if event != nil {
		answer.Events = event(reason, "Denied: "+message)
	}
	return answer
}

// undecided is an answer without a decision, because of an error.
func undecided(answer webhookstest.Answer, err string) webhookstest.Answer {
	answer.Decision, answer.Details = webhooks.Undecided, details("error", err)
	return answer
}

// withDetails is an answer with details for the log.
func withDetails(answer webhookstest.Answer, pairs ...any) webhookstest.Answer {
	answer.Details = details(pairs...)
	return answer
}

// TestUsersOfClusters tests the gate on CloudSigmaClusters.
func TestUsersOfClusters(t *testing.T) {
	const tenant, inCapitals = "tenant@example.com", "Tenant@Example.com"
	const notReviewed = "the permissions of the requester could not be checked; try again"
	emails := map[string]string{"team-a/user": tenant, "team-b/user": tenant, "team-a/empty": ""}
	byEmail := func(email any) object { return clusterWith(object{"userEmail": email}) }
	bySecret := func(name, namespace string) object { return clusterWith(object{"userRef": userRef(name, namespace)}) }
	byBoth := func(email string) object {
		return clusterWith(object{"userEmail": email, "userRef": userRef("user", "")})
	}
	deniedEmail := `spec.userEmail` + ofCluster + `user "alice" may not impersonate "tenant@example.com"` + remedy + grantAlice
	deniedRef := `spec.userRef` + ofCluster + `user "alice" may not impersonate the user that Secret "user" of namespace "team-a" names` + byName
	ofEmail := func(reason, message string, event func(reason, message string) []events.Event) webhookstest.Answer {
		return answerAbout("spec.userEmail", reason, message, event)
	}
	ofRef := func(reason, message string) webhookstest.Answer {
		return answerAbout("spec.userRef", reason, "spec.userRef"+ofCluster+message, nil)
	}
	refDenied := withDetails(answerAbout("spec.userRef", "ImpersonationNotAllowed", deniedRef, eventOnCluster), "secret", "team-a/user")
	readable := refDenied // the Event names the Secret
	readable.Message = strings.Replace(deniedEmail, "spec.userEmail", "spec.userRef", 1)
	onOwner := func(reason, message string) []events.Event {
		event := eventOn("cluster.x-k8s.io/v1beta1", "Cluster", "prod", reason, message)
		event[0].Object.UID, event[0].Object.ResourceVersion = "7c1d", ""
		return event
	}
	failing := func(of authorizationv1.SubjectAccessReviewSpec, err string, may ...authorizationv1.SubjectAccessReviewSpec) *fakeReviewer {
		reviewer := reviewerThatAllows(may...)
		reviewer.evaluationErrors = map[authorizationv1.ResourceAttributes]string{*of.ResourceAttributes: err}
		return reviewer
	}

	for name, tc := range map[string]struct {
		old, new      object
		may           []authorizationv1.SubjectAccessReviewSpec
		reviewer      *fakeReviewer // default: one that allows may
		err           error         // of the Secret
		want          webhookstest.Answer
		wantRequested []authorizationv1.SubjectAccessReviewSpec
	}{
		"an email of a user that the requester may impersonate": {
			new: byEmail(tenant), may: asks(impersonate(tenant)), want: impersonationAllowed, wantRequested: asks(impersonate(tenant)),
		},
		"an email with capitals, and a permission for the email in lower case": {
			new: byEmail(inCapitals), may: asks(impersonate(tenant)), want: impersonationAllowed, wantRequested: asks(impersonate(inCapitals), impersonate(tenant)),
		},
		"an email with capitals, and a permission for the same spelling": {
			new: byEmail(inCapitals), may: asks(impersonate(inCapitals)), want: impersonationAllowed, wantRequested: asks(impersonate(inCapitals)),
		},
		"an email with blanks around it": {old: byEmail(tenant), new: byEmail(tenant + "\n"), want: malformed("spec.userEmail", ofCluster, eventOnCluster)},
		"blanks only, next to a Secret":  {new: byBoth(" "), may: asks(impersonate(tenant)), want: malformed("spec.userEmail", ofCluster, nil)},
		"a Secret whose email has blanks around it": {
			new: bySecret("user", ""), may: asks(impersonate(tenant)),
			err: &clusterapi.AccountError{Reason: clusterapi.UserMalformed, Message: `spec.userRef: key userEmail of Secret "user" in namespace "team-a": why`},
			want: webhookstest.Answer{
				Status: metav1.StatusReasonInvalid, Reason: "UserMalformed", Field: "spec.userRef",
				Message: `spec.userRef` + ofCluster + `key userEmail of Secret "user" in namespace "team-a": why`,
			},
		},
		"the email of another user on create, without an object for an Event": {
			new: byEmail(tenant), want: ofEmail("ImpersonationNotAllowed", deniedEmail, nil), wantRequested: asks(impersonate(tenant)),
		},
		"the email of another user on create, with the Event on the owner": {
			new: object{"metadata": metadata(object{"ownerReferences": []object{
				{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": "prod", "uid": "7c1d"}, {"kind": "Other"},
			}}), "spec": object{"userEmail": tenant}},
			want: ofEmail("ImpersonationNotAllowed", deniedEmail, onOwner), wantRequested: asks(impersonate(tenant)),
		},
		"the email of another user on update": {
			old: byEmail("alice@example.com"), new: byEmail(tenant), may: asks(impersonate("alice@example.com")),
			want: ofEmail("ImpersonationNotAllowed", deniedEmail, eventOnCluster), wantRequested: asks(impersonate(tenant)),
		},
		"the email of another user and a Secret, over which the email has precedence": {
			old: bySecret("user", ""), new: byBoth("TENANT@example.com"), may: asks(getIn("team-a")),
			want:          ofEmail("ImpersonationNotAllowed", strings.Replace(deniedEmail, tenant, "TENANT@example.com", 1), eventOnCluster),
			wantRequested: asks(impersonate("TENANT@example.com"), impersonate(tenant)),
		},
		"a permission that could not be evaluated": {
			new: byEmail(tenant), reviewer: failing(impersonate(tenant), `clusterrole "x" not found`),
			want:          withDetails(ofEmail("ImpersonationNotAllowed", deniedEmail, nil), "evaluationErrors", []string{`clusterrole "x" not found`}),
			wantRequested: asks(impersonate(tenant)),
		},
		"an API server that does not respond": {
			old: clusterWith(object{}), new: byEmail(tenant), reviewer: &fakeReviewer{err: context.DeadlineExceeded},
			want:          undecided(ofEmail("ImpersonationUnknown", "spec.userEmail"+ofCluster+notReviewed, eventOnCluster), "context deadline exceeded"),
			wantRequested: asks(impersonate(tenant)),
		},
		// The user in a Secret.
		"a Secret of a user that the requester may impersonate": {
			new: bySecret("user", ""), may: asks(impersonate(tenant)), want: impersonationAllowed, wantRequested: asks(impersonate(tenant)),
		},
		"a Secret of another user, which the requester may not read": {
			old: clusterWith(object{}), new: bySecret("user", "team-a"), want: refDenied, wantRequested: asks(impersonate(tenant), getIn("team-a")),
		},
		"a Secret of another user, which the requester may read, but readers of Events may not": {
			old: clusterWith(object{}), new: bySecret("user", ""), may: asks(getIn("team-a")), want: readable,
			wantRequested: asks(impersonate(tenant), getIn("team-a")),
		},
		"an email is cleared, and the Secret is used instead": {
			old: byBoth("alice@example.com"), new: bySecret("user", ""), may: asks(impersonate("alice@example.com")), want: refDenied,
			wantRequested: asks(impersonate(tenant), getIn("team-a")),
		},
		"a Secret of another namespace that the requester may read, of a user that it may impersonate": {
			new: bySecret("user", "team-b"), may: asks(getIn("team-b"), impersonate(tenant)), want: impersonationAllowed,
			wantRequested: asks(getIn("team-b"), impersonate(tenant)),
		},
		"a Secret of another namespace that the requester may not read, though it may impersonate all users": {
			new: bySecret("user", "team-b"), reviewer: failing(getIn("team-b"), "role not found", impersonate(tenant)),
			want: withDetails(ofRef("SecretNotReadable", `it names Secret "user" of another namespace, "team-b", which user "alice" may not read; `+
				`name a Secret of the cluster's own namespace or one that you may read, or have the permission granted: verb get on this Secret`),
				"evaluationErrors", []string{"role not found"}),
			wantRequested: asks(getIn("team-b")),
		},
		"a Secret of another namespace, and an API server that does not respond": {
			new: bySecret("user", "team-b"), reviewer: &fakeReviewer{err: errors.New("boom")}, want: undecided(ofRef("ImpersonationUnknown", notReviewed), "boom"),
			wantRequested: asks(getIn("team-b")),
		},
		"a Secret that does not exist": {
			new: bySecret("none", ""), want: ofRef("UserSecretMissing", `there is no Secret "none" in namespace "team-a"`+writeThen),
		},
		"a Secret that names no user": {
			new: bySecret("empty", ""), want: ofRef("UserMissing", `Secret "empty" in namespace "team-a" has nothing under the key userEmail`+writeThen),
		},
		"a Secret that cannot be read": {
			new: bySecret("user", ""), err: errors.New("boom"), want: undecided(ofRef("SecretUnknown", "the Secret cannot be read now; try again"), "boom"),
		},
		// No other user is named.
		"no user on create": {new: clusterWith(object{"region": "zrh"}), want: nothingNamed},
		"both cleared":      {old: byBoth(tenant), new: clusterWith(object{}), want: nothingNamed},
		"another Secret below the same email": {
			old: byEmail(tenant), new: clusterWith(object{"userEmail": tenant, "userRef": userRef("user", "team-b")}), want: nothingNamed,
		},
		"the same email in capitals":                             {old: byEmail(tenant), new: byEmail("TENANT@EXAMPLE.COM"), want: nothingNamed},
		"the same Secret, with the namespace that it has anyway": {old: bySecret("user", ""), new: bySecret("user", "team-a"), want: nothingNamed},
		// Malformed objects.
		"an email that is not a string": {
			new:  byEmail(5),
			want: webhookstest.Answer{Status: metav1.StatusReasonInvalid, Reason: "ClusterUnreadable", Message: `CloudSigmaCluster "prod": spec.userEmail is float64 where a string belongs`},
		},
		"an email that was not a string before": {
			old: byEmail(5), new: byEmail(tenant), may: asks(impersonate(tenant)), want: impersonationAllowed, wantRequested: asks(impersonate(tenant)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.reviewer == nil {
				tc.reviewer = reviewerThatAllows(tc.may...)
			}
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
		field := "metadata.annotations[" + key + "]"
		return answerAbout(field, "ImpersonationNotAllowed", field+` of KdcCluster "prod" of namespace "team-a": user "alice" may not impersonate "tenant@example.com"`+
			remedy+grantAlice, eventOnKdc)
	}
	const own, tenant = "alice@example.com", "tenant@example.com"
	for name, tc := range map[string]struct {
		old, new      any // annotations
		want          webhookstest.Answer
		wantRequested []authorizationv1.SubjectAccessReviewSpec
	}{
		"a user that the requester may impersonate": {
			old: nil, new: object{newer: "Alice@example.com"}, want: impersonationAllowed,
			wantRequested: asks(impersonate("Alice@example.com"), impersonate(own)),
		},
		"another": {old: object{newer: own}, new: object{newer: tenant}, want: denial(newer), wantRequested: asks(impersonate(tenant))},
		"another in the older annotation, next to one that is allowed": {
			old: object{}, new: object{newer: own, older: tenant}, want: denial(older),
			wantRequested: asks(impersonate(own), impersonate(tenant)),
		},
		"another user, who was already named": {
			old: object{older: tenant}, new: object{newer: own, older: "TENANT@example.com"},
			want:          impersonationAllowed,
			wantRequested: asks(impersonate(own)),
		},
		"another in the older annotation, which counts after the newer one is removed": {
			old: object{newer: own, older: tenant}, new: object{older: tenant}, want: denial(older),
			wantRequested: asks(impersonate(tenant)),
		},
		"another in the older annotation, which counts after the newer one is empty": {
			old: object{newer: own, older: tenant}, new: object{newer: "", older: tenant}, want: denial(older),
			wantRequested: asks(impersonate(tenant)),
		},
		"blanks around it": {
			old: object{newer: own}, new: object{newer: "\talice@example.com"},
			want: malformed("metadata.annotations["+newer+"]", ` of KdcCluster "prod" of namespace "team-a": `, eventOnKdc),
		},
		"blanks around the older one": {
			old: object{}, new: object{older: "alice@example.com "},
			want: malformed("metadata.annotations["+older+"]", ` of KdcCluster "prod" of namespace "team-a": `, eventOnKdc),
		},
		"the same in the older annotation, after the newer one is removed": {
			old: object{newer: "TENANT@example.com", older: tenant}, new: object{older: tenant},
			want: nothingNamed,
		},
		"the older one is removed": {old: object{newer: tenant, older: own}, new: object{newer: tenant}, want: nothingNamed},
		"both are cleared":         {old: object{newer: tenant, older: tenant}, new: object{older: ""}, want: nothingNamed},
		"annotations that could not be read before": {
			old: "odd", new: object{newer: tenant}, want: denial(newer),
			wantRequested: asks(impersonate(tenant)),
		},
		"annotations that cannot be read": {
			old: nil, new: object{newer: 5}, want: webhookstest.Answer{Status: metav1.StatusReasonBadRequest, Reason: "Undecodable", Message: "the KdcCluster cannot be decoded"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			reviewer := reviewerThatAllows(impersonate(own))
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
	const own, tenant = "alice@example.com", "tenant@example.com"
	named := func(email string) object { return secretWith(data(email)) }
	denied := func(user string) webhookstest.Answer {
		return withDetails(answerAbout("data.userEmail", "ImpersonationNotAllowed", ofSecret+`user "alice" may not impersonate "`+user+`"`+remedy+grantAlice, nil),
			"secret", "team-a/user")
	}
	onUpdate := denied("TENANT@example.com")
	onUpdate.Events = eventOnSecret(onUpdate.Reason, "Denied: "+ofSecret+`user "alice" may not impersonate the user that Secret "user" of namespace "team-a" names`+byName)

	for name, tc := range map[string]struct {
		old, new      object
		exempt        bool
		want          webhookstest.Answer
		wantRequested []authorizationv1.SubjectAccessReviewSpec
	}{
		"another user, in a namespace to whose Secrets no cluster can refer": {
			old: named(own), new: named(tenant), exempt: true, want: webhookstest.Answer{Decision: webhooks.Allowed, Reason: "NamespaceExempt"},
		},
		"a user that the requester may impersonate": {old: named(tenant), new: named(own), want: impersonationAllowed, wantRequested: asks(impersonate(own))},
		"another user, whose name readers of Events must not see": {
			old: named(own), new: named("TENANT@example.com"), want: onUpdate,
			wantRequested: asks(impersonate("TENANT@example.com"), impersonate(tenant)),
		},
		"another on create":                 {new: named(tenant), want: denied(tenant), wantRequested: asks(impersonate(tenant))},
		"the same user in another spelling": {old: named(tenant), new: named("Tenant@Example.com"), want: nothingNamed},
		"a line break after the user, as from a file": {
			old: named(own), new: named("alice@example.com\n"), want: malformed("data.userEmail", ` of Secret "user" of namespace "team-a": `, eventOnSecret),
		},
		"the user is cleared":                    {old: named(tenant), new: secretWith(nil), want: nothingNamed},
		"a Secret that could not be read before": {old: object{"data": canary}, new: named(own), want: impersonationAllowed, wantRequested: asks(impersonate(own))},
		"a Secret that cannot be decoded, whose content is not disclosed": {
			old: secretWith(nil), new: object{"data": object{"userEmail": canary}}, want: webhookstest.Answer{Status: metav1.StatusReasonBadRequest, Reason: "Undecodable", Message: "the Secret cannot be decoded"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			reviewer := reviewerThatAllows(impersonate(own))
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
	badRequest := func(reason, message string) webhookstest.Answer {
		return webhookstest.Answer{Status: metav1.StatusReasonBadRequest, Reason: reason, Message: message}
	}
	for name, tc := range map[string]struct {
		resource, raw string
		want          webhookstest.Answer
	}{
		"a kind that names no user": {
			resource: "pods", raw: "{}", want: badRequest("UnknownKind", `pods of group "" is not a kind of objects that name users`),
		},
		"nothing": {resource: "secrets", want: badRequest("Undecodable", "the Secret cannot be decoded")},
		"a list":  {resource: "kdcclusters", raw: "[]", want: badRequest("Undecodable", "the KdcCluster cannot be decoded")},
		"a number that is too large": {
			resource: "cloudsigmaclusters", raw: `{"spec":{"userEmail":1e999}}`,
			want: badRequest("Undecodable", "the CloudSigmaCluster cannot be decoded"),
		},
		"null": {resource: "cloudsigmaclusters", raw: "null", want: nothingNamed},
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

// Reviews are read as if each needed at most thirty times its size in memory. A tenant chooses the object.
func TestManySmallValuesNeedLittle(t *testing.T) {
	for resource, gate := range map[string]webhookstest.Gate{
		"cloudsigmaclusters": newGate(enforced, reviewerThatAllows(), &fakeUsers{}, nil),
		"openstackclusters":  newDelegation(v1beta1.ClusterDelegation{Mode: v1beta1.Enforce}, &fakeDelegations{}),
	} {
		for at, many := range map[string]object{
			"the spec":             {"spec": object{"x": slices.Repeat([]object{{"": 0}}, 100_000)}},
			"the owner references": {"metadata": object{"ownerReferences": slices.Repeat([]object{{}}, 100_000)}},
			"the managed fields":   {"metadata": object{"managedFields": slices.Repeat([]object{{}}, 100_000)}},
		} {
			t.Run(resource+"/"+at, func(t *testing.T) {
				r := request(t, resource, nil, many)
				var before, after goruntime.MemStats
				goruntime.ReadMemStats(&before)
				gate.Review(t.Context(), r)
				goruntime.ReadMemStats(&after)
				if needed := (after.TotalAlloc - before.TotalAlloc) / uint64(len(r.Object.Raw)); needed > 30 {
					t.Errorf("a review needs %d times the size of the object", needed)
				}
			})
		}
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
	onFarm := func(reason, message string) []events.Event {
		return eventOn("example.com/v1", "Farm", "prod", reason, message)
	}
	denied := answerAbout("spec.owner.email", "ImpersonationNotAllowed", of+`"tenant@example.com"`+remedy+grantAlice, onFarm)
	for name, tc := range map[string]struct {
		old, new object
		want     webhookstest.Answer
	}{
		"another":      {old: owner("alice@example.com"), new: owner("tenant@example.com"), want: denied},
		"a first user": {old: owner(nil), new: owner("tenant@example.com"), want: denied},
		"a user after a value that was not a string": {old: owner(5), new: owner("tenant@example.com"), want: denied},
		"a user that the requester may impersonate":  {old: owner("tenant@example.com"), new: owner("alice@example.com"), want: impersonationAllowed},
		"the same user in capitals":                  {old: owner("tenant@example.com"), new: owner("TENANT@example.com"), want: nothingNamed},
		"blanks around the user":                     {old: owner("alice@example.com"), new: owner("alice@example.com "), want: malformed("spec.owner.email", ` of Farm "prod" of namespace "team-a": `, onFarm)},
		"no user after it":                           {old: owner("tenant@example.com"), new: owner(""), want: nothingNamed},
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
