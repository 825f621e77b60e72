//go:build e2e

package openstack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/e2e/env/keystonetest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/openstacktest"
)

const (
	ofOperator   = "IdentityOfOperator"
	unrestricted = "ApplicationCredentialUnrestricted"
	cloudsField  = "data[clouds.yaml]"
)

// requestID is the part of messages with the ID of a request to Keystone.
var requestID = regexp.MustCompile(`request req-[0-9a-f-]+`)

// operators run the OpenStack: a domain with a user and the project of their own cluster.
type operators struct {
	domainID, domain string
	user             keystonetest.User
	project          string
}

// newOperators creates them, with the configuration that denies their identities. It has the project by its ID.
func newOperators(ctx context.Context) (o operators, configuration string) {
	GinkgoHelper()
	stories++
	o.domain = fmt.Sprintf("operators-%d", stories)
	var err error
	o.domainID, err = shared.keystone.CreateDomain(ctx, o.domain)
	Expect(err).NotTo(HaveOccurred())
	o.project, err = shared.keystone.CreateProject(ctx, o.domainID, "capi-mgmt")
	Expect(err).NotTo(HaveOccurred())
	o.user, err = shared.keystone.CreateUser(ctx, o.domainID, "operator-1")
	Expect(err).NotTo(HaveOccurred())
	keepSecret(o.user.Password)
	return o, fmt.Sprintf(`cluster:
  delegation:
    operators: {users: [{name: "operator-*", domain: %q}], projects: [{id: %s}]}
    unrestrictedApplicationCredentials: Deny
`, o.domain, o.project)
}

// grant gives a user the roles that a cluster needs on a project.
func (o operators) grant(ctx context.Context, user keystonetest.User, project string) {
	GinkgoHelper()
	for _, role := range []string{member, loadBalancer} {
		Expect(shared.keystone.Assign(ctx, role, roles.AssignOpts{UserID: user.ID, ProjectID: project})).To(Succeed())
	}
}

// The attacker has every permission in its namespace, and the credentials of an operator who helps in the attacker's own project. The
// operator has no more roles there than the attacker, so only the identity distinguishes them.
var _ = Describe("The credentials of an operator", Ordered, ContinueOnFailure, func() {
	var w *world
	var o operators
	BeforeAll(func(ctx SpecContext) {
		var configuration string
		o, configuration = newOperators(ctx)
		w = newWorld(ctx, configuration)
	}, NodeTimeout(setupTimeout))

	// attack is a tenant with a cluster, in whose project the operator has the same roles.
	attack := func(ctx context.Context) story {
		GinkgoHelper()
		s := w.beginCluster(ctx)
		o.grant(ctx, o.user, s.project)
		s.world = w.editor(ctx, s.namespace)
		return s
	}
	secret := func(s story, name, content string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, StringData: map[string]string{"clouds.yaml": content}}
	}
	// auth is a clouds.yaml with the entry, for the configured Keystone unless the entry names another.
	auth := func(s story, e entry) string {
		if e["auth_url"] == "" {
			e = e.with("auth_url", s.front.Endpoint())
		}
		return cloudsYAML(e)
	}
	byOperator := func(ctx context.Context, s story, options applicationcredentials.CreateOpts) *applicationcredentials.ApplicationCredential {
		GinkgoHelper()
		made, err := s.keystone.CreateApplicationCredential(ctx, o.user, s.project, options)
		Expect(err).NotTo(HaveOccurred())
		keepSecret(made.Secret)
		return made
	}

	DescribeTable("are denied for every form of clouds.yaml", func(ctx SpecContext, content func(ctx context.Context, s story) string, reason string) {
		s := attack(ctx)
		written := content(ctx, s)
		expectDenial(s.client.Create(ctx, secret(s, "theirs", written)), reason, cloudsField)
		By("also in the Secret that a cluster refers to, whose content does not change")
		expectDenial(s.client.Update(ctx, secret(s, credentials, written)), reason, cloudsField)
		Expect(held(ctx, s, credentials)).To(ContainSubstring(s.user.ID))
		By("and when an object refers to a Secret that existed before the gate")
		s.writeFile(ctx, "theirs", written)
		expectDenial(s.createCluster(ctx, "second", actsWith("theirs")), reason, identityRefPath)
		expectDenial(s.set(ctx, newObject(clusterKind, s.namespace, clusterName), identityRefPath+".name", "theirs"), reason, identityRefPath)
		expectDenial(s.client.Create(ctx, newMachine(s.namespace, "worker", clusterName, actsWith("theirs"))), reason, identityRefPath)
	},
		Entry("by names", func(_ context.Context, s story) string {
			return auth(s, entry{
				"username": o.user.Name, "user_domain_name": o.domain, "password": o.user.Password, "project_name": "project", "project_domain_id": s.domainID,
			})
		}, ofOperator, SpecTimeout(timeout)),
		Entry("by the ID of an application credential that has no more roles than needed", func(ctx context.Context, s story) string {
			return auth(s, entryOf(byOperator(ctx, s, applicationcredentials.CreateOpts{
				Name: "innocent", Roles: []applicationcredentials.Role{{Name: member}, {Name: loadBalancer}},
			})))
		}, ofOperator, SpecTimeout(timeout)),
		Entry("by a YAML anchor", func(_ context.Context, s story) string {
			return fmt.Sprintf("x: &them {auth_url: %q, user_id: %s, password: %q, project_id: %s}\nclouds: {%s: {auth: {<<: *them}}}\n",
				s.front.Endpoint(), o.user.ID, o.user.Password, s.project, cloudName)
		}, ofOperator, SpecTimeout(timeout)),
		Entry("next to the tenant's own", func(_ context.Context, s story) string {
			return auth(s, s.password(o.user)) + fmt.Sprintf("  zzz: {auth: {auth_url: %q, user_id: %s, password: %q, project_id: %s}}\n",
				s.front.Endpoint(), s.user.ID, s.user.Password, s.project)
		}, ofOperator, SpecTimeout(timeout)),
		Entry("by a trust of the operator for the tenant", func(ctx context.Context, s story) string {
			trust, err := s.keystone.CreateTrust(ctx, o.user, s.user, s.project, member, loadBalancer)
			Expect(err).NotTo(HaveOccurred())
			return auth(s, s.password(s.user).with("project_id", "").with("trust_id", trust.ID))
		}, "IdentityOfTrust", SpecTimeout(timeout)),
		Entry("by the tenant's own user, in the operators' project", func(ctx context.Context, s story) string {
			o.grant(ctx, s.user, o.project)
			return auth(s, s.password(s.user).with("project_id", o.project))
		}, ofOperator, SpecTimeout(timeout)),
		Entry("by the tenant's own unrestricted application credential", func(ctx context.Context, s story) string {
			return auth(s, entryOf(s.credential(ctx, applicationcredentials.CreateOpts{Unrestricted: true})))
		}, unrestricted, SpecTimeout(timeout)),
	)

	It("are identified by name and domain, so that a tenant may use the same names in its own domain", func(ctx SpecContext) {
		s := attack(ctx)
		namesake := s.newUser(ctx, o.user.Name)
		project, err := s.keystone.CreateProject(ctx, s.domainID, "capi-mgmt")
		Expect(err).NotTo(HaveOccurred())
		o.grant(ctx, namesake, project)
		Expect(s.client.Create(ctx, secret(s, "namesake", auth(s, s.password(namesake).with("project_id", project))))).To(Succeed())
		Expect(s.createCluster(ctx, "second", actsWith("namesake"))).To(Succeed())
	}, SpecTimeout(timeout))

	It("are identified by the ID of a project, with every name", func(ctx SpecContext) {
		s := attack(ctx)
		o.grant(ctx, s.user, o.project)
		_, err := projects.Update(ctx, s.keystone.Admin(), o.project, projects.UpdateOpts{Name: "harmless"}).Extract()
		Expect(err).NotTo(HaveOccurred())
		expectDenial(s.client.Create(ctx, secret(s, "theirs", auth(s, s.password(s.user).with("project_id", o.project)))), ofOperator, cloudsField,
			fmt.Sprintf(`project "harmless" of domain %q, for which user "tenant" has a token, belongs to the operators of this OpenStack`, o.domain),
			"use an identity of the tenant in the tenant's own project")
	}, SpecTimeout(timeout))

	// The command evaluates a clouds.yaml by the rules of the gate, before any object is created.
	DescribeTable("and other credentials get the same verdict from the command", func(ctx SpecContext, by func(ctx context.Context, s story) entry, exit string) {
		s := attack(ctx)
		content := auth(s, by(ctx, s))
		file := filepath.Join(GinkgoT().TempDir(), "clouds.yaml")
		Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
		printed, err := w.gate.Run(ctx, "check", "delegation", "--clouds-yaml="+file, "--config="+w.gate.ConfigFile())
		s.writeFile(ctx, "checked", content)
		created := s.createCluster(ctx, "second", actsWith("checked"))
		name := fmt.Sprintf("cloud %q of %s", cloudName, file)
		Expect(w.leaks(printed)).To(BeEmpty())
		if exit == "" {
			Expect(err).NotTo(HaveOccurred(), printed)
			Expect(printed).To(Equal(name + `: ok` + "\n" + `  user "tenant" in project "project" has the roles load-balancer_member, member, reader` + "\n"))
			Expect(created).NotTo(HaveOccurred())
			return
		}
		Expect(err).To(MatchError(ContainSubstring("%s", exit)), printed)
		var denial *apierrors.StatusError
		Expect(errors.As(created, &denial)).To(BeTrue(), "%v", created)
		cause := denial.Status().Details.Causes[0]
		_, message, found := strings.Cut(cause.Message, `of namespace "`+s.namespace+`": `)
		Expect(found).To(BeTrue(), cause.Message)
		want := "  " + string(cause.Type) + ": " + strings.ReplaceAll(message, `cloud "openstack" of Secret "checked"`, name) + "\n"
		// Each request to Keystone has its own ID.
		Expect(requestID.ReplaceAllString(printed, "request")).To(HaveSuffix(requestID.ReplaceAllString(want, "request")))
		asJSON := suite.Warrantgate(ctx, "check", "delegation", "--clouds-yaml="+file, "--config="+w.gate.ConfigFile(), "-o=json")
		Expect(json.Valid([]byte(asJSON.Stdout))).To(BeTrue(), asJSON.Stdout)
		Expect(asJSON.Stdout).To(ContainSubstring(`"` + string(cause.Type) + ": "))
	},
		Entry("the tenant's own", func(_ context.Context, s story) entry { return s.password(s.user) }, "", SpecTimeout(timeout)),
		Entry("an operator's", func(_ context.Context, s story) entry { return s.password(o.user) }, "exit status 1", SpecTimeout(timeout)),
		Entry("too few roles", func(ctx context.Context, s story) entry { return s.password(s.newUser(ctx, "poor", member)) }, "exit status 1", SpecTimeout(timeout)),
	)

	It("cannot be evaluated by the command while Keystone does not respond", func(ctx SpecContext) {
		s := attack(ctx)
		file := filepath.Join(GinkgoT().TempDir(), "clouds.yaml")
		Expect(os.WriteFile(file, []byte(auth(s, s.password(s.user))), 0o600)).To(Succeed())
		DeferCleanup(s.front.Fail(openstacktest.Status(http.StatusServiceUnavailable), 0).Release)
		printed, err := w.gate.Run(ctx, "check", "delegation", "--clouds-yaml="+file, "--config="+w.gate.ConfigFile())
		Expect(err).To(MatchError(ContainSubstring("exit status 2")), printed)
		Expect(printed).To(ContainSubstring("DelegationUnknown: the roles of cloud \"openstack\" of " + file + " could not be determined"))
	}, SpecTimeout(timeout))
})

// An unrestricted application credential has more permissions than its roles.
var _ = Describe("An unrestricted application credential", Ordered, ContinueOnFailure, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) { w = worldWith(ctx, "cluster: {delegation: {through: Trust}}") }, NodeTimeout(setupTimeout))

	It("has a warning, with an Event of its own", func(ctx SpecContext) {
		s := w.beginCluster(ctx)
		s.writeSecret(ctx, "application", entryOf(s.credential(ctx, applicationcredentials.CreateOpts{Unrestricted: true})))
		s.writeSecret(ctx, "restricted", entryOf(s.credential(ctx, applicationcredentials.CreateOpts{Name: "restricted"})))
		cluster := newObject(clusterKind, s.namespace, clusterName)
		Expect(s.client.Get(ctx, keyOf(cluster), cluster)).To(Succeed())
		s.recorder.TakeWarnings()
		Expect(s.set(ctx, cluster, identityRefPath+".name", "application")).To(Succeed())
		const text = `application credential "cluster" of user "tenant" in project "project" is unrestricted`
		Expect(s.recorder.TakeWarnings()).To(HaveExactElements(And(HavePrefix("ApplicationCredentialWithoutTrust: "), ContainSubstring(text))))
		warned := func(reason, text string) OmegaMatcher {
			return And(HaveField("Reason", reason), HaveField("Message", And(HavePrefix("Admitted with a warning: "), ContainSubstring("%s", text))))
		}
		withoutTrust := warned("ApplicationCredentialWithoutTrust", "with which Keystone creates no trust")
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(cluster).Should(ConsistOf(withoutTrust, warned(unrestricted, text)))

		By("a restricted one has none")
		Expect(s.set(ctx, cluster, identityRefPath+".name", "restricted")).To(Succeed())
		Expect(s.recorder.TakeWarnings()).To(HaveExactElements(And(HavePrefix("ApplicationCredentialWithoutTrust: "), Not(ContainSubstring("unrestricted")))))
	}, SpecTimeout(timeout))
})
