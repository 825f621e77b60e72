//go:build e2e

package chartkcp_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/charts/charttest"
)

// argoCD applies what "helm template" prints in the order of Argo CD v3.5: of objects with one name the last (controller/state.go), hooks by
// Helm's annotations (gitops-engine/pkg/sync/hook/helm, controller/hook.go), all others by sync waves, and deletes them in the reverse order
// (controller/sort_delete.go).
type argoCD struct {
	host    client.Client
	objects []*unstructured.Unstructured
}

// argoCDPhases are the phases of Helm's hooks. Others are ignored.
var argoCDPhases = map[string]string{
	"pre-install": "PreSync", "pre-upgrade": "PreSync", "post-install": "PostSync", "post-upgrade": "PostSync",
	"pre-delete": "PreDelete", "post-delete": "PostDelete",
}

func newArgoCD(ctx context.Context, host client.Client, values string) *argoCD {
	GinkgoHelper()
	chart, err := charttest.Chart()
	Expect(err).NotTo(HaveOccurred())
	printed, err := charttest.Helm(ctx, values, "template", release, chart, "--namespace="+namespace, "--kube-version="+charttest.KubeVersion, "--values=-")
	Expect(err).NotTo(HaveOccurred())
	objects, err := charttest.Decode(printed)
	Expect(err).NotTo(HaveOccurred())
	last := map[string]*unstructured.Unstructured{}
	for _, object := range objects {
		last[object.GroupVersionKind().GroupKind().String()+"/"+object.GetNamespace()+"/"+object.GetName()] = object
	}
	return &argoCD{
		host: client.WithFieldValidation(host, metav1.FieldValidationStrict),
		objects: slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool {
			return !slices.Contains(slices.Collect(maps.Values(last)), object)
		}),
	}
}

// sync creates all objects. ready is called once they have been created, and returns when they are healthy.
func (a *argoCD) sync(ctx context.Context, ready func()) {
	GinkgoHelper()
	a.run(ctx, "PreSync")
	waves := a.waves()
	for _, wave := range slices.Sorted(maps.Keys(waves)) {
		for _, object := range waves[wave] {
			Expect(a.host.Create(ctx, object.DeepCopy())).To(Succeed(), "%s %s", object.GetKind(), object.GetName())
		}
	}
	ready()
	a.run(ctx, "PostSync")
}

// remove deletes the Application.
func (a *argoCD) remove(ctx context.Context) {
	GinkgoHelper()
	a.run(ctx, "PreDelete")
	waves := a.waves()
	for _, wave := range slices.Backward(slices.Sorted(maps.Keys(waves))) {
		for _, object := range waves[wave] {
			Expect(a.host.Delete(ctx, object.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		}
	}
	a.run(ctx, "PostDelete")
}

// waves are the objects other than hooks.
func (a *argoCD) waves() map[int][]*unstructured.Unstructured {
	GinkgoHelper()
	waves := map[int][]*unstructured.Unstructured{}
	for _, object := range a.objects {
		annotations := object.GetAnnotations()
		if _, hook := annotations["helm.sh/hook"]; hook {
			continue
		}
		wave := 0
		if text, has := annotations["argocd.argoproj.io/sync-wave"]; has {
			var err error
			wave, err = strconv.Atoi(text)
			Expect(err).NotTo(HaveOccurred())
		}
		waves[wave] = append(waves[wave], object)
	}
	return waves
}

// run creates the hooks of a phase, one after the other, waits until those that are Jobs are complete, and deletes them.
func (a *argoCD) run(ctx context.Context, phase string) {
	GinkgoHelper()
	for _, hook := range a.objects {
		if !slices.ContainsFunc(strings.Split(hook.GetAnnotations()["helm.sh/hook"], ","), func(when string) bool { return argoCDPhases[when] == phase }) {
			continue
		}
		Expect(a.host.Create(ctx, hook.DeepCopy())).To(Succeed(), hook.GetName())
		if hook.GetKind() == "Job" {
			Eventually(func() ([]batchv1.JobCondition, error) {
				job := &batchv1.Job{}
				err := a.host.Get(ctx, client.ObjectKeyFromObject(hook), job)
				return job.Status.Conditions, err
			}).WithContext(ctx).Should(ContainElement(HaveField("Type", batchv1.JobComplete)))
		}
		Expect(a.host.Delete(ctx, hook.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	}
}
