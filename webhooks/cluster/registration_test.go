package cluster_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/utils/ptr"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/cluster"
	"warrantgate.dev/webhooks/webhookstest"
)

// registered returns the webhooks by their names.
func registered(hooks []webhooks.Hook) map[string]*admissionregistrationv1.ValidatingWebhook {
	named := map[string]*admissionregistrationv1.ValidatingWebhook{}
	_, all := webhookstest.Registered(nil, hooks)
	for i := range all {
		named[all[i].Name] = &all[i]
	}
	return named
}

func TestWebhooksArePinned(t *testing.T) {
	hooks := append(cluster.Hooks(enforced), cluster.DelegationHooks(enforced)...)
	want := pinnedOf(resources, ".cluster.warrantgate.dev", "/cluster/impersonation")
	maps.Copy(want, pinnedOf(delegationResources, ".delegation.warrantgate.dev", "/cluster/delegation"))
	reference := pinnedOf(map[string]metav1.GroupVersionResource{"clusters": {Group: "cluster.x-k8s.io", Version: "*"}}, "", "/cluster/delegation")
	want["reference.delegation.warrantgate.dev"] = reference["clusters"]
	_, all := webhookstest.Registered(nil, hooks)
	if diff := cmp.Diff(want, webhookstest.Pin(all)); diff != "" {
		t.Errorf("webhooks (-want +got):\n%s", diff)
	}
}

// TestWebhooksOfAnAPIExport: a provider's workspace on kcp does not export Secrets.
func TestWebhooksOfAnAPIExport(t *testing.T) {
	want := registered(cluster.Hooks(enforced))
	delete(want, "secrets.cluster.warrantgate.dev")
	got := registered(cluster.ProviderHooks(enforced))
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" || len(got) == 0 {
		t.Errorf("webhooks (-want +got):\n%s", diff)
	}
}

// pinnedOf returns the pinned fields of a gate's webhooks.
func pinnedOf(resources map[string]metav1.GroupVersionResource, suffix, path string) map[string]webhookstest.Pinned {
	want := map[string]webhookstest.Pinned{}
	for name, resource := range resources {
		want[name+suffix] = webhookstest.Pinned{
			URL: webhookstest.URL + path,
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{resource.Group}, APIVersions: []string{resource.Version}, Resources: []string{name},
					Scope: ptr.To(admissionregistrationv1.AllScopes),
				},
			}},
			MatchPolicy: "Equivalent", FailurePolicy: "Fail", SideEffects: "NoneOnDryRun", Timeout: 3, Conditions: 1,
		}
	}
	return want
}

func TestGatesThatOnlyWarnDenyNothingWhileDown(t *testing.T) {
	warned := v1beta1.Cluster{
		Impersonation: v1beta1.ClusterImpersonation{Mode: v1beta1.Warn}, Delegation: v1beta1.ClusterDelegation{Mode: v1beta1.Warn},
	}
	for name, w := range registered(append(cluster.Hooks(warned), cluster.DelegationHooks(warned)...)) {
		if *w.FailurePolicy != admissionregistrationv1.Ignore {
			t.Errorf("%s: %s", name, *w.FailurePolicy)
		}
	}
	if hooks := cluster.Hooks(v1beta1.Cluster{Impersonation: v1beta1.ClusterImpersonation{Mode: v1beta1.Off}}); len(hooks) > 0 {
		t.Errorf("%d webhooks are registered while the gate is off", len(hooks))
	}
}

// TestMatchConditionsSelectRequests evaluates the match conditions with the API server's own code.
func TestMatchConditionsSelectRequests(t *testing.T) {
	const newer, older = "cloudsigma.com/owner-email", "kube-dc.com/owner-email"
	email := func(email any) object { return object{"userEmail": email} }
	ref := func(ref any) object { return object{"userRef": ref} }
	both := func(email, ref any) object { return object{"userEmail": email, "userRef": ref} }
	some, other := object{"name": "some"}, object{"name": "other"}
	matchers := map[string]func(*testing.T, runtime.Object, runtime.Object) bool{
		"cloudsigmaclusters": matcher(t, "cloudsigmaclusters"), "kdcclusters": matcher(t, "kdcclusters"),
	}

	for name, tc := range map[string]struct {
		resource string
		old, new any // the spec or the annotations
		create   bool
		want     bool
	}{
		"a cluster is created with an email":               {resource: "cloudsigmaclusters", create: true, new: email("a@b"), want: true},
		"a cluster is created with a Secret":               {resource: "cloudsigmaclusters", create: true, new: ref(some), want: true},
		"a cluster is created with neither":                {resource: "cloudsigmaclusters", create: true, new: object{}},
		"a cluster is created without spec":                {resource: "cloudsigmaclusters", create: true},
		"a cluster gets an email":                          {resource: "cloudsigmaclusters", old: nil, new: email("a@b"), want: true},
		"a cluster gets another email":                     {resource: "cloudsigmaclusters", old: email("a@b"), new: email("c@d"), want: true},
		"a cluster gets an email over its Secret":          {resource: "cloudsigmaclusters", old: ref(some), new: both("a@b", some), want: true},
		"a cluster gets another Secret":                    {resource: "cloudsigmaclusters", old: ref(some), new: ref(other), want: true},
		"a cluster gets another namespace's Secret":        {resource: "cloudsigmaclusters", old: ref(some), new: ref(userRef("some", "x")), want: true},
		"a cluster loses its email over a Secret":          {resource: "cloudsigmaclusters", old: both("a@b", some), new: ref(some), want: true},
		"a Secret changes below an email":                  {resource: "cloudsigmaclusters", old: both("a@b", some), new: both("a@b", other), want: true},
		"a Secret changes below an email of blanks":        {resource: "cloudsigmaclusters", old: both(" \u00a0", some), new: both(" \u00a0", other), want: true},
		"a Secret changes below an email that is a number": {resource: "cloudsigmaclusters", old: both(5, some), new: both(5, other), want: true},
		"a cluster loses its email":                        {resource: "cloudsigmaclusters", old: email("a@b"), new: object{}, want: true},
		"a cluster loses its email, as an empty text":      {resource: "cloudsigmaclusters", old: email("a@b"), new: email(""), want: true},
		"a cluster loses its email, as null":               {resource: "cloudsigmaclusters", old: email("a@b"), new: email(nil), want: true},
		"a cluster loses its Secret":                       {resource: "cloudsigmaclusters", old: ref(some), new: ref(nil), want: true},
		"a cluster loses its spec":                         {resource: "cloudsigmaclusters", old: both("a@b", some), new: nil, want: true},
		"a cluster's region changes":                       {resource: "cloudsigmaclusters", old: email("a@b"), new: object{"userEmail": "a@b", "region": "zrh"}, want: true},
		"a cluster keeps a malformed email":                {resource: "cloudsigmaclusters", old: email(object{}), new: email(object{})},
		"a cluster gets a malformed email":                 {resource: "cloudsigmaclusters", old: email("a@b"), new: email([]any{"c@d"}), want: true},
		"a cluster gets a malformed reference":             {resource: "cloudsigmaclusters", old: ref(some), new: ref("other"), want: true},
		"a cluster gets a malformed name of a Secret":      {resource: "cloudsigmaclusters", old: ref(some), new: ref(object{"name": 5}), want: true},
		"a cluster's spec is malformed":                    {resource: "cloudsigmaclusters", old: "spec", new: []any{}},

		"annotations appear":                    {resource: "kdcclusters", old: nil, new: object{newer: "a@b"}, want: true},
		"a KdcCluster is created with an owner": {resource: "kdcclusters", create: true, new: object{older: "a@b"}, want: true},
		"a KdcCluster is created without":       {resource: "kdcclusters", create: true, new: object{"x": "y"}},
		"the owner changes":                     {resource: "kdcclusters", old: object{newer: "a@b"}, new: object{newer: "c@d"}, want: true},
		"the older owner changes":               {resource: "kdcclusters", old: object{newer: "a@b", older: "a@b"}, new: object{newer: "a@b", older: "c@d"}, want: true},
		"the newer owner is removed":            {resource: "kdcclusters", old: object{newer: "a@b", older: "c@d"}, new: object{older: "c@d"}, want: true},
		"the older owner is removed":            {resource: "kdcclusters", old: object{newer: "a@b", older: "c@d"}, new: object{newer: "a@b"}},
		"both owners stay":                      {resource: "kdcclusters", old: object{newer: "a@b", older: "c@d"}, new: object{newer: "a@b", older: "c@d", "x": "y"}},
		"another annotation changes":            {resource: "kdcclusters", old: object{newer: "a@b"}, new: object{newer: "a@b", "x": "y"}},
		"the owner is cleared":                  {resource: "kdcclusters", old: object{newer: "a@b"}, new: object{newer: ""}},
		"all annotations are cleared":           {resource: "kdcclusters", old: object{newer: "a@b"}, new: nil},
		"annotations are malformed":             {resource: "kdcclusters", old: "odd", new: 5},
		"an owner is malformed":                 {resource: "kdcclusters", old: object{newer: "a@b"}, new: object{newer: 5}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			path := "spec"
			if tc.resource == "kdcclusters" {
				path = "annotations"
			}
			made := func(value any) runtime.Object {
				made := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "prod", path: plain(value)}}}
				if path == "spec" {
					made.Object = map[string]any{"metadata": map[string]any{"name": "prod"}, path: plain(value)}
				}
				return made
			}
			var old runtime.Object
			if !tc.create {
				old = made(tc.old)
			}
			if got := matchers[tc.resource](t, old, made(tc.new)); got != tc.want {
				t.Errorf("matches = %t, want %t", got, tc.want)
			}
		})
	}
}

// TestMatchConditionsOfConfiguredKinds has kinds that name users in a field, in annotations, or in both.
func TestMatchConditionsOfConfiguredKinds(t *testing.T) {
	kinds := func(k v1beta1.UserKind) []webhooks.Hook {
		k.Group, k.Version, k.Kind, k.Resource = "example.com", "v1", "Farm", "farms"
		config := enforced
		config.Impersonation.Kinds = []v1beta1.UserKind{k}
		return cluster.Hooks(config)
	}
	const annotation = "example.com/email"
	made := func(field, annotated string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "prod", "annotations": map[string]any{annotation: annotated}}, "spec": map[string]any{"email": field},
		}}
	}
	for name, tc := range map[string]struct {
		kind                      v1beta1.UserKind
		wantField, wantAnnotation bool
	}{
		"in a field":     {kind: v1beta1.UserKind{EmailPath: "spec.email"}, wantField: true},
		"in annotations": {kind: v1beta1.UserKind{Annotations: []string{"example.com/other", annotation}}, wantAnnotation: true},
		"in both":        {kind: v1beta1.UserKind{EmailPath: "spec.email", Annotations: []string{annotation}}, wantField: true, wantAnnotation: true},
	} {
		t.Run(name, func(t *testing.T) {
			matches := matcherOf(t, kinds(tc.kind), "cluster", "farms")
			if got := matches(t, made("a@b", "a@b"), made("c@d", "a@b")); got != tc.wantField {
				t.Errorf("matches another field = %t, want %t", got, tc.wantField)
			}
			if got := matches(t, made("a@b", "a@b"), made("a@b", "c@d")); got != tc.wantAnnotation {
				t.Errorf("matches another annotation = %t, want %t", got, tc.wantAnnotation)
			}
			if matches(t, made("a@b", "a@b"), made("a@b", "a@b")) {
				t.Error("matches an unchanged object")
			}
		})
	}
}

// A path of a configured kind may be in its status, and the API server stores annotations of many built-in kinds with their status.
func TestTheStatusOfConfiguredKindsIsChecked(t *testing.T) {
	config := enforced
	config.Impersonation.Kinds = []v1beta1.UserKind{{Group: "example.com", Version: "v1", Kind: "Farm", Resource: "farms", EmailPath: "status.email"}}
	config.Delegation.Kinds = []v1beta1.CredentialKind{{
		Group: "example.com", Version: "v1", Kind: "Barn", Resource: "barns", IdentityRefPath: "status.identityRef",
	}}
	all := registered(append(cluster.Hooks(config), cluster.DelegationHooks(config)...))
	for name, want := range map[string][]string{
		"farms.cluster.warrantgate.dev":    {"farms", "farms/status"},
		"barns.delegation.warrantgate.dev": {"barns", "barns/status"},
	} {
		if diff := cmp.Diff(want, all[name].Rules[0].Resources); diff != "" {
			t.Errorf("%s: resources (-want +got):\n%s", name, diff)
		}
	}
}

// TestMatchConditionsMissNoDenial compares the match condition of clusters with the gate for many values of the fields: the condition
// must select every request that the gate denies.
func TestMatchConditionsMissNoDenial(t *testing.T) {
	var specs []object
	for _, email := range []any{nil, "\u00a0", "a@b", "A@b", "c@d", 5} {
		specs = append(specs, object{"userEmail": email})
		for _, name := range []any{nil, " ", "x", "y"} {
			for _, namespace := range []any{nil, "team-a", "team-b"} {
				specs = append(specs, object{"userEmail": email, "userRef": object{"name": name, "namespace": namespace}})
			}
		}
	}
	selected := matcher(t, "cloudsigmaclusters")
	gate := newGate(enforced, reviewerThatAllows(), &fakeUsers{}, nil)
	made := func(spec object) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "prod"}, "spec": plain(spec)}}
	}
	for _, old := range specs {
		for _, spec := range specs {
			answer := gate.Review(t.Context(), request(t, "cloudsigmaclusters", clusterWith(old), clusterWith(spec)))
			// A malformed field is denied only if it changes.
			if answer.Decision != webhooks.Allowed && answer.Reason != "ClusterUnreadable" && !selected(t, made(old), made(spec)) {
				t.Errorf("from %v to %v is not selected: %s", old, spec, answer.Message)
			}
		}
	}
}

// TestMatchConditionsSelectSecrets uses the typed object that an API server has for a built-in kind.
func TestMatchConditionsSelectSecrets(t *testing.T) {
	secret := func(data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "user"}, Type: corev1.SecretTypeOpaque, Data: data}
	}
	user := func(email string) *corev1.Secret {
		return secret(map[string][]byte{"userEmail": []byte(email), "a": nil})
	}
	matches := matcher(t, "secrets")
	for name, tc := range map[string]struct {
		old, new *corev1.Secret
		want     bool
	}{
		"created with a user":        {new: user("a@b"), want: true},
		"created without":            {new: secret(map[string][]byte{"release": []byte("x")})},
		"created without any data":   {new: secret(nil)},
		"created with an empty user": {new: user("")},
		"gets a user":                {old: secret(nil), new: user("a@b"), want: true},
		"gets another user":          {old: user("a@b"), new: user("c@d"), want: true},
		"gets another key":           {old: user("a@b"), new: secret(map[string][]byte{"userEmail": []byte("a@b"), "x": []byte("y")})},
		"does not change":            {old: user("a@b"), new: user("a@b")},
		"loses its user":             {old: user("a@b"), new: secret(map[string][]byte{"a": []byte("b")}), want: true},
		"loses its data":             {old: user("a@b"), new: secret(nil), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			var old runtime.Object
			if tc.old != nil {
				old = tc.old
			}
			if got := matches(t, old, tc.new); got != tc.want {
				t.Errorf("matches = %t, want %t", got, tc.want)
			}
		})
	}
}

// plain is a value as it is decoded from JSON.
func plain(value any) any {
	made, ok := value.(object)
	if !ok {
		if number, ok := value.(int); ok {
			return int64(number)
		}
		return value
	}
	decoded := map[string]any{}
	for key, value := range made {
		decoded[key] = plain(value)
	}
	return decoded
}

// matcher returns a function that reports whether the API server would call the webhook of a resource. No object may cause an evaluation
// error.
func matcher(t *testing.T, resource string) func(t *testing.T, old, object runtime.Object) bool {
	t.Helper()
	return matcherOf(t, cluster.Hooks(enforced), "cluster", resource)
}

// matcherOf is matcher of one of the webhooks of a gate.
func matcherOf(t *testing.T, hooks []webhooks.Hook, gate, resource string) func(t *testing.T, old, object runtime.Object) bool {
	t.Helper()
	hook := registered(hooks)[resource+"."+gate+".warrantgate.dev"]
	compiler := celplugin.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	compiled := webhook.NewValidatingWebhookAccessor("", "", hook).GetCompiledMatcher(compiler)
	group := schema.GroupVersion{Group: resourceOf(resource).Group, Version: resourceOf(resource).Version}
	return func(t *testing.T, old, object runtime.Object) bool {
		t.Helper()
		operation := admission.Update
		if old == nil {
			operation = admission.Create
		}
		result := compiled.Match(t.Context(), &admission.VersionedAttributes{
			Attributes: admission.NewAttributesRecord(object, old, group.WithKind("Kind"), "team-a", "prod", group.WithResource(resource), "",
				operation, nil, false, &user.DefaultInfo{Name: "alice"}),
			VersionedObject: object, VersionedOldObject: old, VersionedKind: group.WithKind("Kind"),
		}, nil, nil)
		if result.Error != nil {
			t.Errorf("evaluation error: %v", result.Error)
		}
		return result.Matches
	}
}
