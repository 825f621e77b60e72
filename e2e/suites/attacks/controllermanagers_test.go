//go:build e2e

package attacks_test

import (
	"context"
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// managerLabels make an object a controller manager of the cluster "pool".
func managerLabels() map[string]string {
	return map[string]string{"app": "cloudsigma-ccm", "cluster.x-k8s.io/cluster-name": "pool"}
}

// managed creates an editor of a namespace with a cluster "pool" of the editor's own user and the Secret with the client of
// controller managers.
func (w *kubeWorld) managed(ctx context.Context, namespace string) tenant {
	GinkgoHelper()
	who := w.editor(ctx, namespace)
	own := w.user(who.name + "@example.com")
	w.permit(ctx, who.name, own.Email)
	Expect(who.client.Create(ctx, newCluster(namespace, "pool", own.Email))).To(Succeed())
	Expect(who.client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cloudsigma-impersonation"},
		StringData: map[string]string{"oauth-url": w.cloud.OAuthURL(), "client-id": "managers", "client-secret": "any"},
	})).To(Succeed())
	Eventually(func() error { // the API server calls the webhooks a moment after the installation
		wrong := deploymentOf(namespace, "canary", func(p *corev1.PodSpec) {
			p.Containers[0].Env = []corev1.EnvVar{{Name: "CLOUDSIGMA_USER_EMAIL", Value: "victim@example.com"}}
		})
		return who.client.Create(ctx, wrong, client.DryRunAll)
	}).Should(MatchError(ContainSubstring("controller-manager-identity.warrantgate.dev")))
	return who
}

// template is the pod template of a controller manager.
func template(modify ...func(*corev1.PodSpec)) corev1.PodTemplateSpec {
	pods := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: managerLabels()},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "ccm", Image: "ccm:1", Args: []string{"--cloud-provider=cloudsigma"}}}},
	}
	for _, change := range modify {
		change(&pods.Spec)
	}
	return pods
}

// deploymentOf, daemonSetOf and statefulSetOf return a controller manager of the cluster "pool".
func deploymentOf(namespace, name string, modify ...func(*corev1.PodSpec)) client.Object {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: managerLabels()},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: managerLabels()}, Template: template(modify...)},
	}
}

func daemonSetOf(namespace, name string, modify ...func(*corev1.PodSpec)) client.Object {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: managerLabels()},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: managerLabels()}, Template: template(modify...)},
	}
}

func statefulSetOf(namespace, name string, modify ...func(*corev1.PodSpec)) client.Object {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: managerLabels()},
		Spec:       appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: managerLabels()}, Template: template(modify...)},
	}
}

// podsOf is the pod template in an object.
func podsOf(object client.Object) *corev1.PodSpec {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec
	case *appsv1.DaemonSet:
		return &o.Spec.Template.Spec
	case *appsv1.StatefulSet:
		return &o.Spec.Template.Spec
	}
	return nil
}

func asVictim(p *corev1.PodSpec) {
	p.Containers[0].Env = []corev1.EnvVar{{Name: "CLOUDSIGMA_USER_EMAIL", Value: "victim@example.com"}}
}

// denialFor matches the denial of a controller manager.
func denialFor(reason, text string) OmegaMatcher {
	return And(MatchError(ContainSubstring("controller-manager-identity.warrantgate.dev")), MatchError(ContainSubstring(text)),
		WithTransform(causesOf, ContainElement(metav1.CauseType(reason))))
}

// causesOf are the types of the causes of a denial.
func causesOf(err error) []metav1.CauseType {
	var types []metav1.CauseType
	var denied *apierrors.StatusError
	if errors.As(err, &denied) && denied.Status().Details != nil {
		for _, cause := range denied.Status().Details.Causes {
			types = append(types, cause.Type)
		}
	}
	return types
}

// Guarantee 4: removing a selector label does not bypass a gate.
var _ = Describe("the editor of a namespace with a controller manager", func() {
	for kind, manager := range map[string]func(string, string, ...func(*corev1.PodSpec)) client.Object{
		"Deployment": deploymentOf, "DaemonSet": daemonSetOf, "StatefulSet": statefulSetOf,
	} {
		It("cannot remove the labels of a "+kind+" and change it, in one write or in two", func(ctx SpecContext) {
			w := kube(ctx)
			attacker := w.managed(ctx, w.namespace(ctx))
			held := manager(attacker.namespace, "ccm")
			Expect(attacker.client.Create(ctx, held)).To(Succeed())
			Expect(podsOf(held).Containers[0].Env).To(ContainElement(corev1.EnvVar{Name: "CLOUDSIGMA_USER_EMAIL", Value: attacker.name + "@example.com"}))
			patch := func(change func(object client.Object), options ...client.PatchOption) error {
				changed, ok := held.DeepCopyObject().(client.Object)
				Expect(ok).To(BeTrue())
				change(changed)
				return attacker.client.Patch(ctx, changed, client.MergeFrom(held), options...)
			}
			unlabeled := func(object client.Object) { object.SetLabels(nil) }
			for _, options := range [][]client.PatchOption{{client.DryRunAll}, nil} {
				By("in one write")
				Expect(patch(func(object client.Object) { unlabeled(object); asVictim(podsOf(object)) }, options...)).
					To(denialFor("ControllerManagerDeselected", "without them its next change would not be checked"))
				By("in the first of two writes")
				Expect(patch(unlabeled, options...)).To(denialFor("ControllerManagerDeselected", "without them its next change would not be checked"))
				By("with another value of the label")
				Expect(patch(func(object client.Object) { object.SetLabels(map[string]string{"app": "web"}) }, options...)).
					To(denialFor("ControllerManagerDeselected", "without them its next change would not be checked"))
				By("as another user")
				Expect(patch(func(object client.Object) { asVictim(podsOf(object)) }, options...)).To(denialFor("UserEmailMismatch", "victim@example.com"))
			}
			By("with a write of the status, which the API server stores with the labels of all but a Deployment")
			bare, ok := held.DeepCopyObject().(client.Object)
			Expect(ok).To(BeTrue())
			unlabeled(bare)
			err := attacker.client.Status().Patch(ctx, bare, client.MergeFrom(held))
			if kind == "Deployment" {
				Expect(err).NotTo(HaveOccurred())
				Expect(bare.GetLabels()).To(Equal(managerLabels()))
			} else {
				Expect(err).To(denialFor("ControllerManagerDeselected", "without them its next change would not be checked"))
			}
			By("with a deletion timestamp")
			Expect(patch(func(object client.Object) {
				object.SetDeletionTimestamp(&metav1.Time{Time: object.GetCreationTimestamp().Time})
				asVictim(podsOf(object))
			})).NotTo(Succeed())
			Expect(attacker.client.Get(ctx, client.ObjectKeyFromObject(held), held)).To(Succeed())
			Expect(fmt.Sprint(held)).NotTo(ContainSubstring("victim@example.com"))

			By("and a scale, a restart and a deletion are admitted")
			Expect(patch(func(object client.Object) { object.SetAnnotations(map[string]string{"a": "b"}) })).To(Succeed())
			Expect(patch(func(object client.Object) { podsOf(object).Containers[0].Image = "ccm:2" })).To(Succeed())
			Expect(attacker.client.Delete(ctx, held)).To(Succeed())
		}, SpecTimeout(startTimeout))
	}

	It("cannot create one with a selected name that acts as another user, with any labels", func(ctx SpecContext) {
		w := kube(ctx)
		Expect(w.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "named-managers"}})).To(Succeed())
		attacker := w.managed(ctx, "named-managers")
		named := func(modify ...func(*corev1.PodSpec)) client.Object {
			object := deploymentOf(attacker.namespace, "ccm", modify...)
			object.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "pool"})
			return object
		}
		Expect(attacker.client.Create(ctx, named(asVictim))).To(And(
			MatchError(ContainSubstring("named-controller-manager-identity.warrantgate.dev")), MatchError(ContainSubstring("victim@example.com"))))
		held := named()
		Expect(attacker.client.Create(ctx, held)).To(Succeed())
		Expect(podsOf(held).Containers[0].Env).To(HaveLen(6))
		changed := named(asVictim)
		changed.SetLabels(nil)
		Expect(attacker.client.Patch(ctx, changed, client.MergeFrom(held))).NotTo(Succeed())
		Expect(attacker.client.Delete(ctx, held)).To(Succeed())
		Expect(attacker.client.Create(ctx, named(asVictim))).To(MatchError(ContainSubstring("victim@example.com")), "after it has been deleted")
	}, SpecTimeout(startTimeout))
})

// Guarantee 5: the gate parses what the consumer parses.
var _ = Describe("the controller manager that a namespace editor creates", func() {
	args := func(args ...string) func(*corev1.PodSpec) {
		return func(p *corev1.PodSpec) { p.Containers[0].Args = args }
	}
	fromKey := func(name, secret, key string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key,
		}}}
	}
	shell := func() *corev1.ExecAction {
		return &corev1.ExecAction{Command: []string{"sh", "-c", "exec /manager --user-email=victim@example.com"}}
	}
	DescribeTable("is denied if its identity is set", func(ctx SpecContext, reason, text string, change func(*corev1.PodSpec)) {
		w := kube(ctx)
		attacker := w.managed(ctx, w.namespace(ctx))
		Expect(attacker.client.Create(ctx, deploymentOf(attacker.namespace, "new", change))).To(denialFor(reason, text))
		held := deploymentOf(attacker.namespace, "ccm")
		Expect(attacker.client.Create(ctx, held)).To(Succeed())
		changed, ok := held.DeepCopyObject().(client.Object)
		Expect(ok).To(BeTrue())
		change(podsOf(changed))
		Expect(attacker.client.Patch(ctx, changed, client.MergeFrom(held))).To(denialFor(reason, text))
		Expect(attacker.recorder.Texts()).NotTo(ContainSubstring("s3cret"))
	},
		Entry("by a flag", "FlagNotAllowed", "the flag --user-email", args("--user-email=victim@example.com"), SpecTimeout(startTimeout)),
		Entry("by a flag and the next argument", "FlagNotAllowed", "the flag -user_email", args("-user_email", "victim@example.com"), SpecTimeout(startTimeout)),
		Entry("by a variable", "FlagNotAllowed", "so that it could be any flag", func(p *corev1.PodSpec) {
			p.Containers[0].Args = []string{"$(FLAG)"}
			p.Containers[0].Env = append(p.Containers[0].Env, corev1.EnvVar{Name: "FLAG", Value: "--user-email=victim@example.com"})
		}, SpecTimeout(startTimeout)),
		Entry("by a client secret", "FlagNotAllowed", "the flag --client-secret", args("--client-secret=s3cret"), SpecTimeout(startTimeout)),
		Entry("by a shell", "CommandReplaced", "in place of the image's entrypoint", func(p *corev1.PodSpec) {
			p.Containers[0].Command = shell().Command
		}, SpecTimeout(startTimeout)),
		Entry("by a command of a lifecycle event", "CommandReplaced", "lifecycle.postStart.exec.command runs another command", func(p *corev1.PodSpec) {
			p.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: shell()}}
		}, SpecTimeout(startTimeout)),
		Entry("by an init container", "SecretInAnotherContainer", "could act as any user", func(p *corev1.PodSpec) {
			p.InitContainers = []corev1.Container{{Name: "init", Image: "any", Env: []corev1.EnvVar{fromKey("X", "cloudsigma-impersonation", "client-secret")}}}
		}, SpecTimeout(startTimeout)),
	)

	It("gets empty values for the keys of legacy credentials if it reads all keys of a Secret", func(ctx SpecContext) {
		w := kube(ctx)
		attacker := w.managed(ctx, w.namespace(ctx))
		held := deploymentOf(attacker.namespace, "ccm", func(p *corev1.PodSpec) {
			p.Containers[0].EnvFrom = []corev1.EnvFromSource{{
				Prefix: "CLOUDSIGMA_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "copied"}},
			}}
		})
		Expect(attacker.client.Create(ctx, held)).To(Succeed())
		Expect(podsOf(held).Containers[0].Env).To(ContainElements(corev1.EnvVar{Name: "CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS", Value: "false"},
			corev1.EnvVar{Name: "CLOUDSIGMA_USERNAME"}, corev1.EnvVar{Name: "CLOUDSIGMA_PASSWORD"}))
	}, SpecTimeout(startTimeout))
})
