package install_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"warrantgate.dev/internal/install"
)

// role and binding are the installed objects of these tests, in this order.
func role(verbs ...string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "gate"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: verbs}},
	}
}

func binding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: "gate"},
		Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "gate"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "gate"},
	}
}

// labeled returns the object as the API server stores it: with labels, and without kind and version.
func labeled(object client.Object, labels map[string]string) client.Object {
	object.SetLabels(labels)
	object.GetObjectKind().SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(""))
	return object
}

func installed(object client.Object) client.Object {
	return labeled(object, map[string]string{"app.kubernetes.io/managed-by": "warrantgate"})
}

// fakeAPI is an API server with objects. It records the writes in order.
type fakeAPI struct {
	client.Client
	writes []string
	// fail returns an error for a request ("get", "apply", "delete"), or nil. It is called before each request if it is set.
	fail func(verb, kind string) error
}

func newFakeAPI(t *testing.T, held ...client.Object) *fakeAPI {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := rbacv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api := &fakeAPI{}
	api.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(held...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if err := api.failure("get", object.GetObjectKind().GroupVersionKind().Kind); err != nil {
				return err
			}
			return c.Get(ctx, key, object, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			applied, ok := object.(applied)
			if !ok {
				t.Fatalf("Apply() of a %T was not expected", object)
			}
			if err := api.failure("apply", applied.GetKind()); err != nil {
				return err
			}
			api.writes = append(api.writes, "apply "+applied.GetKind())
			return applyLikeAServer(ctx, c, applied, opts)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			kind := object.GetObjectKind().GroupVersionKind().Kind
			if err := api.failure("delete", kind); err != nil {
				return err
			}
			api.writes = append(api.writes, "delete "+kind)
			return c.Delete(ctx, object, opts...)
		},
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			t.Errorf("Create(%s) was not expected", object.GetName())
			return errors.New("not expected")
		},
		Update: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.UpdateOption) error {
			t.Errorf("Update(%s) was not expected", object.GetName())
			return errors.New("not expected")
		},
	}).Build()
	return api
}

// applied is the interface of controller-runtime's unstructured apply configurations.
type applied interface {
	runtime.ApplyConfiguration
	GetKind() string
	GetName() string
	GroupVersionKind() schema.GroupVersionKind
	UnstructuredContent() map[string]any
	SetResourceVersion(version string)
}

// applyLikeAServer keeps the resource version if nothing changes, as an API server does. The fake client does not.
func applyLikeAServer(ctx context.Context, c client.Client, object applied, opts []client.ApplyOption) error {
	before := &unstructured.Unstructured{}
	before.SetGroupVersionKind(object.GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKey{Name: object.GetName()}, before); client.IgnoreNotFound(err) != nil {
		return err
	}
	if err := c.Apply(ctx, object, opts...); err != nil {
		return err
	}
	after := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(object.UnstructuredContent())}
	version := before.GetResourceVersion()
	for _, o := range []*unstructured.Unstructured{before, after} {
		o.SetResourceVersion("")
		o.SetManagedFields(nil)
	}
	if cmp.Equal(before.Object, after.Object) {
		object.SetResourceVersion(version)
	}
	return nil
}

func (a *fakeAPI) failure(verb, kind string) error {
	if a.fail == nil {
		return nil
	}
	return a.fail(verb, kind)
}

// holds compares all objects of the API server without resource versions and managed fields.
func (a *fakeAPI) holds(t *testing.T, want ...client.Object) {
	t.Helper()
	var got []client.Object
	var roles rbacv1.ClusterRoleList
	var bindings rbacv1.ClusterRoleBindingList
	for _, list := range []client.ObjectList{&roles, &bindings} {
		if err := a.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	for i := range roles.Items {
		got = append(got, &roles.Items[i])
	}
	for i := range bindings.Items {
		got = append(got, &bindings.Items[i])
	}
	for _, object := range append(got, want...) {
		object.SetResourceVersion("")
		object.SetManagedFields(nil)
		object.GetObjectKind().SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(""))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the API server holds (-want +got):\n%s", diff)
	}
}

func TestPrepareAddsTheLabelAndRemovesEmptyFields(t *testing.T) {
	object := role("create")
	object.Labels = map[string]string{"team": "a"}
	got, err := install.Prepare(object)
	if err != nil {
		t.Fatalf("Prepare() error = %v", err)
	}
	want := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
		"metadata": map[string]any{
			"name": "gate", "labels": map[string]any{"team": "a", "app.kubernetes.io/managed-by": "warrantgate"},
		},
		"rules": []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"events"}, "verbs": []any{"create"}}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Prepare() (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"team": "a"}, object.Labels); diff != "" {
		t.Errorf("the argument has changed:\n%s", diff)
	}
}

func TestApply(t *testing.T) {
	objects := func() []client.Object { return []client.Object{role("create", "patch"), binding()} }
	forbidden := apierrors.NewForbidden(rbacv1.Resource("clusterroles"), "gate", errors.New("no"))
	for name, tc := range map[string]struct {
		// before is applied first, so that the API server knows the field owners.
		before     []client.Object
		held       []client.Object
		fail       func(verb, kind string) error
		want       []install.Result
		wantErr    string
		wantWrites []string
		wantHeld   []client.Object
	}{
		"creates missing objects, in order": {
			want:       []install.Result{{"ClusterRole", "gate", install.Created}, {"ClusterRoleBinding", "gate", install.Created}},
			wantWrites: []string{"apply ClusterRole", "apply ClusterRoleBinding"},
			wantHeld:   []client.Object{installed(role("create", "patch")), installed(binding())},
		},
		"a second run changes nothing": {
			before:     objects(),
			want:       []install.Result{{"ClusterRole", "gate", install.Unchanged}, {"ClusterRoleBinding", "gate", install.Unchanged}},
			wantWrites: []string{"apply ClusterRole", "apply ClusterRoleBinding"},
			wantHeld:   []client.Object{installed(role("create", "patch")), installed(binding())},
		},
		"updates objects of an earlier version": {
			before:     []client.Object{role("create", "delete")},
			want:       []install.Result{{"ClusterRole", "gate", install.Updated}, {"ClusterRoleBinding", "gate", install.Created}},
			wantWrites: []string{"apply ClusterRole", "apply ClusterRoleBinding"},
			wantHeld:   []client.Object{installed(role("create", "patch")), installed(binding())},
		},
		"an object without the label is an error, and it and later objects are not changed": {
			held: []client.Object{labeled(role("get"), map[string]string{"app.kubernetes.io/managed-by": "Helm"})},
			want: []install.Result{},
			wantErr: `ClusterRole "gate" exists and was not installed by warrantgate (no label app.kubernetes.io/managed-by=warrantgate); ` +
				"rename or delete it first",
			wantHeld: []client.Object{labeled(role("get"), map[string]string{"app.kubernetes.io/managed-by": "Helm"})},
		},
		"returns the results before an error": {
			held:       []client.Object{labeled(binding(), nil)},
			want:       []install.Result{{"ClusterRole", "gate", install.Created}},
			wantWrites: []string{"apply ClusterRole"},
			wantErr: `ClusterRoleBinding "gate" exists and was not installed by warrantgate (no label app.kubernetes.io/managed-by=warrantgate); ` +
				"rename or delete it first",
			wantHeld: []client.Object{installed(role("create", "patch")), labeled(binding(), nil)},
		},
		"a forbidden read is an error": {
			fail: func(verb, _ string) error {
				if verb == "get" {
					return forbidden
				}
				return nil
			},
			want:    []install.Result{},
			wantErr: `read ClusterRole "gate": clusterroles.rbac.authorization.k8s.io "gate" is forbidden: no`,
		},
		"a forbidden write is an error": {
			fail: func(verb, kind string) error {
				if verb == "apply" && kind == "ClusterRoleBinding" {
					return forbidden
				}
				return nil
			},
			want:       []install.Result{{"ClusterRole", "gate", install.Created}},
			wantErr:    `apply ClusterRoleBinding "gate": clusterroles.rbac.authorization.k8s.io "gate" is forbidden: no`,
			wantWrites: []string{"apply ClusterRole"},
			wantHeld:   []client.Object{installed(role("create", "patch"))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, tc.held...)
			if _, err := install.Apply(t.Context(), api, tc.before); err != nil {
				t.Fatalf("the first Apply() error = %v", err)
			}
			api.writes, api.fail = nil, tc.fail
			got, err := install.Apply(t.Context(), api, objects())
			check(t, tc.want, got, tc.wantErr, err)
			if diff := cmp.Diff(tc.wantWrites, api.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			api.holds(t, tc.wantHeld...)
		})
	}
}

func TestReplace(t *testing.T) {
	all := func() []client.Object { return []client.Object{role("create"), binding()} }
	for name, tc := range map[string]struct {
		held     []client.Object
		wanted   []client.Object
		want     []install.Result
		wantErr  string
		wantHeld []client.Object
	}{
		"removes objects of an earlier configuration": {
			held:     []client.Object{installed(binding())},
			wanted:   []client.Object{role("create")},
			want:     []install.Result{{"ClusterRole", "gate", install.Created}, {"ClusterRoleBinding", "gate", install.Deleted}},
			wantHeld: []client.Object{installed(role("create"))},
		},
		"keeps desired objects": {
			held:     []client.Object{installed(binding())},
			wanted:   all(),
			want:     []install.Result{{"ClusterRole", "gate", install.Created}, {"ClusterRoleBinding", "gate", install.Unchanged}},
			wantHeld: []client.Object{installed(role("create")), installed(binding())},
		},
		"keeps objects without the label": {
			held:     []client.Object{labeled(binding(), nil)},
			wanted:   []client.Object{role("create")},
			want:     []install.Result{{"ClusterRole", "gate", install.Created}, {"ClusterRoleBinding", "gate", install.Foreign}},
			wantHeld: []client.Object{installed(role("create")), labeled(binding(), nil)},
		},
		"removes nothing if an object cannot be applied": {
			held:   []client.Object{labeled(role("get"), nil), installed(binding())},
			wanted: []client.Object{role("create")},
			want:   []install.Result{},
			wantErr: `ClusterRole "gate" exists and was not installed by warrantgate (no label app.kubernetes.io/managed-by=warrantgate); ` +
				"rename or delete it first",
			wantHeld: []client.Object{labeled(role("get"), nil), installed(binding())},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, tc.held...)
			got, err := install.Replace(t.Context(), api, tc.wanted, all())
			check(t, tc.want, got, tc.wantErr, err)
			api.holds(t, tc.wantHeld...)
		})
	}
}

func TestRemove(t *testing.T) {
	forbidden := apierrors.NewForbidden(rbacv1.Resource("clusterrolebindings"), "gate", errors.New("no"))
	for name, tc := range map[string]struct {
		held       []client.Object
		fail       func(verb, kind string) error
		want       []install.Result
		wantErr    string
		wantWrites []string
		wantHeld   []client.Object
	}{
		"removes objects, references before their targets": {
			held:       []client.Object{installed(role("create")), installed(binding())},
			want:       []install.Result{{"ClusterRoleBinding", "gate", install.Deleted}, {"ClusterRole", "gate", install.Deleted}},
			wantWrites: []string{"delete ClusterRoleBinding", "delete ClusterRole"},
		},
		"missing objects are not an error": {
			want: []install.Result{},
		},
		"does not remove objects without the label": {
			held:       []client.Object{labeled(role("get"), nil), installed(binding())},
			want:       []install.Result{{"ClusterRoleBinding", "gate", install.Deleted}, {"ClusterRole", "gate", install.Foreign}},
			wantWrites: []string{"delete ClusterRoleBinding"},
			wantHeld:   []client.Object{labeled(role("get"), nil)},
		},
		"a concurrent deletion is not an error": {
			held: []client.Object{installed(binding())},
			fail: func(verb, _ string) error {
				if verb == "delete" {
					return apierrors.NewNotFound(rbacv1.Resource("clusterrolebindings"), "gate")
				}
				return nil
			},
			want:     []install.Result{{"ClusterRoleBinding", "gate", install.Deleted}},
			wantHeld: []client.Object{installed(binding())}, // the fake keeps it
		},
		"a forbidden deletion is an error": {
			held: []client.Object{installed(role("create")), installed(binding())},
			fail: func(verb, _ string) error {
				if verb == "delete" {
					return forbidden
				}
				return nil
			},
			want:     []install.Result{},
			wantErr:  `delete ClusterRoleBinding "gate": clusterrolebindings.rbac.authorization.k8s.io "gate" is forbidden: no`,
			wantHeld: []client.Object{installed(role("create")), installed(binding())},
		},
		"a forbidden read is an error, after the results before it": {
			held: []client.Object{installed(role("create")), installed(binding())},
			fail: func(verb, kind string) error {
				if verb == "get" && kind == "ClusterRole" {
					return forbidden
				}
				return nil
			},
			want:       []install.Result{{"ClusterRoleBinding", "gate", install.Deleted}},
			wantErr:    `read ClusterRole "gate": clusterrolebindings.rbac.authorization.k8s.io "gate" is forbidden: no`,
			wantWrites: []string{"delete ClusterRoleBinding"},
			wantHeld:   []client.Object{installed(role("create"))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, tc.held...)
			api.fail = tc.fail
			got, err := install.Remove(t.Context(), api, []client.Object{role("create"), binding()})
			check(t, tc.want, got, tc.wantErr, err)
			if diff := cmp.Diff(tc.wantWrites, api.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			api.holds(t, tc.wantHeld...)
		})
	}
}

func check(t *testing.T, want, got []install.Result, wantErr string, err error) {
	t.Helper()
	gotErr := ""
	if err != nil {
		gotErr = err.Error()
	}
	if diff := cmp.Diff(wantErr, gotErr); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}
