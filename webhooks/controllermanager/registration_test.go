package controllermanager_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	objectpredicate "k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/object"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/utils/ptr"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks/controllermanager"
	"warrantgate.dev/webhooks/webhookstest"
)

// pinned are the fields of a webhook that must not change by accident.
type pinned struct {
	URL           string
	Rules         []admissionregistrationv1.RuleWithOperations
	MatchPolicy   admissionregistrationv1.MatchPolicyType
	FailurePolicy admissionregistrationv1.FailurePolicyType
	SideEffects   admissionregistrationv1.SideEffectClass
	Timeout       int32
	Selector      *metav1.LabelSelector
	Conditions    []string
}

func TestWebhooksArePinned(t *testing.T) {
	for mode, wantPolicy := range map[v1beta1.Mode]admissionregistrationv1.FailurePolicyType{
		v1beta1.Enforce: admissionregistrationv1.Fail,
		v1beta1.Warn:    admissionregistrationv1.Ignore, // a gate that only warns must not deny anything while it is down
	} {
		want := map[string]pinned{}
		for _, what := range []string{"identity", "integrity"} {
			want["controller-manager-"+what+".warrantgate.dev"] = pinned{
				URL: webhookstest.URL + "/controllermanager/" + what,
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
					Rule: admissionregistrationv1.Rule{
						APIGroups: []string{"apps"}, APIVersions: []string{"v1"},
						Resources: []string{"deployments", "daemonsets", "daemonsets/status", "statefulsets", "statefulsets/status"},
						Scope:     ptr.To(admissionregistrationv1.NamespacedScope),
					},
				}},
				MatchPolicy: "Equivalent", FailurePolicy: wantPolicy, SideEffects: "NoneOnDryRun", Timeout: 3,
				Selector:   &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cloudsigma-ccm"}},
				Conditions: []string{"not-being-deleted", "changes-pods-or-labels"},
			}
		}
		got := map[string]pinned{}
		pin := func(accessor webhook.WebhookAccessor, client admissionregistrationv1.WebhookClientConfig,
			side *admissionregistrationv1.SideEffectClass, selector *metav1.LabelSelector, conditions []admissionregistrationv1.MatchCondition,
		) {
			var names []string
			for _, condition := range conditions {
				names = append(names, condition.Name)
			}
			got[accessor.GetName()] = pinned{
				*client.URL, accessor.GetRules(), *accessor.GetMatchPolicy(), *accessor.GetFailurePolicy(), *side,
				*accessor.GetTimeoutSeconds(), selector, names,
			}
		}
		mutating, validating := webhookstest.Registered(controllermanager.Hooks(config(inMode(mode))))
		for i, w := range mutating {
			pin(webhook.NewMutatingWebhookAccessor("", "", &mutating[i]), w.ClientConfig, w.SideEffects, w.ObjectSelector, w.MatchConditions)
		}
		for i, w := range validating {
			pin(webhook.NewValidatingWebhookAccessor("", "", &validating[i]), w.ClientConfig, w.SideEffects, w.ObjectSelector, w.MatchConditions)
		}
		if len(mutating) != 1 || len(validating) != 1 {
			t.Errorf("%d mutating and %d validating webhooks, want one of each", len(mutating), len(validating))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: webhooks (-want +got):\n%s", mode, diff)
		}
	}
}

func TestNamesAreRegisteredBesideTheSelector(t *testing.T) {
	objects := []v1beta1.NamedObject{{Namespace: "tenant-a", Name: "ccm"}, {Namespace: "tenant-b", Name: "x.y"}}
	for name, tc := range map[string]struct {
		modify func(*v1beta1.ControllerManager)
		want   []string
	}{
		"labels": {func(*v1beta1.ControllerManager) {}, []string{"controller-manager-identity.warrantgate.dev"}},
		"labels and names": {
			func(c *v1beta1.ControllerManager) { c.Objects = objects },
			[]string{"controller-manager-identity.warrantgate.dev", "named-controller-manager-identity.warrantgate.dev"},
		},
		"names": {
			func(c *v1beta1.ControllerManager) { c.Objects, c.Selector = objects, nil },
			[]string{"named-controller-manager-identity.warrantgate.dev"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			mutating, validating := webhookstest.Registered(controllermanager.Hooks(config(tc.modify)))
			var got []string
			for i, w := range mutating {
				got = append(got, w.Name)
				if want := strings.Replace(w.Name, "identity", "integrity", 1); validating[i].Name != want {
					t.Errorf("validating: %s, want %s", validating[i].Name, want)
				}
				if strings.HasPrefix(w.Name, "named-") != (w.ObjectSelector == nil) {
					t.Errorf("%s has the selector %v", w.Name, w.ObjectSelector)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	mutating, _ := webhookstest.Registered(controllermanager.Hooks(config(func(c *v1beta1.ControllerManager) { c.Objects, c.Selector = objects, nil })))
	accessor := webhook.NewMutatingWebhookAccessor("", "warrantgate", &mutating[0])
	named := func(name string) *appsv1.Deployment {
		return deployment(func(d *appsv1.Deployment) { d.Name, d.Labels = name, nil })
	}
	for name, want := range map[string]bool{"ccm": true, "x.y": false, "ccm2": false, "": false} {
		if got := conditionsMatch(t, accessor, attributes(named(name), nil, admission.Create, "")); got != want {
			t.Errorf("%q in namespace tenant-a: selected = %t, want %t", name, got, want)
		}
	}
}

func TestGatesThatAreOffAreNotRegistered(t *testing.T) {
	mutating, validating := controllermanager.Hooks(config(inMode(v1beta1.Off)))
	if len(mutating)+len(validating) > 0 {
		t.Errorf("%v %v are registered", mutating, validating)
	}
}

// TestMatchConditionsSelectRequests decides with the API server's own code: rules, selector and conditions.
func TestMatchConditionsSelectRequests(t *testing.T) {
	now := metav1.Now()
	image := func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "ccm:2" }
	labels := func(labels map[string]string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) { d.Labels = labels }
	}
	leaving := func(d *appsv1.Deployment) { d.DeletionTimestamp, d.Finalizers = &now, []string{"example.com/f"} }

	for name, tc := range map[string]struct {
		old, new    *appsv1.Deployment
		operation   admission.Operation
		subresource string
		want        bool
	}{
		"a controller manager is created":                           {new: deployment(), operation: admission.Create, want: true},
		"a Deployment that is not a controller manager is created":  {new: deployment(labels(map[string]string{"app": "web"})), operation: admission.Create},
		"a Deployment without labels is created":                    {new: deployment(labels(nil)), operation: admission.Create},
		"another image":                                             {old: deployment(), new: deployment(image), want: true},
		"a restart":                                                 {old: deployment(), new: deployment(restart), want: true},
		"the environment is removed":                                {old: deployment(withEnv(identity()...)), new: deployment(), want: true},
		"another cluster":                                           {old: deployment(), new: deployment(labels(map[string]string{"app": "cloudsigma-ccm", clusterLabel: "x"})), want: true},
		"the labels are removed":                                    {old: deployment(), new: deployment(labels(nil)), want: true},
		"the labels are emptied":                                    {old: deployment(), new: deployment(labels(map[string]string{})), want: true},
		"the labels are added":                                      {old: deployment(labels(nil)), new: deployment(), want: true},
		"the same again, with or without the identity":              {old: deployment(), new: deployment()},
		"another number of replicas":                                {old: deployment(), new: deployment(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](3) })},
		"another annotation":                                        {old: deployment(), new: deployment(func(d *appsv1.Deployment) { d.Annotations["a"] = "b" })},
		"a rollout is paused":                                       {old: deployment(), new: deployment(func(d *appsv1.Deployment) { d.Spec.Paused = true })},
		"a finalizer is added":                                      {old: deployment(), new: deployment(func(d *appsv1.Deployment) { d.Finalizers = []string{"example.com/f"} })},
		"a finalizer is removed during the deletion":                {old: deployment(leaving), new: deployment(leaving, func(d *appsv1.Deployment) { d.Finalizers = nil })},
		"another image during the deletion":                         {old: deployment(leaving), new: deployment(leaving, image)},
		"another image, with a deletion timestamp of the requester": {old: deployment(), new: deployment(leaving, image), want: true},
		"status":     {old: deployment(), new: deployment(image), subresource: "status"},
		"scale":      {old: deployment(), new: deployment(image), subresource: "scale"},
		"a deletion": {old: deployment(), operation: admission.Delete},
		"an unchanged environment of a thousand variables": {old: crowded(1000), new: crowded(1000)},
		"one changed variable of a thousand":               {old: crowded(1000), new: crowded(999), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.operation == "" {
				tc.operation = admission.Update
			}
			want := map[string]bool{"controller-manager-identity": tc.want, "controller-manager-integrity": tc.want}
			if diff := cmp.Diff(want, called(t, attributes(typed(tc.new), typed(tc.old), tc.operation, tc.subresource))); diff != "" {
				t.Errorf("called (-want +got):\n%s", diff)
			}
		})
	}
}

// A write of the status can remove the labels of a DaemonSet or a StatefulSet, and the gates would not be called for its next change.
func TestLabelsThatTheStatusChanges(t *testing.T) {
	without := deployment(func(d *appsv1.Deployment) { d.Labels = nil })
	running := deployment(func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 1 })
	for resource, want := range map[string]bool{"deployments": false, "daemonsets": true, "statefulsets": true} { // a Deployment keeps its labels
		request := func(after *appsv1.Deployment) *admission.VersionedAttributes {
			attributes := attributes(after, deployment(), admission.Update, "")
			attributes.Attributes = admission.NewAttributesRecord(after, deployment(), attributes.VersionedKind, "tenant-a", "ccm",
				appsv1.SchemeGroupVersion.WithResource(resource), "status", admission.Update, nil, false, &user.DefaultInfo{Name: "alice"})
			return attributes
		}
		for gate, called := range called(t, request(without)) {
			if called != want {
				t.Errorf("%s: %s is called: %t, want %t", resource, gate, called, want)
			}
		}
		for gate, called := range called(t, request(running)) {
			if called {
				t.Errorf("%s: %s is called for another status", resource, gate)
			}
		}
	}
}

// TestUnusualMetadataIsNoError: an evaluation error of a condition would deny the request.
func TestUnusualMetadataIsNoError(t *testing.T) {
	object := func(labels, deletion any) runtime.Object {
		metadata := map[string]any{"name": "ccm", "namespace": "tenant-a"}
		for key, value := range map[string]any{"labels": labels, "deletionTimestamp": deletion} {
			if value != missing {
				metadata[key] = value
			}
		}
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": map[string]any{"template": map[string]any{}},
		}}
	}
	withoutSpec := func() runtime.Object {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "ccm"}}}
	}
	some := map[string]any{"a": "b"}
	for name, tc := range map[string]struct {
		old, new runtime.Object
		want     bool
	}{
		"no labels and null":       {object(missing, missing), object(nil, missing), false},
		"null and empty labels":    {object(nil, nil), object(map[string]any{}, missing), false},
		"empty labels and none":    {object(map[string]any{}, missing), object(missing, nil), false},
		"no labels and some":       {object(missing, missing), object(some, missing), true},
		"some labels and null":     {object(some, missing), object(nil, missing), true},
		"no spec on either side":   {withoutSpec(), withoutSpec(), false},
		"a spec that is added":     {withoutSpec(), object(missing, missing), true},
		"a malformed time":         {object(some, "soon"), object(missing, missing), false},
		"a deletion that is a map": {object(some, map[string]any{}), object(missing, missing), false},
		"a deletion that is new":   {object(some, missing), object(missing, "soon"), true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, accessor := range accessors(t) {
				if got := conditionsMatch(t, accessor, attributes(tc.new, tc.old, admission.Update, "")); got != tc.want {
					t.Errorf("%s: selected = %t, want %t", accessor.GetName(), got, tc.want)
				}
			}
		})
	}
}

// missing is the value of a field that does not exist.
const missing = "missing"

func restart(d *appsv1.Deployment) {
	d.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-02-04T12:03:29Z"}
}

func crowded(variables int) *appsv1.Deployment {
	var env []corev1.EnvVar
	for i := range variables {
		env = append(env, value(fmt.Sprintf("OTHER_%d", i), strings.Repeat("x", 100)))
	}
	return deployment(withEnv(env...))
}

// typed returns a nil interface for a nil Deployment.
func typed(d *appsv1.Deployment) runtime.Object {
	if d == nil {
		return nil
	}
	return d
}

func attributes(object, old runtime.Object, operation admission.Operation, subresource string) *admission.VersionedAttributes {
	kind := appsv1.SchemeGroupVersion.WithKind("Deployment")
	record := admission.NewAttributesRecord(object, old, kind, "tenant-a", "ccm", appsv1.SchemeGroupVersion.WithResource("deployments"),
		subresource, operation, nil, false, &user.DefaultInfo{Name: "alice"})
	return &admission.VersionedAttributes{Attributes: record, VersionedObject: object, VersionedOldObject: old, VersionedKind: kind}
}

func accessors(t *testing.T) []webhook.WebhookAccessor {
	t.Helper()
	mutating, validating := webhookstest.Registered(controllermanager.Hooks(config()))
	return []webhook.WebhookAccessor{
		webhook.NewMutatingWebhookAccessor("", "warrantgate", &mutating[0]),
		webhook.NewValidatingWebhookAccessor("", "warrantgate", &validating[0]),
	}
}

// called returns the gates that the API server would call.
func called(t *testing.T, attributes *admission.VersionedAttributes) map[string]bool {
	t.Helper()
	called := map[string]bool{}
	for _, accessor := range accessors(t) {
		rule := rules.Matcher{Rule: accessor.GetRules()[0], Attr: attributes}
		selected, err := (&objectpredicate.Matcher{}).MatchObjectSelector(accessor, attributes)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(accessor.GetName(), ".warrantgate.dev")
		called[name] = rule.Matches() && selected && conditionsMatch(t, accessor, attributes)
	}
	return called
}

func conditionsMatch(t *testing.T, accessor webhook.WebhookAccessor, attributes *admission.VersionedAttributes) bool {
	t.Helper()
	compiler := celplugin.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	result := accessor.GetCompiledMatcher(compiler).Match(t.Context(), attributes, nil, nil)
	if result.Error != nil {
		t.Errorf("%s: %v", accessor.GetName(), result.Error)
	}
	return result.Matches
}
