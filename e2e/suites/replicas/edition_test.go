//go:build e2e

package replicas_test

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/charts/charttest"
	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/env/volume"
)

// edition is a release of warrantgate: its program, and the objects that its own chart renders from the values of a world.
type edition struct {
	binary  string
	objects []*unstructured.Unstructured
	// pod is the pod of the Deployment.
	pod corev1.PodSpec
}

// edition returns the release of the program of an asset, with the chart of the same sources.
func (w *world) edition(ctx context.Context, name string) edition {
	GinkgoHelper()
	e := edition{binary: suite.Binary(name)}
	chart, err := charttest.Chart()
	if name == asset.WarrantgateBefore {
		chart, err = filepath.Join(filepath.Dir(e.binary), "..", "charts", "warrantgate"), nil
	}
	Expect(err).NotTo(HaveOccurred())
	values, err := json.Marshal(w.values)
	Expect(err).NotTo(HaveOccurred())
	rendered, err := charttest.TemplateOf(ctx, chart, string(values))
	Expect(err).NotTo(HaveOccurred())
	e.objects = rendered.Objects
	deployment, err := charttest.Find(e.objects, "Deployment")
	Expect(err).NotTo(HaveOccurred())
	var typed appsv1.Deployment
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(deployment.Object, &typed)).To(Succeed())
	e.pod = typed.Spec.Template.Spec
	Expect(e.pod.Containers).To(HaveLen(1))
	service, err := charttest.Find(e.objects, "Service")
	Expect(err).NotTo(HaveOccurred())
	ports, _, err := unstructured.NestedSlice(service.Object, "spec", "ports")
	Expect(err).NotTo(HaveOccurred())
	// The address of a Service has no route here. The API server resolves a Service of this type itself.
	Expect(unstructured.SetNestedMap(service.Object, map[string]any{"type": "ExternalName", "externalName": "localhost", "ports": ports}, "spec")).
		To(Succeed())
	return e
}

// version is the version that the program prints.
func (e edition) version(ctx context.Context) string {
	GinkgoHelper()
	printed, err := exec.CommandContext(ctx, e.binary, "version").CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", printed)
	return string(printed)
}

// install replaces the installed objects by those of an edition, as helm does: all at once, while the running replicas are still of the
// earlier edition. New replicas are of this edition. The timeouts of the webhooks are only those of the edition if the load is large.
func (w *world) install(ctx context.Context, e edition) {
	GinkgoHelper()
	type key struct {
		kind schema.GroupKind
		client.ObjectKey
	}
	made := map[key]bool{}
	keyOf := func(object *unstructured.Unstructured) key {
		return key{object.GroupVersionKind().GroupKind(), client.ObjectKeyFromObject(object)}
	}
	for _, object := range e.objects {
		made[keyOf(object)] = true
		held := object.DeepCopy()
		err := w.admin.Create(ctx, held)
		if apierrors.IsAlreadyExists(err) {
			Expect(w.admin.Get(ctx, client.ObjectKeyFromObject(object), held)).To(Succeed())
			version := held.GetResourceVersion()
			held = object.DeepCopy()
			held.SetResourceVersion(version)
			err = w.admin.Update(ctx, held)
		}
		Expect(err).NotTo(HaveOccurred(), "%s %s", object.GetKind(), object.GetName())
	}
	for _, object := range w.installed.objects {
		if !made[keyOf(object)] {
			Expect(w.admin.Delete(ctx, object.DeepCopy())).To(Succeed(), "%s %s", object.GetKind(), object.GetName())
		}
	}
	w.installed = e
	if !volume.All() {
		suite.Patient(ctx, w.admin)
	}
}
