//go:build e2e

package machine_test

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// Anybody can have a machine explained, with what they may read.
var _ = Describe("warrantgate explain machine", sharing, Ordered, func() {
	const earlier = "earlier-than-the-incident@example.com"
	var (
		s      story
		worker *unstructured.Unstructured
		// stale was the server of the worker, and is another user's now. spare is the user's own.
		stale, spare cloudsigmatest.Server
		// asServe are the arguments with which the command has the permissions and the credentials of serve.
		asServe []string
	)
	// explain runs the command for a machine of the story, which must print no secret and nothing of the other user.
	explain := func(ctx context.Context, name string, args ...string) suite.Output {
		GinkgoHelper()
		printed := suite.Warrantgate(ctx, slices.Concat([]string{"explain", "machine", name}, args)...)
		for _, secret := range append(s.cloud.Secrets(), earlier) {
			Expect(strings.Contains(printed.Stdout+printed.Stderr, secret)).To(BeFalse(), "it printed a secret, or another user")
		}
		return printed
	}
	BeforeAll(func(ctx SpecContext) {
		s = begin(ctx)
		user, err := s.api.User(kubetest.WarrantgateUser)
		Expect(err).NotTo(HaveOccurred())
		kubeconfig, err := s.api.KubeconfigFile("explainer", user)
		Expect(err).NotTo(HaveOccurred())
		asServe = []string{
			"--kubeconfig=" + kubeconfig, "--config=" + s.gate.ConfigFile(),
			"--impersonation-enabled", "--impersonation-secret=" + secretNamespace + "/" + secretName,
		}
		worker, stale = s.createMachine(ctx, "worker"), s.cloud.AddServer(region, s.user, "worker")
		Expect(s.setInstanceID(ctx, worker, stale.UUID)).To(Succeed())
	}, NodeTimeout(setupTimeout))

	It("finds nothing wrong with a machine that names the user's server, and exits with 0", func(ctx SpecContext) {
		got := explain(ctx, s.namespace+"/worker", asServe...)
		Expect(got.Status).To(Equal(0), "%s%s", got.Stdout, got.Stderr)
		Expect(got.Stdout).To(And(
			HavePrefix("Machine:  CloudSigmaMachine worker of namespace "+s.namespace+"\nCluster:  pool\n"),
			ContainSubstring("\nAPI:      "+strings.ReplaceAll(s.cloud.APITemplate(), "{region}", region)+"\n"),
			MatchRegexp(`\n  the cloud's answer:  it belongs to the account \(200\), asked as `+s.user.UUID+`, request id \S+\n`),
			ContainSubstring("\n  a write of it now:   allowed\n"),
			HaveSuffix("\n\nNothing is wrong with it.\n"),
		))
	}, SpecTimeout(timeout))

	When("the server is another user's, and the user has another one of its name", Ordered, func() {
		BeforeAll(func() {
			stale = s.cloud.AddServer(region, s.cloud.AddUser(earlier), "worker", cloudsigmatest.WithUUID(stale.UUID))
			spare = s.cloud.AddServer(region, s.user, "worker")
		})

		It("shows both, what the cloud answers, and what to do, exits with 1, and changes nothing", func(ctx SpecContext) {
			versions, servers := s.versions(ctx, machineKind, clusterKind), s.cloud.Servers()
			got := explain(ctx, "worker", append(asServe, "--namespace="+s.namespace)...)
			Expect(got.Status).To(Equal(1), "%s%s", got.Stdout, got.Stderr)
			Expect(got.Stderr).To(BeEmpty())
			Expect(got.Stdout).To(And(
				ContainSubstring("\nAccount:  user \""+s.user.Email+"\" in region \""+region+"\"\n"),
				ContainSubstring("\nInstance "+stale.UUID+" in status.instanceID:\n"),
				MatchRegexp(`\n  the cloud's answer:  it exists, and does not belong to the account \(403 permission\), asked as `+s.user.UUID+`, request id \S+\n`),
				ContainSubstring("\n  also named by:       no machine\n  a write of it now:   denied (InstanceNotOwned)\n"),
				MatchRegexp(`\nOther instances of the account for this machine:\n  `+spare.UUID+` +worker +named by no machine\n`),
				ContainSubstring("\n\nSomething is wrong with it:\n\n  InstanceNotOwned\n"),
				ContainSubstring("the user's own instance for this machine is "+spare.UUID+"; clear the field"),
			))
			Expect(s.versions(ctx, machineKind, clusterKind)).To(Equal(versions))
			Expect(s.cloud.Servers()).To(Equal(servers))
			Expect(s.eventsOn(ctx, worker)).To(BeEmpty())
		}, SpecTimeout(timeout))

		It("sends no request to the cloud without credentials, says so, and exits with 2", func(ctx SpecContext) {
			before := s.lookups()
			got := explain(ctx, s.namespace+"/worker", asServe[:2]...)
			Expect(got.Status).To(Equal(2), "%s%s", got.Stdout, got.Stderr)
			Expect(got.Stdout).To(And(
				ContainSubstring("\n  the cloud's answer:  it was not asked\n"),
				ContainSubstring("\n\nWhether something is wrong with it could not be determined:\n"),
				ContainSubstring("because no credentials for it were given\n    What to do: give those of serve: --impersonation-enabled "),
			))
			Expect(s.lookups()).To(Equal(before))
		}, SpecTimeout(timeout))

		It("names the permissions that its user lacks, shows the rest, and exits with 2", func(ctx SpecContext) {
			reader := s.newUser(ctx)
			s.grant(ctx, reader, permission{namespace: s.namespace, rule: rule(infrastructure.Group, "cloudsigmamachines", "get", "list")})
			kubeconfig, err := s.api.KubeconfigFile("reader", reader.config)
			Expect(err).NotTo(HaveOccurred())
			args := append([]string{"--kubeconfig=" + kubeconfig}, asServe[1:]...)
			got := explain(ctx, s.namespace+"/worker", args...)
			Expect(got.Status).To(Equal(2), "%s%s", got.Stdout, got.Stderr)
			Expect(got.Stdout).To(And(
				ContainSubstring("\nAccount:  user \""+s.user.Email+"\""),
				ContainSubstring(`User "`+reader.username+`" cannot list resource "cloudsigmamachines" in API group "infrastructure.cluster.x-k8s.io" at the cluster scope`),
				ContainSubstring(`User "`+reader.username+`" cannot get resource "secrets" in API group "" in the namespace "`+secretNamespace+`"`),
				ContainSubstring("What to do: have this permission granted"),
			))
		}, SpecTimeout(timeout))

		It("is followed until the machine names the user's own server", func(ctx SpecContext) {
			before, followed := s.lookups(), make(chan suite.Output, 1)
			go func() {
				defer GinkgoRecover()
				followed <- explain(ctx, s.namespace+"/worker", append(asServe, "--watch")...)
			}()
			Eventually(ctx, s.lookups).ShouldNot(Equal(before))
			Expect(s.setInstanceID(ctx, worker, spare.UUID)).To(Succeed())
			got := <-followed
			Expect(got.Status).To(BeZero(), "%s%s", got.Stdout, got.Stderr)
			Expect(got.Stdout).To(MatchRegexp(`(?s)\n  InstanceNotOwned\n.*\n---\nMachine: .*Nothing is wrong with it\.\n$`))
		}, SpecTimeout(timeout))
	})

	It("says that there is no such machine, and exits with 2", func(ctx SpecContext) {
		got := explain(ctx, s.namespace+"/nobody", asServe...)
		Expect(got.Status).To(Equal(2))
		Expect(got.Stdout).To(BeEmpty())
		Expect(got.Stderr).To(HavePrefix(`warrantgate: there is no machine "nobody" in namespace "` + s.namespace + `" (kinds: CloudSigmaMachine)`))
	}, SpecTimeout(timeout))
})
