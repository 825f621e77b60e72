package cluster_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"

	gocmp "github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks/cluster"
	"warrantgate.dev/webhooks/webhookstest"
)

// write is a request to write a CloudSigmaCluster, by a user who may impersonate some.
type write struct {
	name      string
	old       any // the former spec; nil: the cluster is created
	spec      any
	user      string
	permitted []string // the names in the RBAC rule, "*" for all
}

func (w write) clusterOf(spec any) object {
	return object{
		"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CloudSigmaCluster",
		"metadata": object{"namespace": "team-a", "name": w.name}, "spec": spec,
	}
}

func mayImpersonate(permitted []string, name string) bool {
	return slices.Contains(permitted, "*") || slices.Contains(permitted, name)
}

// validator is the admission plugin ValidatingAdmissionPolicy of the API server, with the policies of this package.
type validator struct {
	plugin     *validating.Plugin
	interfaces apiadmission.ObjectInterfaces
}

// Authorize implements authorizer.Authorizer for one verb and resource. The groups of the user list the permissions.
func (validator) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	requested := []string{a.GetVerb(), a.GetAPIGroup(), a.GetResource(), a.GetSubresource(), a.GetNamespace()}
	if !a.IsResourceRequest() || !slices.Equal(requested, []string{"impersonate", "", "users", "", ""}) {
		return authorizer.DecisionAllow, "", nil // an unexpected request
	}
	if mayImpersonate(a.GetUser().GetGroups(), a.GetName()) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", errors.New("a role was not found")
}

func newValidator(tb testing.TB) validator {
	tb.Helper()
	plugin, err := validating.NewPlugin(nil)
	if err != nil {
		tb.Fatal(err)
	}
	v := validator{plugin: plugin, interfaces: apiadmission.NewObjectInterfacesFromScheme(apiruntime.NewScheme())}
	webhookstest.StartPolicies(tb, plugin, webhookstest.PolicyOptions{
		Policies: cluster.Policies(enforced, regions), Authorizer: v,
		Objects: []apiruntime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}},
		Evaluates: func(ctx context.Context) error {
			if v.validate(ctx, tb, write{name: "prod", spec: object{"userEmail": "tenant@example.com"}, user: "alice"}) == nil {
				return errors.New("the policy denies nothing")
			}
			return nil
		},
	})
	return v
}

// validate admits a write as the API server does.
func (v validator) validate(ctx context.Context, tb testing.TB, w write) error {
	tb.Helper()
	kind := schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Kind: "CloudSigmaCluster"}
	asStored := func(spec any) apiruntime.Object { // encoded and decoded as JSON, as all objects are
		raw, err := json.Marshal(w.clusterOf(spec))
		if err != nil {
			tb.Fatal(err)
		}
		var o unstructured.Unstructured
		if err := o.UnmarshalJSON(raw); err != nil {
			tb.Fatal(err)
		}
		return &o
	}
	operation, old := apiadmission.Create, apiruntime.Object(nil)
	if w.old != nil {
		operation, old = apiadmission.Update, asStored(w.old)
	}
	return v.plugin.Validate(ctx, apiadmission.NewAttributesRecord(asStored(w.spec), old, kind, "team-a", w.name,
		kind.GroupVersion().WithResource("cloudsigmaclusters"), "", operation, nil, false, &user.DefaultInfo{Name: w.user, Groups: w.permitted}), v.interfaces)
}

// Review implements impersonation.Reviewer by the same permissions.
func (validator) Review(_ context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	attributes := spec.ResourceAttributes
	return authorizationv1.SubjectAccessReviewStatus{Allowed: attributes.Verb == "get" || attributes.Verb == "impersonate" && mayImpersonate(spec.Groups, attributes.Name)}, nil
}

const (
	deniedByPolicy = "policy"
	deniedByGate   = "gate"
	admitted       = "admitted"
)

// sameInBoth reports whether the policy quotes and cuts a text as the gate does: it is printable, and short if it is not ASCII.
func sameInBoth(text string) bool {
	others := strings.IndexFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
	return strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 && (others < 0 || len(text) <= message.MaxValue)
}

// check evaluates a write by the policies and by the gate. The policies must deny exactly the writes that the gate denies because spec.userEmail
// names a user that the requester may not impersonate, because there are blanks around it, or because of the region, with the same status and
// message. It returns whether a policy or only the gate denies the write.
func (v validator) check(tb testing.TB, w write) string {
	tb.Helper()
	err := v.validate(tb.Context(), tb, w)
	encoded := func(spec any) []byte {
		raw, err := json.Marshal(w.clusterOf(spec))
		if err != nil {
			tb.Fatal(err)
		}
		return raw
	}
	r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "d1", Operation: admissionv1.Create, Resource: resourceOf("cloudsigmaclusters"), Namespace: "team-a", Name: w.name,
		UserInfo: authenticationv1.UserInfo{Username: w.user, Groups: w.permitted}, Object: apiruntime.RawExtension{Raw: encoded(w.spec)},
	}}
	if w.old != nil {
		r.Operation, r.OldObject.Raw = admissionv1.Update, encoded(w.old)
	}
	answer := newGate(enforced, v, &fakeUsers{emails: map[string]string{"team-a/user": "tenant@example.com"}}, nil).Review(tb.Context(), r)

	const prefix = `cloudsigmaclusters.infrastructure.cluster.x-k8s.io `
	policy := "cloudsigmaclusters.cluster.warrantgate.dev"
	if answer.Reason == "RegionNotAllowed" {
		policy = "cloudsigmaclusters.region.warrantgate.dev"
	}
	by := fmt.Sprintf(` is forbidden: ValidatingAdmissionPolicy '%[1]s' with binding '%[1]s' denied request: `, policy)
	wantDenied := (answer.Reason == "ImpersonationNotAllowed" || answer.Reason == "UserMalformed") && answer.Field == "spec.userEmail" ||
		answer.Reason == "RegionNotAllowed"
	switch {
	case (err != nil) != wantDenied:
		tb.Errorf("%+v\npolicy: %v\n  gate: %s %s", w, err, answer.Reason, answer.Message)
	case err != nil && apierrors.ReasonForError(err) != cmp.Or(answer.Status, metav1.StatusReasonForbidden):
		tb.Errorf("%+v: status %s of the policy, %s of the gate", w, apierrors.ReasonForError(err), answer.Status)
	case err != nil && sameInBoth(w.user) && sameInBoth(w.name) && sameInBoth(fmt.Sprint(w.spec)):
		if diff := gocmp.Diff(prefix+fmt.Sprintf("%q", w.name)+by+answer.Message, err.Error()); diff != "" {
			tb.Errorf("%+v: message (-gate +policy):\n%s", w, diff)
		}
	case err != nil && !slices.ContainsFunc([]string{" may not impersonate ", clusterapi.BlanksAroundEmail, ownership.RegionNotConfigured}, func(part string) bool {
		return strings.Contains(err.Error(), part)
	}):
		tb.Errorf("%+v: message of the policy: %v", w, err)
	}
	switch {
	case err != nil:
		return deniedByPolicy
	case answer.Decision != "allowed":
		return deniedByGate
	}
	return admitted
}

func TestPolicy(t *testing.T) {
	v := newValidator(t)
	email := func(email any) object { return object{"userEmail": email} }
	long := strings.Repeat("x", 120)
	for name, tc := range map[string]struct {
		write write
		want  string
	}{
		"no permission":                                  {write{spec: email("tenant@example.com")}, deniedByPolicy},
		"the user":                                       {write{spec: email("tenant@example.com"), permitted: []string{"tenant@example.com"}}, admitted},
		"another user":                                   {write{spec: email("tenant@example.com"), permitted: []string{"arno@example.com"}}, deniedByPolicy},
		"all users":                                      {write{spec: email("tenant@example.com"), permitted: []string{"*"}}, admitted},
		"capitals, as in RBAC":                           {write{spec: email("Tenant@example.com"), permitted: []string{"Tenant@example.com"}}, admitted},
		"capitals, in lower case in RBAC":                {write{spec: email("Tenant@example.com"), permitted: []string{"tenant@example.com"}}, admitted},
		"lower case, in capitals in RBAC":                {write{spec: email("tenant@example.com"), permitted: []string{"Tenant@example.com"}}, deniedByPolicy},
		"the sign for Kelvin":                            {write{spec: email("\u212Aate@example.com"), permitted: []string{"kate@example.com"}}, deniedByPolicy},
		"another letter that is not ASCII":               {write{spec: email("\u00C9@example.com"), permitted: []string{"\u00E9@example.com"}}, deniedByPolicy},
		"a line break after it":                          {write{spec: email("tenant@example.com\n"), permitted: []string{"*"}}, deniedByPolicy},
		"a tab before it":                                {write{spec: email("\ttenant@example.com"), permitted: []string{"*"}}, deniedByPolicy},
		"other blanks around it":                         {write{spec: email("\u00a0tenant@example.com\u2003"), permitted: []string{"*"}}, deniedByPolicy},
		"blanks around, without permission":              {write{spec: email(" tenant@example.com")}, deniedByPolicy},
		"blanks only":                                    {write{spec: email(" \n\u2003"), permitted: []string{"*"}}, deniedByPolicy},
		"a blank that has no width":                      {write{spec: email("\u200btenant@example.com"), permitted: []string{"tenant@example.com"}}, deniedByPolicy},
		"no spec":                                        {write{}, admitted},
		"a region":                                       {write{spec: object{"region": "zrh"}}, admitted},
		"another host as the region":                     {write{spec: object{"region": "@127.0.0.1:8443/#"}}, deniedByPolicy},
		"a region that is not configured":                {write{spec: object{"region": "wdc"}}, deniedByPolicy},
		"a region in capitals":                           {write{spec: object{"region": "ZRH"}}, deniedByPolicy},
		"a region with a blank":                          {write{spec: object{"region": "zrh "}}, deniedByPolicy},
		"a region with a line break":                     {write{spec: object{"region": "zrh\n"}}, deniedByPolicy},
		"a region of 64 KiB":                             {write{spec: object{"region": strings.Repeat("z", 64<<10)}}, deniedByPolicy},
		"the same odd region as before":                  {write{old: object{"region": "@a"}, spec: object{"region": "@a"}}, admitted},
		"another odd region than before":                 {write{old: object{"region": "@a"}, spec: object{"region": "@b"}}, deniedByPolicy},
		"an odd region is cleared":                       {write{old: object{"region": "@a"}, spec: object{}}, admitted},
		"a region that is a number":                      {write{spec: object{"region": 5}}, deniedByGate},
		"a region that was a number":                     {write{old: object{"region": 5}, spec: object{"region": "@a"}}, deniedByPolicy},
		"null":                                           {write{spec: email(nil)}, admitted},
		"a number":                                       {write{spec: email(5)}, deniedByGate},
		"a spec that is a list":                          {write{spec: []any{email("tenant@example.com")}}, deniedByGate},
		"a Secret":                                       {write{spec: object{"userRef": userRef("user", "")}}, deniedByGate},
		"an email and a Secret":                          {write{spec: object{"userEmail": "arno@example.com", "userRef": userRef("user", "")}, permitted: []string{"tenant@example.com"}}, deniedByPolicy},
		"the same as before":                             {write{old: email("tenant@example.com"), spec: email("tenant@example.com")}, admitted},
		"the same in another spelling":                   {write{old: email("tenant@example.com"), spec: email("TENANT@example.com")}, admitted},
		"a blank is added":                               {write{old: email("tenant@example.com"), spec: email("tenant@example.com "), permitted: []string{"*"}}, deniedByPolicy},
		"a blank that was there before":                  {write{old: email("tenant@example.com "), spec: email("tenant@example.com ")}, admitted},
		"a blank is removed":                             {write{old: email("tenant@example.com "), spec: email("tenant@example.com")}, deniedByPolicy},
		"the same except for a letter that is not ASCII": {write{old: email("kate@example.com"), spec: email("\u212Aate@example.com")}, deniedByPolicy},
		"another user than before":                       {write{old: email("arno@example.com"), spec: email("tenant@example.com"), permitted: []string{"arno@example.com"}}, deniedByPolicy},
		"no user after the update":                       {write{old: email("tenant@example.com"), spec: object{}}, admitted},
		"the user that a Secret named before":            {write{old: object{"userRef": userRef("user", "")}, spec: email("tenant@example.com")}, deniedByPolicy},
		"a number before":                                {write{old: email(5), spec: email("tenant@example.com")}, deniedByPolicy},
		"by a service account":                           {write{spec: email("tenant@example.com"), user: "system:serviceaccount:capi:manager"}, deniedByPolicy},
		"by a malformed service account":                 {write{spec: email("tenant@example.com"), user: "system:serviceaccount:capi"}, deniedByPolicy},
		"by a service account of too long a namespace":   {write{spec: email("tenant@example.com"), user: "system:serviceaccount:" + strings.Repeat("a", 64) + ":bot"}, deniedByPolicy},
		"by a user of an identity provider":              {write{spec: email("tenant@example.com"), user: "https://idp.example.com/realms/a#alice%"}, deniedByPolicy},
		"by a user with blanks":                          {write{spec: email("tenant@example.com"), user: "Alice Doe"}, deniedByPolicy},
		"by a user with quotes":                          {write{spec: email("tenant@example.com"), user: `o'"brien\`}, deniedByPolicy},
		"by a user with a control":                       {write{spec: email("tenant@example.com"), user: "alice\x1b[2J\n"}, deniedByPolicy},
		"by a user with a long name":                     {write{spec: email("tenant@example.com"), user: long}, deniedByPolicy},
		"by a user with a longer name":                   {write{spec: email("tenant@example.com"), user: long + long}, deniedByPolicy},
		"by a user with a long name that is not ASCII":   {write{spec: email("tenant@example.com"), user: strings.Repeat("я", 90)}, deniedByPolicy},
		"by a user without a name":                       {write{spec: email("tenant@example.com"), user: ""}, deniedByPolicy},
		"a long email":                                   {write{spec: email(long + "@example.com")}, deniedByPolicy},
		"an email of 64 KiB":                             {write{spec: email(strings.Repeat(long, 550)), permitted: []string{"*"}}, admitted},
		"an email with a command":                        {write{spec: email("tenant@example.com;reboot")}, deniedByPolicy},
		"an email with quotes":                           {write{spec: email("o'\"brien\\@example.com")}, deniedByPolicy},
		"an email that is not ASCII":                     {write{spec: email("j\u00FCrgen@example.com")}, deniedByPolicy},
		"an email with a slash":                          {write{spec: email("a/b@example.com")}, deniedByPolicy},
		"an email with a mark for another direction":     {write{spec: email("a\u202Eb@example.com")}, deniedByPolicy},
		"an email with a line break":                     {write{spec: email("tenant@\nexample.com")}, deniedByPolicy},
		"a cluster with a long name":                     {write{name: strings.Repeat("c", 250), spec: email("tenant@example.com")}, deniedByPolicy},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.write.name == "" {
				tc.write.name = "prod"
			}
			if tc.write.user == "" && name != "by a user without a name" {
				tc.write.user = "alice"
			}
			if got := v.check(t, tc.write); got != tc.want {
				t.Errorf("denied by %s, want %s", got, tc.want)
			}
		})
	}
}

// TestPolicyAgreesWithTheGate: for every write and user, the policy denies the same writes as the gate, with the same message, and no
// expression fails to evaluate.
func TestPolicyAgreesWithTheGate(t *testing.T) {
	const count = 20_000
	v := newValidator(t)
	counts := webhookstest.Tally(t, count, func(seed uint64, count int) iter.Seq[string] {
		return func(yield func(string) bool) {
			r := rand.New(rand.NewPCG(15, seed))
			for range count {
				if !yield(v.check(t, someWrite(r))) {
					return
				}
			}
		}
	})
	t.Logf("writes by the policy or gate that denied them: %v", counts)
	for by, least := range map[string]int{deniedByPolicy: count / 5, deniedByGate: count / 50, admitted: count / 5} {
		if counts[by] < least {
			t.Errorf("%d writes were denied by %s, want at least %d: the generator has to be corrected", counts[by], by, least)
		}
	}
}

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// someWrite generates a write of an attacker who tries spellings that the policy and the gate read differently.
func someWrite(r *rand.Rand) write {
	w := write{
		name: pick(r, "prod", "prod", "a.b", strings.Repeat("c", 1+r.IntN(253))), spec: someSpec(r),
		user: pick(r, "alice", "system:serviceaccount:capi:manager", "system:serviceaccount:capi:", "https://idp.example.com/a#b",
			"Alice Doe", "Alice  Doe", `o'brien`, `a"b\c`, "a\nb", "алиса", "", strings.Repeat("u", r.IntN(300))),
	}
	if r.IntN(2) == 0 {
		w.old = someSpec(r)
		if r.IntN(4) == 0 {
			w.old = w.spec
		}
		if w.old == nil {
			w.old = object{}
		}
	}
	for range r.IntN(3) {
		w.permitted = append(w.permitted, pick(r, "tenant@example.com", "kate@example.com", someEmail(r), "*@example.com"))
	}
	if spec, ok := w.spec.(object); ok && r.IntN(4) == 0 {
		if email, ok := spec["userEmail"].(string); ok {
			w.permitted = append(w.permitted, pick(r, email, strings.TrimSpace(email), strings.ToLower(strings.TrimSpace(email))))
		}
	}
	if spec, ok := w.spec.(object); r.IntN(20) == 0 || ok && spec["region"] != "next" {
		w.permitted = append(w.permitted, "*")
	}
	return w
}

func someSpec(r *rand.Rand) any {
	if r.IntN(40) == 0 {
		return pick[any](r, nil, "spec", []any{}, 1)
	}
	spec := object{"region": "next"}
	if r.IntN(4) == 0 { // all other users are permitted then, because either policy may be the one that denies
		spec["region"] = pick[any](r, "zrh", "", "wdc", "NEXT", "next ", "\nnext", "next\n", "@127.0.0.1/#", "next.example.com", strings.Repeat("z", r.IntN(70)), "é", nil, 5, someEmail(r))
		if r.IntN(2) == 0 {
			spec["userEmail"] = pick(r, "tenant@example.com", "Kate@example.com")
		}
		return spec
	}
	switch {
	case r.IntN(30) == 0:
		spec["userEmail"] = pick[any](r, nil, 1, true, object{"a": "b"}, []any{"tenant@example.com"})
	case r.IntN(8) > 0:
		spec["userEmail"] = someEmail(r)
	}
	if r.IntN(4) == 0 {
		spec["userRef"] = userRef(pick(r, "user", "none"), pick(r, "", "team-a", "team-b"))
	}
	return spec
}

func someEmail(r *rand.Rand) string {
	email := pick(r, "tenant@example.com", "kate@example.com", "", strings.Repeat("x", r.IntN(200))+"@example.com")
	for range max(0, r.IntN(5)-2) {
		at := 0
		if len(email) > 0 {
			at = r.IntN(len(email))
		}
		switch r.IntN(4) {
		case 0:
			email = pick(r, strings.ToUpper(email), email[:at]+strings.ToUpper(email[at:]))
		case 1:
			email = strings.ToValidUTF8(email[:at], "") + pick(r, " ", "\n", "\t", "\u00a0", "\u200b", "\u0085", "'", `"`, `\`, "$(id)", ";", "%", "/", "\x00", "\x7f", "é", "\U0001F600") +
				strings.ToValidUTF8(email[at:], "")
		case 2:
			email = strings.NewReplacer("k", "\u212A", "s", "\u017F").Replace(email)
		case 3:
			email = pick(r, " ", "\n", "\u2003", "\ufeff") + email + pick(r, "", " ", "\r\n")
		}
	}
	return email
}

func TestThereIsNoPolicyUnlessTheGateEnforces(t *testing.T) {
	for _, mode := range []v1beta1.Mode{v1beta1.Warn, v1beta1.Off} {
		if got := cluster.Policies(v1beta1.Cluster{Impersonation: v1beta1.ClusterImpersonation{Mode: mode}}, nil); len(got) > 0 {
			t.Errorf("mode %s: %d objects", mode, len(got))
		}
	}
}
