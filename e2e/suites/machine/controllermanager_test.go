//go:build e2e

package machine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

const (
	// selectManagers selects the Deployments of controller managers.
	selectManagers = "selector: {matchLabels: {app: cloudsigma-ccm}}"

	identityWebhook = "controller-manager-identity.warrantgate.dev"
	// envOfManager is the path of the environment of newManager's container.
	envOfManager = "spec.template.spec.containers[0].env"
	// writesToken follows the flag or the variable that turns on the token for a CSI driver.
	writesToken = "makes the controller manager write a token of the cluster's user into the tenant cluster, " +
		"which controllerManager.allowCSIToken of warrantgate's configuration does not allow"
	// globalCredentials is the Secret with the one account for all clusters, which was used before impersonation.
	globalCredentials = "cloudsigma-credentials"
)

// A cloud controller manager that does not act as its cluster's user sees none of the cluster's servers.
var _ = Describe("the Deployment of a cloud controller manager", Ordered, func() {
	var (
		w       *world
		account cloudsigmatest.Client
		// earlier has the Deployments "ccm" and "legacy", which are older than the installation of warrantgate. The second has the global credentials.
		// The region of its cluster "elsewhere" is no region.
		earlier story
	)
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{
			configuration: "audit: {mode: Off}\ncontrollerManager: {" + selectManagers + "}\n",
			before: func(w *world) {
				account = w.cloud.AddClient("controller-managers")
				earlier = w.begin(ctx)
				earlier.putCredentials(ctx, account)
				Expect(w.client.Create(ctx, newManager(earlier.namespace, "ccm"))).To(Succeed())
				Expect(w.client.Create(ctx, newObject(clusterKind, earlier.namespace, "elsewhere",
					with("spec.region", "@127.0.0.1:1/#"), with("spec.userEmail", earlier.user.Email)))).To(Succeed())
				Expect(w.client.Create(ctx, newManager(earlier.namespace, "legacy", withEnv(
					fromKey("CLOUDSIGMA_USERNAME", globalCredentials, "username"), fromKey("CLOUDSIGMA_PASSWORD", globalCredentials, "password"))))).To(Succeed())
			},
		})
		s := w.beginManaged(ctx, account)
		Eventually(func() error { // the API server calls the webhook a moment after it is registered
			return w.client.Create(ctx, newManager(s.namespace, "canary", ofCluster("lost")), client.DryRunAll)
		}).Should(MatchError(ContainSubstring(identityWebhook)))
	}, NodeTimeout(setupTimeout))

	It("gets the identity of its cluster at its creation, by reference to the Secret", func(ctx SpecContext) {
		s := w.beginManaged(ctx, account)
		w.recorder.TakeWarnings()
		manager := newManager(s.namespace, "ccm")
		want := manager.DeepCopy()
		Expect(w.client.Create(ctx, manager)).To(Succeed())
		Expect(w.recorder.TakeWarnings()).To(BeEmpty())

		held := s.deployment(ctx, "ccm")
		Expect(held.Spec.Template.Spec.Containers[0].Env).To(Equal(identity(s.user.Email)))
		By("and no other change than the API server's own defaults")
		want.Namespace, want.Name = s.namespace, "plain"
		want.Labels = map[string]string{"app": "something-else"}
		want.Spec.Template.Spec.Containers[0].Env = identity(s.user.Email)
		Expect(w.client.Create(ctx, want)).To(Succeed())
		Expect(held.Spec).To(Equal(want.Spec))

		By("and nothing of the Secret's content anywhere in it")
		content, err := json.Marshal(held)
		Expect(err).NotTo(HaveOccurred())
		for _, secret := range []string{account.ID, account.Secret, w.cloud.OAuthURL()} {
			Expect(string(content)).NotTo(ContainSubstring(secret))
		}
		Expect(w.leaks(string(content))).To(BeEmpty())
		Expect(s.verdictEvents(ctx)).To(BeEmpty(), "a change at creation needs no Event")
	}, SpecTimeout(timeout))

	It("gets the default region of a cluster that names none, and never a text that is no region", func(ctx SpecContext) {
		s := w.beginManaged(ctx, account)
		Expect(w.client.Create(ctx, newObject(clusterKind, s.namespace, "near", with("spec.userEmail", s.user.Email)))).To(Succeed())
		Expect(w.client.Create(ctx, newManager(s.namespace, "ccm", ofCluster("near")))).To(Succeed())
		Expect(s.env(ctx, "ccm")).To(ContainElement(corev1.EnvVar{Name: "CLOUDSIGMA_REGION", Value: "zrh"}))

		err := w.client.Create(ctx, newManager(earlier.namespace, "elsewhere", ofCluster("elsewhere")))
		expectClusterDenial(err, identityWebhook, "RegionNotAllowed", "metadata.labels[cluster.x-k8s.io/cluster-name]")
		Expect(messageOf(err)).To(HavePrefix("Deployment \"elsewhere\" of namespace %q: the user or the region of its cluster is unknown: "+
			"CloudSigmaCluster \"elsewhere\": spec.region: \"@127.0.0.1:1/#\" is not a valid region", earlier.namespace))
	}, SpecTimeout(timeout))

	It("does not change if it is applied or put again", func(ctx SpecContext) {
		s := w.beginManaged(ctx, account)
		manifest := newManager(s.namespace, "ccm", withEnv(corev1.EnvVar{Name: "LOG_LEVEL", Value: "debug"}))
		apply := func() {
			GinkgoHelper()
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(manifest)
			Expect(err).NotTo(HaveOccurred())
			applied := &unstructured.Unstructured{Object: content}
			unstructured.RemoveNestedField(applied.Object, "metadata", "creationTimestamp")
			unstructured.RemoveNestedField(applied.Object, "status")
			Expect(w.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("gitops"))).To(Succeed())
		}
		want := append([]corev1.EnvVar{{Name: "LOG_LEVEL", Value: "debug"}}, identity(s.user.Email)...)
		apply()
		first := s.deployment(ctx, "ccm")
		Expect(first.Spec.Template.Spec.Containers[0].Env).To(Equal(want))
		unchanged := func() {
			GinkgoHelper()
			now := s.deployment(ctx, "ccm")
			Expect(now.Spec).To(Equal(first.Spec))
			Expect(now.Generation).To(Equal(first.Generation))
			Expect(now.ResourceVersion).To(Equal(first.ResourceVersion))
		}
		for range 3 {
			apply()
			unchanged()
		}

		By("nor by what was read from the API server")
		Expect(w.client.Update(ctx, s.deployment(ctx, "ccm"))).To(Succeed())
		unchanged()

		By("nor by a manifest that leaves the identity out, which is given again")
		Expect(w.client.Update(ctx, manifest.DeepCopy())).To(Succeed())
		again := s.deployment(ctx, "ccm")
		Expect(again.Spec).To(Equal(first.Spec))
		Expect(again.Generation).To(Equal(first.Generation), "the change would cause a rollout")
	}, SpecTimeout(timeout))

	It("that existed before gets the identity with the next change of its pods, and an Event", func(ctx SpecContext) {
		s := earlier
		w.recorder.TakeWarnings()
		Expect(s.env(ctx, "ccm")).To(BeEmpty())
		Expect(s.restart(ctx, "ccm")).To(Succeed())
		Expect(s.env(ctx, "ccm")).To(Equal(identity(s.user.Email)))
		Expect(w.recorder.TakeWarnings()).To(BeEmpty())
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(s.deployment(ctx, "ccm")).Should(HaveExactElements(And(
			HaveField("Type", corev1.EventTypeNormal), HaveField("Reason", "IdentityGiven"),
			HaveField("Message", fmt.Sprintf("Changed: Deployment \"ccm\" of namespace %q: container \"manager\" needs CLOUDSIGMA_IMPERSONATION_ENABLED, "+
				"CLOUDSIGMA_OAUTH_URL, CLOUDSIGMA_CLIENT_ID, CLOUDSIGMA_CLIENT_SECRET, CLOUDSIGMA_USER_EMAIL, CLOUDSIGMA_REGION "+
				"to act as user %q in region %q, as CloudSigmaCluster %q does", s.namespace, s.user.Email, region, clusterName)))))
	}, SpecTimeout(timeout))

	It("that existed before with the global credentials gets the identity with the write that removes them, and not with a restart", func(ctx SpecContext) {
		s := earlier
		expectClusterDenial(s.restart(ctx, "legacy"), identityWebhook, "GlobalCredentials", "spec.template.spec")
		Expect(s.client.Patch(ctx, s.deployment(ctx, "legacy"), client.RawPatch(types.StrategicMergePatchType, []byte( // as "kubectl set env" does
			`{"spec":{"template":{"spec":{"containers":[{"name":"manager","env":[
				{"name":"CLOUDSIGMA_USERNAME","$patch":"delete"},{"name":"CLOUDSIGMA_PASSWORD","$patch":"delete"}]}]}}}}`)))).To(Succeed())
		Expect(s.env(ctx, "legacy")).To(Equal(identity(s.user.Email)))
		Expect(s.restart(ctx, "legacy")).To(Succeed())
		Expect(s.env(ctx, "legacy")).To(Equal(identity(s.user.Email)))
	}, SpecTimeout(timeout))

	It("is admitted without an identity as its provider releases it, word for word, until it has anything of one", func(ctx SpecContext) {
		s := w.begin(ctx) // a namespace without the Secret
		w.recorder.TakeWarnings()
		Expect(w.client.Create(ctx, newManager(s.namespace, "ccm", asReleased, func(d *appsv1.Deployment) {
			delete(d.Labels, "cluster.x-k8s.io/cluster-name")
		}))).To(Succeed())
		Expect(w.recorder.TakeWarnings()).To(HaveExactElements(And(HavePrefix("IdentityMissing: "), HaveSuffix(
			"set the label to the name of its CloudSigmaCluster to give it the identity"))))
		Expect(s.restart(ctx, "ccm")).To(Succeed())
		Expect(s.env(ctx, "ccm")).To(BeEmpty())
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(s.deployment(ctx, "ccm")).Should(ContainElement(HaveField("Reason", "IdentityMissing")))
		err := s.client.Patch(ctx, s.deployment(ctx, "ccm"), client.RawPatch(types.StrategicMergePatchType, []byte(
			`{"spec":{"template":{"spec":{"containers":[{"name":"manager","envFrom":[{"secretRef":{"name":"anything"}}]}]}}}}`)))
		expectClusterDenial(err, identityWebhook, "ControllerManagerWithoutCluster", "metadata.labels[cluster.x-k8s.io/cluster-name]")

		By("its label gives it the identity")
		s.putCredentials(ctx, account)
		Expect(s.client.Patch(ctx, s.deployment(ctx, "ccm"), client.RawPatch(types.MergePatchType, []byte(
			`{"metadata":{"labels":{"cluster.x-k8s.io/cluster-name":"`+clusterName+`"}}}`)))).To(Succeed())
		Expect(s.env(ctx, "ccm")).To(Equal(identity(s.user.Email)))
	}, SpecTimeout(timeout))

	It("gets the client secret of the Secret instead of one in plain text, with a warning", func(ctx SpecContext) {
		s := w.beginManaged(ctx, account)
		// The end of this world searches for it in all output.
		literal := corev1.EnvVar{Name: "CLOUDSIGMA_CLIENT_SECRET", Value: account.Secret}
		const text = "CLOUDSIGMA_CLIENT_SECRET was sent as a plain value, which audit logs, the annotation of kubectl apply and the history of manifests may keep; " +
			"it has to come from the key client-secret of Secret \"cloudsigma-impersonation\" (valueFrom.secretKeyRef, not optional): " +
			"create a new client secret, and store it there"
		w.recorder.TakeWarnings()
		Expect(w.client.Create(ctx, newManager(s.namespace, "ccm", withEnv(literal)))).To(Succeed())
		Expect(w.recorder.TakeWarnings()).To(HaveExactElements(And(
			HavePrefix(fmt.Sprintf("ClientSecretByValue: Deployment \"ccm\" of namespace %q: ", s.namespace)), HaveSuffix(text))))
		want := identity(s.user.Email)
		Expect(s.env(ctx, "ccm")).To(Equal(append([]corev1.EnvVar{want[3]}, append(want[:3:3], want[4:]...)...)))
		content, err := json.Marshal(s.deployment(ctx, "ccm"))
		Expect(err).NotTo(HaveOccurred())
		Expect(w.leaks(string(content))).To(BeEmpty())

		By("on each such write")
		Expect(s.patchManager(ctx, withEnv(literal))).To(Succeed())
		Expect(w.recorder.TakeWarnings()).To(HaveExactElements(HaveSuffix(text)))
		Expect(s.env(ctx, "ccm")).To(ConsistOf(want))
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(s.deployment(ctx, "ccm")).Should(HaveExactElements(And(
			HaveField("Type", corev1.EventTypeWarning), HaveField("Reason", "ClientSecretByValue"),
			HaveField("Message", And(HavePrefix("Changed: "), HaveSuffix(text))))))
	}, SpecTimeout(timeout))

	// wrong is a Deployment that is denied, and the expected denial.
	type wrong struct {
		change      func(d *appsv1.Deployment)
		reason      string
		field, text string
	}
	DescribeTable("is denied, at its creation and later,", func(ctx SpecContext, wanted wrong) {
		s := w.beginManaged(ctx, account)
		text := strings.NewReplacer("{user}", s.user.Email, "{namespace}", s.namespace).Replace(wanted.text)
		expect := func(name string, err error) {
			GinkgoHelper()
			expectClusterDenial(err, identityWebhook, wanted.reason, wanted.field)
			Expect(messageOf(err)).To(Equal(fmt.Sprintf("Deployment %q of namespace %q: %s", name, s.namespace, text)))
		}
		expect("created", w.client.Create(ctx, newManager(s.namespace, "created", wanted.change)))
		Expect(apierrors.IsNotFound(w.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "created"}, &appsv1.Deployment{}))).To(BeTrue())

		for _, name := range []string{"ccm", "tried"} {
			Expect(w.client.Create(ctx, newManager(s.namespace, name))).To(Succeed())
		}
		before, tried := s.deployment(ctx, "ccm"), s.deployment(ctx, "tried")
		changed := tried.DeepCopy()
		wanted.change(changed)
		expect("tried", w.client.Patch(ctx, changed, client.MergeFrom(tried), client.DryRunAll))
		err := s.patchManager(ctx, wanted.change)
		expect("ccm", err)
		Expect(s.deployment(ctx, "ccm")).To(Equal(before))
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(before).Should(HaveExactElements(And(
			HaveField("Type", corev1.EventTypeWarning), HaveField("Reason", wanted.reason), HaveField("Count", BeEquivalentTo(1)),
			HaveField("Message", "Denied: "+messageOf(err)))))
		// Events are written in order: if there is one about the second attempt, none about the first will follow.
		Expect(s.eventsOn(ctx, tried)).To(BeEmpty())
		Expect(s.describe(newObject(appsv1.SchemeGroupVersion.WithKind("Deployment"), s.namespace, "ccm"))).To(MatchRegexp(`(?m)^ +Warning +` + wanted.reason + ` .*` + regexp.QuoteMeta("Denied: "+messageOf(err)) + `$`))
	},
		Entry("if it acts as another user", wrong{
			withEnv(corev1.EnvVar{Name: "CLOUDSIGMA_USER_EMAIL", Value: "somebody-else@example.com"}), "UserEmailMismatch", envOfManager + "[0]",
			`CLOUDSIGMA_USER_EMAIL is "somebody-else@example.com"; it has to be "{user}", the user of CloudSigmaCluster "pool": ` +
				"remove the variable, and warrantgate sets it, or correct the cluster",
		}, SpecTimeout(timeout)),
		Entry("if it has the global Secret among its files", wrong{func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "mixed", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{
					{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: globalCredentials}}},
				},
			}}}}
		}, "GlobalCredentials", "spec.template.spec", `it has the global credentials (volume "mixed" with Secret "cloudsigma-credentials"), ` +
			"but impersonation is on, and with them the cloud does not show it the servers of the cluster's user; remove them"}, SpecTimeout(timeout)),
		Entry("if it writes a token of the user into the tenant cluster", wrong{func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Args = []string{"--leader-elect", "-enable-csi-token"}
		}, "CSITokenEnabled", "spec.template.spec.containers[0].args[1]", "the flag --enable-csi-token is set; it " + writesToken + ": remove the flag"},
			SpecTimeout(timeout)),
		Entry("if its cluster does not exist", wrong{func(d *appsv1.Deployment) { ofCluster("lost")(d) }, "ClusterMissing",
			"metadata.labels[cluster.x-k8s.io/cluster-name]",
			`the user or the region of its cluster is unknown: there is no CloudSigmaCluster "lost" in namespace "{namespace}"`,
		}, SpecTimeout(timeout)),
	)

	It("is denied if another webhook removes its identity again", func(ctx SpecContext) {
		s := w.beginManaged(ctx, account)
		const other = "somebody-else@example.com"
		s.registerLater(ctx, fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/env/4/value","value":%q}]`, other))
		create := func() error {
			return w.client.Create(ctx, newManager(s.namespace, "ccm", func(d *appsv1.Deployment) { d.Labels["later"] = s.namespace }), client.DryRunAll)
		}
		Eventually(create).Should(HaveOccurred()) // once the API server calls the other one
		err := create()
		expectClusterDenial(err, "controller-manager-integrity.warrantgate.dev", "UserEmailMismatch", envOfManager+"[4]")
		Expect(messageOf(err)).To(Equal(fmt.Sprintf("Deployment \"ccm\" of namespace %q: CLOUDSIGMA_USER_EMAIL is %q; it has to be %q, "+
			"the user of CloudSigmaCluster \"pool\": remove the variable, and warrantgate sets it, or correct the cluster",
			s.namespace, other, s.user.Email)))
	}, SpecTimeout(timeout))

	It("may be moved to another cluster only with its whole identity", func(ctx SpecContext) {
		s := w.beginManaged(ctx, account)
		Expect(w.client.Create(ctx, newCluster(s.namespace, "second", "second-"+s.user.Email))).To(Succeed())
		Expect(w.client.Create(ctx, newManager(s.namespace, "ccm"))).To(Succeed())
		err := s.patchManager(ctx, ofCluster("second"))
		expectClusterDenial(err, identityWebhook, "UserEmailMismatch", envOfManager+"[4]")
		Expect(s.patchManager(ctx, func(d *appsv1.Deployment) {
			ofCluster("second")(d)
			d.Spec.Template.Spec.Containers[0].Env = nil
		})).To(Succeed())
		Expect(s.env(ctx, "ccm")).To(Equal(identity("second-" + s.user.Email)))
	}, SpecTimeout(timeout))

	It("is not created without its identity while warrantgate is down, and running pods continue", func(ctx SpecContext) {
		s := w.beginManaged(ctx, account)
		Expect(w.client.Create(ctx, newManager(s.namespace, "ccm"))).To(Succeed())
		Expect(w.gate.Stop()).To(Succeed())
		err := w.client.Create(ctx, newManager(s.namespace, "late"))
		Expect(apierrors.IsInternalError(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("failed calling webhook %q", identityWebhook)))
		Expect(s.patchManager(ctx, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](2) })).To(Succeed())
		Expect(w.gate.Start(ctx)).To(Succeed())
		Eventually(w.client.Create).WithArguments(ctx, newManager(s.namespace, "late")).Should(Succeed())
		Expect(s.env(ctx, "late")).To(Equal(identity(s.user.Email)))
	}, SpecTimeout(timeout))
})

// asReleased makes a controller manager that of the provider's manifest (ccm/config/deployment.yaml of CAPCS e03b577), with the labels that it has.
func asReleased(d *appsv1.Deployment) {
	d.Labels["control-plane"] = "cloudsigma-ccm"
	c := &d.Spec.Template.Spec.Containers[0]
	c.Command = []string{"/ccm"}
	c.Args = []string{"--leader-elect", "--metrics-bind-address=:8080", "--health-probe-bind-address=:8081"}
	c.Ports = []corev1.ContainerPort{{Name: "health", ContainerPort: 8081}}
	c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("health")}}}
	c.SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false)}
	d.Spec.Template.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true)}
}

// onlyApp are the labels of a controller manager without a cluster.
func onlyApp() map[string]string { return map[string]string{"app": "cloudsigma-ccm"} }

// newManager returns the Deployment of the controller manager of the cluster "pool", without the identity.
func newManager(namespace, name string, modify ...func(*appsv1.Deployment)) *appsv1.Deployment {
	labels := map[string]string{"app": "cloudsigma-ccm", "cluster.x-k8s.io/cluster-name": clusterName}
	manager := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: onlyApp()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: onlyApp()},
				Spec: corev1.PodSpec{Containers: []corev1.Container{
					{Name: "manager", Image: "cloudsigma-cloud-controller-manager:v1", Args: []string{"--cloud-provider=cloudsigma"}},
				}},
			},
		},
	}
	for _, change := range modify {
		change(manager)
	}
	return manager
}

// ofCluster sets the cluster of the Deployment.
func ofCluster(name string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Labels = map[string]string{"app": "cloudsigma-ccm", "cluster.x-k8s.io/cluster-name": name}
	}
}

// withEnv gives its container that environment, and nothing else.
func withEnv(env ...corev1.EnvVar) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env = env }
}

func fromKey(name, secret, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key,
	}}}
}

// identity is the whole required environment of a controller manager.
func identity(email string) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "CLOUDSIGMA_IMPERSONATION_ENABLED", Value: "true"},
		fromKey("CLOUDSIGMA_OAUTH_URL", "cloudsigma-impersonation", "oauth-url"),
		fromKey("CLOUDSIGMA_CLIENT_ID", "cloudsigma-impersonation", "client-id"),
		fromKey("CLOUDSIGMA_CLIENT_SECRET", "cloudsigma-impersonation", "client-secret"),
		{Name: "CLOUDSIGMA_USER_EMAIL", Value: email},
		{Name: "CLOUDSIGMA_REGION", Value: region},
	}
}

// beginManaged begins a story whose namespace has the Secret with the client of a controller manager.
func (w *world) beginManaged(ctx SpecContext, account cloudsigmatest.Client) story {
	GinkgoHelper()
	s := w.begin(ctx)
	s.putCredentials(ctx, account)
	return s
}

// putCredentials writes the Secret with the client of a controller manager into the story's namespace.
func (s story) putCredentials(ctx context.Context, account cloudsigmatest.Client) {
	GinkgoHelper()
	Expect(s.client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "cloudsigma-impersonation"},
		StringData: map[string]string{"oauth-url": s.cloud.OAuthURL(), "client-id": account.ID, "client-secret": account.Secret},
	})).To(Succeed())
}

// deployment reads the stored object.
func (s story) deployment(ctx context.Context, name string) *appsv1.Deployment {
	GinkgoHelper()
	held := &appsv1.Deployment{}
	Expect(s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, held)).To(Succeed())
	return held
}

// env is the environment of the first container of the stored object.
func (s story) env(ctx context.Context, name string) []corev1.EnvVar {
	GinkgoHelper()
	return s.deployment(ctx, name).Spec.Template.Spec.Containers[0].Env
}

// patchManager changes the Deployment "ccm".
func (s story) patchManager(ctx context.Context, change func(*appsv1.Deployment)) error {
	GinkgoHelper()
	held := s.deployment(ctx, "ccm")
	changed := held.DeepCopy()
	change(changed)
	return s.client.Patch(ctx, changed, client.MergeFrom(held))
}

// restart does what "kubectl rollout restart" does.
func (s story) restart(ctx context.Context, name string) error {
	return s.client.Patch(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}, client.RawPatch(
		types.StrategicMergePatchType, []byte(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`)))
}

// registerLater registers another webhook, which the API server calls after warrantgate, for Deployments of the story with the label
// "later". It responds with a patch.
func (s story) registerLater(ctx context.Context, patch string) {
	GinkgoHelper()
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "zz-later"}, // the API server calls webhooks in the order of their names
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "later.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			ClientConfig: suite.Webhook(func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
				return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(patch), PatchType: ptr.To(admissionv1.PatchTypeJSONPatch)}
			}),
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"later": s.namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{appsv1.GroupName}, APIVersions: []string{"v1"}, Resources: []string{"deployments"},
				},
			}},
		}},
	}
	Expect(s.client.Create(ctx, configuration)).To(Succeed())
	DeferCleanup(s.cleanUp, client.Object(configuration))
}

// managerAdmissions is the number of decisions of both gates on Deployments, for further labels of the metric.
func (w *world) managerAdmissions(ctx context.Context, labels map[string]string) float64 {
	GinkgoHelper()
	sum := 0.0
	for _, gate := range []string{"controller-manager-identity", "controller-manager-integrity"} {
		of := map[string]string{"gate": gate}
		maps.Copy(of, labels)
		sum += w.admissions(ctx, of)
	}
	return sum
}
