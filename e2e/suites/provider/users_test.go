//go:build e2e

package provider_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// everything is the permission of the owner of a workspace in it.
var everything = rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}

// clusterOf returns the logical cluster of a config.
func clusterOf(ctx context.Context, config *rest.Config) string {
	GinkgoHelper()
	lc, err := kcptest.GetLogicalCluster(ctx, config)
	Expect(err).NotTo(HaveOccurred())
	return lc.Annotations["kcp.io/cluster"]
}

// creates creates a CloudSigmaCluster that names a user.
func creates(ctx context.Context, config *rest.Config, name, email string) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	return c.Create(ctx, object("CloudSigmaCluster", name, name, map[string]any{"region": incident.Region, "userEmail": email}))
}

// printed returns the commands at the end of a denial.
func printed(err error) string {
	GinkgoHelper()
	Expect(apierrors.HasStatusCause(err, "ImpersonationNotAllowed")).To(BeTrue(), "%v", err)
	_, commands, found := strings.Cut(err.Error(), "or have it granted: ")
	Expect(found).To(BeTrue(), "%v", err)
	return commands
}

// RBAC of the provider's workspace authorizes the user of a cluster. In its own workspace, every tenant is cluster-admin.
var _ = Describe("the permission to name a user in a cluster", Ordered, ContinueOnFailure, func() {
	// The owner of a consumer's workspace, and a service account there.
	var (
		config, owner, bot *rest.Config
		botUser            string
	)
	BeforeAll(func(ctx SpecContext) {
		config = consumer(ctx, incident.User.Email)
		path := fmt.Sprintf("root:consumer-%d", consumers)
		username := fmt.Sprintf("owner-%d", consumers)
		owner = kcp.User(path, username)
		Expect(kcptest.Grant(ctx, config, kcptest.User(username), kcptest.AccessRule(), everything)).To(Succeed())
		var err error
		bot, err = kcptest.ServiceAccount(ctx, config, "default", "bot")
		Expect(err).NotTo(HaveOccurred())
		Expect(kcptest.Grant(ctx, config, kcptest.ServiceAccountSubject("default", "bot"), kcptest.AccessRule(), everything)).To(Succeed())
		botUser = "system:kcp:serviceaccount:" + clusterOf(ctx, config) + ":default:bot"
	}, NodeTimeout(specTimeout))

	It("comes from the provider: a denial contains the commands for its administrator", func(ctx SpecContext) {
		for i, who := range []struct {
			config               *rest.Config
			username, knownThere string
		}{
			{owner, fmt.Sprintf("owner-%d", consumers), fmt.Sprintf("owner-%d", consumers)},
			{bot, "system:serviceaccount:default:bot", botUser},
		} {
			config, name := who.config, fmt.Sprintf("printed-%d", i)
			err := creates(ctx, config, name, incident.User.Email)
			Expect(err).To(MatchError(ContainSubstring("user %q may not impersonate %q in logical cluster %q, the provider's workspace;",
				who.username, incident.User.Email, clusterOf(ctx, provider))))
			Expect(printed(err)).To(HaveSuffix(" --clusterrole=system:kcp:workspace:access --user=" + who.knownThere))
			runInKCP(ctx, printed(err))
			Eventually(func() error { return creates(ctx, config, name, incident.User.Email) }).Should(Succeed())

			By("the granted permission is for this name only")
			Expect(printed(creates(ctx, config, name+"-other", incident.Other.Email))).To(HavePrefix("kubectl ws :" + clusterOf(ctx, provider) + "; "))
		}
	}, SpecTimeout(specTimeout))

	It("can be granted to a whole workspace, by the group of its scope", func(ctx SpecContext) {
		bob := rest.CopyConfig(owner)
		bob.Impersonate = rest.ImpersonationConfig{UserName: fmt.Sprintf("bob-%d", consumers)}
		Expect(kcptest.Grant(ctx, config, kcptest.User(bob.Impersonate.UserName), kcptest.AccessRule(), everything)).To(Succeed())
		Expect(printed(creates(ctx, bob, "scoped", incident.User.Email))).To(ContainSubstring("an impersonated one always is"))
		grantInProvider(ctx, kcptest.Group("system:cluster:"+clusterOf(ctx, config)), incident.User.Email)
		Eventually(func() error { return creates(ctx, bob, "scoped", incident.User.Email) }).Should(Succeed())
	}, SpecTimeout(specTimeout))

	It("is checked in the workspace of the provider whose webhook configuration calls the gate", func(ctx SpecContext) {
		// With a dry run, it need not be a provider's.
		kubeconfig, err := kcp.KubeconfigFile("second-provider-admin", config)
		Expect(err).NotTo(HaveOccurred())
		output, err := gate.Run(ctx, "install", "provider", "--kubeconfig="+kubeconfig, "--url="+gate.URL(), "--ca-file="+gate.CAFile(),
			"--config="+gate.ConfigFile(), "--dry-run")
		Expect(err).NotTo(HaveOccurred(), output)
		Expect(output).To(ContainSubstring("/kcp/" + clusterOf(ctx, config) + "/cluster/impersonation"))
		Expect(output).NotTo(ContainSubstring(clusterOf(ctx, provider)))
	}, SpecTimeout(specTimeout))
})

// grantInProvider allows a subject to impersonate a user of the cloud.
func grantInProvider(ctx context.Context, subject rbacv1.Subject, email string) {
	GinkgoHelper()
	may := kcptest.Rule("", []string{"users"}, []string{"impersonate"})
	may.ResourceNames = []string{email}
	Expect(kcptest.Grant(ctx, provider, subject, kcptest.AccessRule(), may)).To(Succeed())
}

// The commands in denials.
var (
	toWorkspace = regexp.MustCompile(`^kubectl ws :([a-z0-9]+)$`)
	newRole     = regexp.MustCompile(`^kubectl create clusterrole (\S+) --verb=(\S+) --resource=(\S+) --resource-name=(\S+)$`)
	newBinding  = regexp.MustCompile(`^kubectl create clusterrolebinding (\S+) --clusterrole=(\S+) --user=(\S+)$`)
)

// runInKCP does the same as the commands, as an administrator of kcp. There is no kubectl with the plugin of kcp here.
func runInKCP(ctx context.Context, commands string) {
	GinkgoHelper()
	var c client.Client
	for command := range strings.SplitSeq(commands, "; ") {
		var object client.Object
		if match := toWorkspace.FindStringSubmatch(command); match != nil {
			c = suite.KCPClient(kcp.Admin(match[1]))
			continue
		} else if match := newRole.FindStringSubmatch(command); match != nil {
			object = &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: match[1]}, Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{""}, Verbs: []string{match[2]}, Resources: []string{match[3]}, ResourceNames: []string{match[4]},
			}}}
		} else if match := newBinding.FindStringSubmatch(command); match != nil {
			object = &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: match[1]},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: match[2]},
				Subjects:   []rbacv1.Subject{kcptest.User(match[3])},
			}
		}
		Expect(object).NotTo(BeNil(), "unknown command: %s", command)
		Expect(c).NotTo(BeNil(), "there is no workspace in the commands: %s", commands)
		if err := c.Create(ctx, object); !apierrors.IsAlreadyExists(err) {
			Expect(err).NotTo(HaveOccurred(), command)
		}
	}
}
