//go:build e2e

package openstack_test

import (
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/fakes/openstacktest"
)

// First claims are admitted in an outage. A tenant chooses the interface of Nova in its clouds.yaml, and must not cause an outage with it.
var _ = Describe("With the defaults, the first claim of a machine", Ordered, ContinueOnFailure, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, "audit: {interval: 24h}\nmachine: {mode: Enforce}\n")
	}, NodeTimeout(setupTimeout))

	It("is denied for an interface that Nova does not have, and does not block the owner if it is stored nevertheless", func(ctx SpecContext) {
		eve, alice := w.begin(ctx, member, loadBalancer), w.beginCluster(ctx)
		w.impatient(ctx)
		file := cloudsYAML(eve.password(eve.user).with("auth_url", w.front.Endpoint()))
		Expect(eve.client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: eve.namespace, Name: "admin"},
			StringData: map[string]string{"clouds.yaml": strings.Replace(file, "region_name:", "endpoint_type: admin\n    region_name:", 1)},
		})).To(Succeed())
		Expect(eve.createCluster(ctx, clusterName, actsWith("admin"))).To(Succeed())
		squatter, machine, server := eve.machine(ctx, "squatter"), alice.machine(ctx, "worker"), alice.server(ctx, "worker").ID
		expectDenial(eve.set(ctx, squatter, instanceIDPath, server), "IdentityMalformed", instanceIDPath,
			"has no admin endpoint of Nova; set endpoint_type in clouds.yaml to public")

		Expect(w.gate.Stop()).To(Succeed())
		Expect(eve.set(ctx, squatter, instanceIDPath, server)).To(Succeed())
		Expect(w.gate.Start(ctx)).To(Succeed())

		By("unless Nova is away: then nobody knows whose it is")
		failure := w.novaFront.Fail(openstacktest.Status(http.StatusInternalServerError), 0)
		DeferCleanup(failure.Release)
		Eventually(func() string { return reasonOf(alice.set(ctx, machine, instanceIDPath, server)) }).WithContext(ctx).Should(Equal("InstanceIDConflict"))
		failure.Release()
		Eventually(func() error { return alice.set(ctx, machine, instanceIDPath, server) }).WithContext(ctx).Should(Succeed())

		By("another cluster in the same project is a conflict")
		twin := alice
		twin.namespace = w.namespace(ctx)
		twin.writeSecret(ctx, credentials, twin.password(twin.user))
		Expect(twin.createCluster(ctx, clusterName, actsWith(credentials))).To(Succeed())
		second := twin.machine(ctx, "worker")
		Eventually(func() string { // the holder of the server is known from a watch, a moment late
			return reasonOf(twin.set(ctx, second, instanceIDPath, server, client.DryRunAll))
		}).WithContext(ctx).Should(Equal("InstanceIDConflict"))
		expectDenial(twin.set(ctx, second, instanceIDPath, server), "InstanceIDConflict", instanceIDPath, "a machine of another namespace")
	}, SpecTimeout(2*timeout))
})
