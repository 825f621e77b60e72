//go:build e2e

package chart_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kcptest"
)

// Next to a kcp, the cluster that warrantgate runs in holds its certificate, and root of kcp has to know its authority.
var _ = Describe("A certificate of warrantgate's own, next to a kcp", Ordered, func() {
	var w *world
	var kcp *kcptest.Server
	BeforeAll(func(ctx SpecContext) {
		var err error
		kcp, err = kcptest.Start(ctx, kcptest.Options{Binary: binary(asset.KCP)})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(kcp.Stop)
		w = startWorld(ctx)
		w.putKubeconfig(ctx, kcp)
		w.values["kubernetes"] = map[string]any{"enabled": false, "server": w.values["kubernetes"].(map[string]any)["server"]} //nolint:errcheck // this suite has put it there
		w.values["kcp"] = map[string]any{"enabled": true, "kubeconfigSecret": "kcp", "url": w.url()}
		w.values["certificates"] = map[string]any{"extraDNSNames": []string{"localhost"}}
		w.values["config"] = map[string]any{"repair": map[string]any{"mode": "Off"}} // which has rights of its own in root
		w.install(ctx)
	}, NodeTimeout(5*time.Minute))

	DescribeTable("takes each of the service account's rights", func(ctx SpecContext, resource, verb string) {
		w.emptyCertificate(ctx)
		Expect(client.IgnoreNotFound(w.admin.Delete(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: certificateName},
		}))).To(Succeed())
		w.without(ctx, certificateName, resource, verb)
		w.pod.start(ctx, w.admin)
		Eventually(w.pod.logged).Should(MatchRegexp(`cannot (get|create|update) resource \\"` + resource + `\\"`))
		Eventually(w.pod.probe).WithArguments(ctx, "/healthz").Should(Equal(http.StatusOK))
		Expect(w.pod.probe(ctx, "/readyz")).To(Equal(http.StatusInternalServerError))
	},
		Entry("to the Secret", "secrets", "update", SpecTimeout(timeout)),
		Entry("to make the Lease", "leases", "create", SpecTimeout(timeout)),
		Entry("to the Lease", "leases", "update", SpecTimeout(timeout)),
	)

	It("takes no others", func(ctx SpecContext) {
		Expect(w.untried(ctx)).To(BeEmpty())
	}, SpecTimeout(timeout))

	It("is trusted by kcp, in which a workspace of a service account becomes Ready", func(ctx SpecContext) {
		w.pod.startReady(ctx, w.admin) // which does not wait for kcp
		Eventually(w.pod.logged).Should(ContainSubstring(`run \"warrantgate install kcp --self-managed-certificate\"`))
		w.register(ctx, kcp)
		root, err := kcptest.NewClient(kcp.Admin("root"))
		Expect(err).NotTo(HaveOccurred())
		Eventually(bundlesOf).WithArguments(ctx, root).Should(HaveEach(WithTransform(parse, HaveLen(1))))

		_, err = kcptest.CreateWorkspace(ctx, kcp.Admin("root"), "provider")
		Expect(err).NotTo(HaveOccurred())
		_, err = kcptest.WaitReady(ctx, kcp.Admin("root"), "provider")
		Expect(err).NotTo(HaveOccurred())
		provider := kcp.Admin("root:provider")
		bot, err := kcptest.ServiceAccount(ctx, provider, "default", "bot")
		Expect(err).NotTo(HaveOccurred())
		Expect(kcptest.Grant(ctx, provider, kcptest.ServiceAccountSubject("default", "bot"), kcptest.CreatorRules()...)).To(Succeed())
		_, err = kcptest.CreateWorkspace(ctx, bot, "team-a")
		Expect(err).NotTo(HaveOccurred())
		_, err = kcptest.WaitReady(ctx, provider, "team-a")
		Expect(err).NotTo(HaveOccurred())

		By("changing the authority, and registering once more meanwhile")
		before := w.certificate(ctx).Data["ca.crt"]
		w.emptyCertificate(ctx)
		Eventually(func() []byte { return w.certificate(ctx).Data[corev1.TLSCertKey] }).WithTimeout(time.Minute).ShouldNot(BeEmpty())
		w.register(ctx, kcp)
		Expect(bundlesOf(ctx, root)).To(HaveEach(And(ContainSubstring(string(before)), WithTransform(parse, HaveLen(2)))))
		_, err = kcptest.CreateWorkspace(ctx, bot, "team-b")
		Expect(err).NotTo(HaveOccurred())
		_, err = kcptest.WaitReady(ctx, provider, "team-b")
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(4*time.Minute))

	// tried are the rules in root that were taken out.
	var tried []string
	DescribeTable("takes each of the rights that install gives in root", func(ctx SpecContext, resource string) {
		w.register(ctx, kcp)
		root, err := kcptest.NewClient(kcp.Admin("root"))
		Expect(err).NotTo(HaveOccurred())
		taken, err := kcptest.TakeRule(ctx, kcp.Admin("root"), kcp.Admin("root"), "warrantgate-certificates", resource, "get")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(taken.GiveBack)
		tried = append(tried, taken.Name)
		forgetAuthorities(ctx, root)

		w.pod.startReady(ctx, w.admin)
		Eventually(w.pod.logged).Should(And(ContainSubstring(`cannot get resource \"`+resource+`\"`), ContainSubstring(`run \"warrantgate install kcp --self-managed-certificate\"`)))
		Expect(bundlesOf(ctx, root)).To(ContainElement(BeEmpty()), "kcp trusts it all the same")
		Expect(taken.GiveBack(ctx)).To(Succeed())
		Eventually(bundlesOf).WithArguments(ctx, root).ShouldNot(ContainElement(BeEmpty()))
	},
		Entry("to the mutating webhooks", "mutatingwebhookconfigurations", SpecTimeout(2*time.Minute)),
		Entry("to the validating webhooks", "validatingwebhookconfigurations", SpecTimeout(2*time.Minute)),
	)

	It("takes no others there", func(ctx SpecContext) {
		all, _, err := kcptest.RulesPlanned(w.register(ctx, kcp, "--dry-run"))
		Expect(err).NotTo(HaveOccurred())
		Expect(tried).To(ConsistOf(all))
	}, SpecTimeout(timeout))
})

// forgetAuthorities has kcp trust nobody.
func forgetAuthorities(ctx context.Context, root client.Client) {
	GinkgoHelper()
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	Expect(root.Get(ctx, client.ObjectKey{Name: release}, mutating)).To(Succeed())
	Expect(root.Get(ctx, client.ObjectKey{Name: release}, validating)).To(Succeed())
	for i := range mutating.Webhooks {
		mutating.Webhooks[i].ClientConfig.CABundle = nil
	}
	for i := range validating.Webhooks {
		validating.Webhooks[i].ClientConfig.CABundle = nil
	}
	Expect(root.Update(ctx, mutating)).To(Succeed())
	Expect(root.Update(ctx, validating)).To(Succeed())
}

// url is where kcp reaches the pod.
func (w *world) url() string { return "https://localhost:" + strconv.Itoa(w.port) }

// putKubeconfig makes the Secret by which warrantgate is a user of kcp without any rights.
func (w *world) putKubeconfig(ctx context.Context, kcp *kcptest.Server) {
	GinkgoHelper()
	path, err := kcp.KubeconfigFile("warrantgate", kcp.Person("root", kcptest.WarrantgateUser))
	Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	Expect(w.admin.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kcp"}, Data: map[string][]byte{"kubeconfig": kubeconfig},
	})).To(Succeed())
}

// register runs what an administrator would, without the rights on shards that Events and the repair take, and returns what it
// prints. Further arguments may be given.
func (w *world) register(ctx context.Context, kcp *kcptest.Server, args ...string) string {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, w.pod.binary, append([]string{
		"install", "kcp", "--kubeconfig=" + kcp.AdminKubeconfig(), "--context=root", "--url=" + w.url(), "--self-managed-certificate",
		"--webhook-path-file=" + filepath.Join(w.pod.dir, "webhook-path", "tokens"),
		"--user=" + kcptest.WarrantgateUser, "--config=" + filepath.Join(w.pod.dir, "config", "config.yaml"),
	}, args...)...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	return string(out)
}
