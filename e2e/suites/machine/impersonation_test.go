//go:build e2e

package machine_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var kdcClusterKind = schema.GroupVersionKind{Group: "k8s.kube-dc.com", Version: "v1alpha1", Kind: "KdcCluster"}

// place is a field or an annotation by which an object names the user that its provider acts as.
type place struct {
	kind schema.GroupVersionKind
	path []string
	// field is its name in a denial. The webhook of this name denies it, or the policy of this name if byPolicy is true.
	field, webhook string
	byPolicy       bool
}

var (
	userEmailField = place{
		kind: clusterKind, path: []string{"spec", "userEmail"}, field: "spec.userEmail", webhook: "cloudsigmaclusters.cluster.warrantgate.dev",
		byPolicy: true,
	}
	ownerAnnotation      = annotation("cloudsigma.com/owner-email")
	olderOwnerAnnotation = annotation("kube-dc.com/owner-email")

	places = []place{userEmailField, ownerAnnotation, olderOwnerAnnotation}
)

func annotation(key string) place {
	return place{
		kind: kdcClusterKind, path: []string{"metadata", "annotations", key}, field: "metadata.annotations[" + key + "]",
		webhook: "kdcclusters.cluster.warrantgate.dev",
	}
}

// naming returns an object that names a user there, or no user if email is empty.
func (p place) naming(namespace, name, email string) *unstructured.Unstructured {
	GinkgoHelper()
	object := newObject(p.kind, namespace, name, with("spec.region", region))
	if email != "" {
		Expect(unstructured.SetNestedField(object.Object, email, p.path...)).To(Succeed())
	}
	return object
}

// mergePatch returns the patch that makes an object name a user there: in JSON, a string or null.
func (p place) mergePatch(value string) client.Patch {
	for _, key := range slices.Backward(p.path) {
		value = fmt.Sprintf("{%q:%s}", key, value)
	}
	return client.RawPatch(types.MergePatchType, []byte(value))
}

// named returns the user that the stored object names there.
func (w *world) named(ctx context.Context, p place, object *unstructured.Unstructured) string {
	GinkgoHelper()
	current := newObject(object.GroupVersionKind(), object.GetNamespace(), object.GetName())
	Expect(w.client.Get(ctx, client.ObjectKeyFromObject(object), current)).To(Succeed())
	email, _, err := unstructured.NestedString(current.Object, p.path...)
	Expect(err).NotTo(HaveOccurred())
	return email
}

// request makes an object name a user. The object already exists unless creates is true.
type request struct {
	name    string
	creates bool
	send    func(ctx context.Context, c client.Client, p place, object *unstructured.Unstructured) error
}

// requests are all ways to write. The object in memory already names the user.
var requests = []request{
	{"POST", true, func(ctx context.Context, c client.Client, _ place, object *unstructured.Unstructured) error {
		return c.Create(ctx, object.DeepCopy())
	}},
	{"server-side apply that creates", true, applyObject},
	{"PUT", false, func(ctx context.Context, c client.Client, _ place, object *unstructured.Unstructured) error {
		current := newObject(object.GroupVersionKind(), object.GetNamespace(), object.GetName())
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), current); err != nil {
			return err
		}
		changed := object.DeepCopy()
		changed.SetResourceVersion(current.GetResourceVersion())
		return c.Update(ctx, changed)
	}},
	{"merge patch", false, func(ctx context.Context, c client.Client, p place, object *unstructured.Unstructured) error {
		email, _, _ := unstructured.NestedString(object.Object, p.path...)
		return c.Patch(ctx, object.DeepCopy(), p.mergePatch(fmt.Sprintf("%q", email)))
	}},
	{"JSON patch", false, func(ctx context.Context, c client.Client, p place, object *unstructured.Unstructured) error {
		email, _, _ := unstructured.NestedString(object.Object, p.path...)
		pointer := ""
		for _, key := range p.path {
			pointer += "/" + strings.ReplaceAll(key, "/", "~1")
		}
		return c.Patch(ctx, object.DeepCopy(), client.RawPatch(types.JSONPatchType,
			fmt.Appendf(nil, `[{"op":"replace","path":%q,"value":%q}]`, pointer, email)))
	}},
	{"server-side apply", false, applyObject},
}

func applyObject(ctx context.Context, c client.Client, _ place, object *unstructured.Unstructured) error {
	return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner("author"), client.ForceOwnership)
}

// author is a user who may write the clusters of a story's namespace, and has no other permission unless it is granted.
type author struct {
	config   *rest.Config
	client   client.Client
	username string
	groups   []string
	subject  rbacv1.Subject
	// flag is how kubectl names the author.
	flag string
}

// newUser creates an author that is a user with a client certificate, in a group.
func (s story) newUser(ctx context.Context) author {
	GinkgoHelper()
	name, group := "author-of-"+s.namespace, "authors-of-"+s.namespace
	config, err := s.api.User(name, group)
	Expect(err).NotTo(HaveOccurred())
	return s.author(ctx, config, author{
		username: name, groups: []string{group, "system:authenticated"}, flag: "--user=" + name,
		subject: rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name},
	})
}

// newServiceAccount creates an author that is a service account, with a token.
func (s story) newServiceAccount(ctx context.Context) author {
	GinkgoHelper()
	config, err := s.api.ServiceAccount(ctx, s.namespace, "author")
	Expect(err).NotTo(HaveOccurred())
	return s.author(ctx, config, author{
		username: "system:serviceaccount:" + s.namespace + ":author", flag: "--serviceaccount=" + s.namespace + ":author",
		groups:  []string{"system:serviceaccounts:" + s.namespace, "system:serviceaccounts", "system:authenticated"},
		subject: rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: "author"},
	})
}

func (s story) author(ctx context.Context, config *rest.Config, who author) author {
	GinkgoHelper()
	who.config, who.client = config, s.listening(config)
	for _, kind := range []struct{ group, resource string }{
		{infrastructure.Group, "cloudsigmaclusters"}, {infrastructure.Group, "cloudsigmaclusters/status"}, {kdcClusterKind.Group, "kdcclusters"},
	} {
		s.grant(ctx, who, permission{namespace: s.namespace, rule: rule(kind.group, kind.resource, "get", "create", "update", "patch", "delete")})
	}
	return who
}

// permission is an RBAC rule: in a namespace, or in the whole cluster without one.
type permission struct {
	rule      rbacv1.PolicyRule
	namespace string
	// toGroup is true if it is granted to the first of the author's groups.
	toGroup bool
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// impersonating is the permission to impersonate the users of these names, or all if there are none.
func impersonating(names ...string) rbacv1.PolicyRule {
	users := rule(corev1.GroupName, "users", "impersonate")
	users.ResourceNames = names
	return users
}

// grant grants a permission, and returns once the API server applies it. The permission is removed at the end of the spec.
func (w *world) grant(ctx context.Context, who author, r permission) {
	GinkgoHelper()
	subject := who.subject
	if r.toGroup {
		subject = rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: who.groups[0]}
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "granted-"}, Rules: []rbacv1.PolicyRule{r.rule}}
	Expect(w.client.Create(ctx, role)).To(Succeed())
	meta := metav1.ObjectMeta{GenerateName: "granted-", Namespace: r.namespace}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}
	var binding client.Object = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: []rbacv1.Subject{subject}}
	if r.namespace != "" {
		binding = &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: []rbacv1.Subject{subject}}
	}
	Expect(w.client.Create(ctx, binding)).To(Succeed())
	DeferCleanup(w.cleanUp, client.Object(role))
	DeferCleanup(w.cleanUp, binding)
	Eventually(func() (bool, error) { return w.mayAuthor(ctx, who, r) }).Should(BeTrue())
}

// cleanUp deletes objects that must not exist after a spec.
func (w *world) cleanUp(ctx context.Context, object client.Object) error {
	return client.IgnoreNotFound(w.client.Delete(ctx, object))
}

// mayAuthor returns whether an author has a permission.
func (w *world) mayAuthor(ctx context.Context, who author, r permission) (bool, error) {
	resource, subresource, _ := strings.Cut(r.rule.Resources[0], "/")
	name := ""
	if len(r.rule.ResourceNames) > 0 {
		name = r.rule.ResourceNames[0]
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who.username, Groups: who.groups, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: r.namespace, Verb: r.rule.Verbs[0], Group: r.rule.APIGroups[0], Resource: resource, Subresource: subresource, Name: name,
		},
	}}
	err := w.client.Create(ctx, review)
	return review.Status.Allowed, err
}

// authors are both kinds of authors.
var authors = []struct {
	what string
	make func(story, context.Context) author
}{{"a user", story.newUser}, {"a service account", story.newServiceAccount}}

// A user who names another user in a cluster makes the provider act as that user, and so needs the permission to impersonate it.
var _ = Describe("a cluster's user", sharing, func() {
	// everywhere names a user by these kinds of writes in each place.
	everywhere := func(
		ctx context.Context, s story, who author, email string, ways []request, check func(p place, object *unstructured.Unstructured, err error),
	) {
		GinkgoHelper()
		for i, p := range places {
			for j, way := range ways {
				By(fmt.Sprintf("by %s in %s", way.name, p.field))
				name := fmt.Sprintf("cluster-%d-%d", i, j)
				if !way.creates {
					Expect(s.client.Create(ctx, p.naming(s.namespace, name, s.user.Email))).To(Succeed())
				}
				object := p.naming(s.namespace, name, email)
				check(p, object, way.send(ctx, who.client, p, object))
			}
		}
	}
	canBeNamed := func(ctx context.Context, s story, who author, email string, ways ...request) {
		GinkgoHelper()
		everywhere(ctx, s, who, email, ways, func(p place, object *unstructured.Unstructured, err error) {
			GinkgoHelper()
			Expect(err).NotTo(HaveOccurred())
			Expect(s.named(ctx, p, object)).To(Equal(email))
		})
		Expect(s.verdictEvents(ctx)).To(BeEmpty())
	}
	cannotBeNamed := func(ctx context.Context, s story, who author, email string, ways ...request) {
		GinkgoHelper()
		everywhere(ctx, s, who, email, ways, func(p place, object *unstructured.Unstructured, err error) {
			GinkgoHelper()
			expectNotAllowed(err, p, object, who, email)
			current := object.DeepCopy()
			if err := s.client.Get(ctx, client.ObjectKeyFromObject(object), current); !apierrors.IsNotFound(err) {
				Expect(err).NotTo(HaveOccurred())
				Expect(s.named(ctx, p, object)).To(Equal(s.user.Email))
			}
		})
	}
	namedIn := func(s story) string { return "named-" + s.namespace + "@example.com" }

	DescribeTable("can be named by an author who may impersonate that user", func(ctx SpecContext, kind func(story, context.Context) author, spelled string, given permission) {
		s := begin(ctx)
		who, email := kind(s, ctx), namedIn(s)
		if len(given.rule.ResourceNames) > 0 {
			given.rule.ResourceNames = []string{email}
		}
		s.grant(ctx, who, given)
		if spelled == "capitals" {
			email = strings.ToUpper(email)
		}
		canBeNamed(ctx, s, who, email, requests...)
	},
		Entry("by the user's name, as a member of a group", story.newUser, "", permission{rule: impersonating("?"), toGroup: true}, SpecTimeout(timeout)),
		Entry("by the permission for all users", story.newUser, "", permission{rule: impersonating()}, SpecTimeout(timeout)),
		Entry("by the permission for everything", story.newUser, "", permission{rule: rule("*", "*", "*")}, SpecTimeout(timeout)),
		Entry("by the permission for everything, as a member of a group of service accounts", story.newServiceAccount, "",
			permission{rule: rule("*", "*", "*"), toGroup: true}, SpecTimeout(timeout)),
		Entry("by the user's name in lower case, for every spelling", story.newUser, "capitals", permission{rule: impersonating("?")}, SpecTimeout(timeout)),
	)

	// The unit tests TestPolicy and TestReviewInProvidersWorkspace have the exact permission that is checked.
	It("cannot be named by an author who has all permissions that are similar to that of impersonating the user", func(ctx SpecContext) {
		s := begin(ctx)
		who, email := s.newUser(ctx), namedIn(s)
		groups := rule(corev1.GroupName, "groups", "impersonate")
		groups.ResourceNames = []string{email}
		constrained := rule("authentication.k8s.io", "users", "impersonate:user-info") // KEP-5284
		constrained.ResourceNames = []string{email}
		for _, given := range []permission{
			{rule: impersonating(s.user.Email)},
			{rule: impersonating(email), namespace: s.namespace}, // a Role does not cover users
			{rule: impersonating("*", "*@example.com")},          // these are no patterns
			{rule: groups},
			{rule: rule(corev1.GroupName, "users", "get", "list", "bind", "escalate")},
			{rule: rule("example.com", "users", "impersonate")},
			{rule: constrained},
			{rule: rule("*", "*", "impersonate:user-info", "impersonate:serviceaccount", "impersonate:arbitrary-node",
				"impersonate:associated-node", "impersonate-on:user-info:create", "impersonate-on:user-info:update",
				"impersonate-on:user-info:patch", "impersonate-on:user-info:get")},
		} {
			s.grant(ctx, who, given)
		}
		cannotBeNamed(ctx, s, who, email, requests[0], requests[3]) // POST and merge patch
	}, SpecTimeout(timeout))

	// The provider sends an email as it is written, so another one than warrantgate would check.
	DescribeTable("cannot be named with blanks around the email, by an author with every permission", func(ctx SpecContext, before, after string) {
		s := begin(ctx)
		who := s.newUser(ctx)
		s.grant(ctx, who, permission{rule: rule("*", "*", "*")})
		everywhere(ctx, s, who, before+namedIn(s)+after, requests, func(p place, object *unstructured.Unstructured, err error) {
			GinkgoHelper()
			expectMalformed(err, p, object)
		})
	},
		Entry("a tab before it", "\t", "", SpecTimeout(timeout)),
		Entry("a no-break space after it", "", "\u00a0", SpecTimeout(timeout)),
	)

	// The constrained verbs limit the requests of the user in Kubernetes. A provider sends all requests as the user, in the cloud.
	It("cannot be named by an author who impersonates that user under constraints (KEP-5284)", func(ctx SpecContext) {
		s := begin(ctx)
		who := s.newServiceAccount(ctx)
		email := "named-" + s.namespace + "@example.com"
		named := author{username: email, groups: []string{"system:authenticated"}, subject: rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: email}}
		clusters := func(verbs ...string) rbacv1.PolicyRule {
			return rule(infrastructure.Group, "cloudsigmaclusters", verbs...)
		}
		s.grant(ctx, named, permission{namespace: s.namespace, rule: clusters("get", "create")})
		constrained := rule("authentication.k8s.io", "users", "impersonate:user-info")
		constrained.ResourceNames = []string{email}
		s.grant(ctx, who, permission{rule: constrained})

		By("the API server accepts the impersonation for the verbs of the constraint")
		s.grant(ctx, who, permission{namespace: s.namespace, rule: clusters("impersonate-on:user-info:get", "impersonate-on:user-info:create")})
		config := rest.CopyConfig(who.config)
		config.Impersonate = rest.ImpersonationConfig{UserName: email}
		// The author itself discovers the API server's resources: the constraint does not cover that.
		asUser, err := client.New(config, client.Options{Scheme: who.client.Scheme(), Mapper: who.client.RESTMapper()})
		Expect(err).NotTo(HaveOccurred())
		missing := newObject(clusterKind, s.namespace, "missing")
		Eventually(func() bool {
			return apierrors.IsNotFound(asUser.Get(ctx, client.ObjectKeyFromObject(missing), missing))
		}).Should(BeTrue())
		Expect(apierrors.IsForbidden(asUser.Delete(ctx, missing))).To(BeTrue())

		By("the gate denies the author, and the same request as the impersonated user")
		object := userEmailField.naming(s.namespace, "constrained", email)
		expectNotAllowed(who.client.Create(ctx, object.DeepCopy()), userEmailField, object, who, email)
		named.flag = "--user=" + email
		expectNotAllowed(asUser.Create(ctx, object.DeepCopy()), userEmailField, object, named, email)
	}, SpecTimeout(timeout))

	for _, kind := range authors {
		It("cannot be named, by any kind of write, by "+kind.what+" without any permission", func(ctx SpecContext) {
			s := begin(ctx)
			who, email := kind.make(s, ctx), namedIn(s)
			cannotBeNamed(ctx, s, who, email, requests...)
		}, SpecTimeout(timeout))
	}

	It("can be named by both once an administrator has run the commands of the denials", func(ctx SpecContext) {
		s := begin(ctx)
		for i, who := range []author{s.newUser(ctx), s.newServiceAccount(ctx)} {
			for _, p := range []place{userEmailField, ownerAnnotation} {
				email := fmt.Sprintf("%s-of-%s@example.com", strings.ToLower(p.kind.Kind), s.namespace)
				object := p.naming(s.namespace, fmt.Sprintf("printed-%d", i), email)
				err := who.client.Create(ctx, object.DeepCopy())
				expectNotAllowed(err, p, object, who, email)
				output := s.kubectl(ctx, printed(err)) // the API server reports to the second author that the role already exists
				Expect(output).To(MatchRegexp(`(?m)^clusterrolebinding\.rbac\.authorization\.k8s\.io/\S+ created$`))
				Eventually(who.client.Create).WithArguments(ctx, object).Should(Succeed())
				Expect(s.named(ctx, p, object)).To(Equal(email))

				By("and no other user")
				expectNotAllowed(who.client.Patch(ctx, object.DeepCopy(), p.mergePatch(`"next-`+email+`"`)), p, object, who, "next-"+email)
			}
		}
	}, SpecTimeout(timeout))

	It("can be granted by the commands in the denials if a shell would change its email", func(ctx SpecContext) {
		s := begin(ctx)
		who := s.newUser(ctx)
		for _, p := range []place{userEmailField, ownerAnnotation} {
			email := fmt.Sprintf("$(touch${IFS}x)`id`-of-%s-%s@example.com", strings.ToLower(p.kind.Kind), s.namespace)
			object := p.naming(s.namespace, "printed", email)
			err := who.client.Create(ctx, object.DeepCopy())
			Expect(messageOf(err)).To(HavePrefix(denial(p, object, who, email)))
			s.kubectl(ctx, printed(err))
			Eventually(who.client.Create).WithArguments(ctx, object).Should(Succeed())
			Expect(s.named(ctx, p, object)).To(Equal(email))
		}
	}, SpecTimeout(timeout))

	It("does not reach the gate while it does not change", func(ctx SpecContext) {
		s := begin(ctx)
		who := s.newUser(ctx)
		for _, p := range places {
			object := p.naming(s.namespace, "unchanged-"+strings.ToLower(p.path[len(p.path)-1][:4]), s.user.Email)
			Expect(s.client.Create(ctx, object)).To(Succeed())
			before := s.impersonationAdmissions(ctx)
			for i, way := range requests {
				if way.creates {
					continue
				}
				changed := p.naming(s.namespace, object.GetName(), s.user.Email)
				changed.SetLabels(map[string]string{"attempt": fmt.Sprint(i)})
				with("spec.replicas", int64(i))(changed)
				Expect(way.send(ctx, who.client, p, changed)).To(Succeed(), way.name)
			}
			Expect(who.client.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
			Expect(object.GetLabels()).To(HaveKeyWithValue("attempt", fmt.Sprint(len(requests)-1)))
			Expect(s.impersonationAdmissions(ctx)).To(Equal(before), "the API server called warrantgate")

			By("nor if only the case changes")
			Expect(who.client.Patch(ctx, object, p.mergePatch(fmt.Sprintf("%q", strings.ToUpper(s.user.Email))))).To(Succeed())
			Expect(s.named(ctx, p, object)).To(Equal(strings.ToUpper(s.user.Email)))
		}
	}, SpecTimeout(timeout))

	It("can be cleared, and the object deleted, by every user who may write it", func(ctx SpecContext) {
		s := begin(ctx)
		who := s.newUser(ctx)
		for i, p := range places {
			for j, value := range []string{"null", `""`} {
				object := p.naming(s.namespace, fmt.Sprintf("cleared-%d-%d", i, j), s.user.Email)
				Expect(s.client.Create(ctx, object)).To(Succeed())
				Expect(who.client.Patch(ctx, object, p.mergePatch(value))).To(Succeed())
				Expect(s.named(ctx, p, object)).To(BeEmpty())
				Expect(who.client.Delete(ctx, object)).To(Succeed())
			}
		}
	}, SpecTimeout(timeout))

	It("that was denied has an Event, which kubectl describe shows, except for a dry run", func(ctx SpecContext) {
		s := begin(ctx)
		who := s.newUser(ctx)
		for i, p := range places {
			tried := p.naming(s.namespace, fmt.Sprintf("tried-%d", i), s.user.Email)
			object := p.naming(s.namespace, fmt.Sprintf("told-%d", i), s.user.Email)
			for _, o := range []*unstructured.Unstructured{tried, object} {
				Expect(s.client.Create(ctx, o)).To(Succeed())
			}
			email := fmt.Sprintf("next-%d-%s", i, s.user.Email)
			attempt := func(object *unstructured.Unstructured, options ...client.PatchOption) error {
				return who.client.Patch(ctx, object.DeepCopy(), p.mergePatch(fmt.Sprintf("%q", email)), options...)
			}
			expectNotAllowed(attempt(tried, client.DryRunAll), p, tried, who, email)
			err := attempt(object)
			expectNotAllowed(err, p, object, who, email)

			if p.byPolicy { // which writes no Events
				continue
			}
			message := "Denied: " + messageOf(err)
			Eventually(s.eventsOn).WithContext(ctx).WithArguments(object).Should(HaveExactElements(And(
				HaveField("Type", corev1.EventTypeWarning), HaveField("Reason", "ImpersonationNotAllowed"),
				HaveField("Message", message), HaveField("Count", BeEquivalentTo(1)))))
			// Events are written in order: if there is one about the second attempt, there will be none about the first.
			Expect(s.eventsOn(ctx, tried)).To(BeEmpty())
			Expect(s.describe(object)).To(MatchRegexp(`(?m)^ +Warning +ImpersonationNotAllowed .*` + regexp.QuoteMeta(message) + `$`))

			By("with a higher count after the next attempt")
			expectNotAllowed(attempt(object), p, object, who, email)
			Eventually(s.eventsOn).WithContext(ctx).WithArguments(object).Should(HaveExactElements(
				And(HaveField("Message", message), HaveField("Count", BeEquivalentTo(2)))))
		}
		Expect(s.verdictEvents(ctx)).To(HaveLen(len(places) - 1))
	}, SpecTimeout(timeout))

	It("that was denied at creation has an Event on the owner of the cluster", func(ctx SpecContext) {
		s := begin(ctx)
		who := s.newUser(ctx)
		email := "named-" + s.namespace + "@example.com"
		var owners []*unstructured.Unstructured
		for _, name := range []string{"owner", "trial"} {
			owner := newObject(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "Cluster"}, s.namespace, name)
			Expect(s.client.Create(ctx, owner)).To(Succeed())
			owners = append(owners, owner)
		}
		cluster := ownerAnnotation.naming(s.namespace, "owned", email)
		expectNotAllowed(who.client.Create(ctx, cluster.DeepCopy()), ownerAnnotation, cluster, who, email) // no object exists for an Event
		ownedBy(owners[1])(cluster)
		expectNotAllowed(who.client.Create(ctx, cluster.DeepCopy(), client.DryRunAll), ownerAnnotation, cluster, who, email)
		ownedBy(owners[0])(cluster)
		err := who.client.Create(ctx, cluster.DeepCopy())
		expectNotAllowed(err, ownerAnnotation, cluster, who, email)
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(owners[0]).Should(HaveExactElements(And(
			HaveField("Reason", "ImpersonationNotAllowed"), HaveField("Message", "Denied: "+messageOf(err)), HaveField("Count", BeEquivalentTo(1)))))
		Expect(s.verdictEvents(ctx)).To(HaveLen(1), "an Event on another object would have been written before")
	}, SpecTimeout(timeout))
})

// impersonationAdmissions is the number of calls of the gate.
func (w *world) impersonationAdmissions(ctx context.Context) float64 {
	GinkgoHelper()
	return w.admissions(ctx, map[string]string{"gate": "cluster-impersonation"})
}

// denial is the beginning of a denial: the field, the requester, and the user. The commands follow.
func denial(p place, object *unstructured.Unstructured, who author, email string) string {
	return fmt.Sprintf("%s of %s %q of namespace %q: user %q may not impersonate %q; name a user that you may impersonate, or have it granted: ",
		p.field, p.kind.Kind, object.GetName(), object.GetNamespace(), who.username, email)
}

// expectNotAllowed checks the message and the status of a denial.
func expectNotAllowed(err error, p place, object *unstructured.Unstructured, who author, email string) {
	GinkgoHelper()
	if p.byPolicy {
		expectPolicyDenial(err, p.webhook, metav1.StatusReasonForbidden)
	} else {
		expectClusterDenial(err, p.webhook, "ImpersonationNotAllowed", p.field)
	}
	text := denial(p, object, who, email)
	Expect(messageOf(err)).To(HavePrefix(text))
	lower := strings.ToLower(email)
	role := "warrantgate:impersonate:" + lower
	Expect(printed(err)).To(MatchRegexp(fmt.Sprintf(
		"^kubectl create clusterrole %[1]s --verb=impersonate --resource=users --resource-name=%[2]s; "+
			"kubectl create clusterrolebinding %[1]s:%[4]s --clusterrole=%[1]s %[3]s$",
		regexp.QuoteMeta(role), regexp.QuoteMeta(lower), regexp.QuoteMeta(who.flag), regexp.QuoteMeta(who.username))))
}

// expectMalformed checks the denial of an email with blanks around it.
func expectMalformed(err error, p place, object client.Object) {
	GinkgoHelper()
	if p.byPolicy {
		expectPolicyDenial(err, p.webhook, metav1.StatusReasonInvalid)
	} else {
		expectWebhookDenial(err, p.webhook, metav1.StatusReasonInvalid, "UserMalformed", p.field)
	}
	Expect(messageOf(err)).To(Equal(fmt.Sprintf("%s of %s %q of namespace %q: there are blanks, tabs or line breaks around the email address, "+
		"which the provider sends as part of it; write it without them", p.field, p.kind.Kind, object.GetName(), object.GetNamespace())))
}

// expectClusterDenial checks the fields that a controller uses: code, reason and cause.
func expectClusterDenial(err error, webhook, reason, field string) {
	GinkgoHelper()
	expectWebhookDenial(err, webhook, metav1.StatusReasonForbidden, reason, field)
}

func expectWebhookDenial(err error, webhook string, status metav1.StatusReason, reason, field string) {
	GinkgoHelper()
	Expect(err).To(MatchError(HavePrefix("admission webhook %q denied the request: ", webhook)))
	expectStatus(err, status)
	cause, found := apierrors.StatusCause(err, metav1.CauseType(reason))
	Expect(found).To(BeTrue(), "no cause %q in: %v", reason, err)
	Expect(cause.Field).To(Equal(field))
}

// expectPolicyDenial checks the fields that a controller uses: code and reason.
func expectPolicyDenial(err error, policy string, reason metav1.StatusReason) {
	GinkgoHelper()
	Expect(err).To(MatchError(ContainSubstring("ValidatingAdmissionPolicy '%[1]s' with binding '%[1]s' denied request: ", policy)))
	expectStatus(err, reason)
}

func expectStatus(err error, reason metav1.StatusReason) {
	GinkgoHelper()
	var denial *apierrors.StatusError
	Expect(errors.As(err, &denial)).To(BeTrue())
	code := http.StatusForbidden
	if reason == metav1.StatusReasonInvalid {
		code = http.StatusUnprocessableEntity
	}
	Expect(denial.Status().Code).To(BeEquivalentTo(code))
	Expect(denial.Status().Reason).To(Equal(reason))
}

// deniedRequest matches the API server's text before that of a webhook or a policy.
var deniedRequest = regexp.MustCompile(`^.* denied (the )?request: `)

// messageOf is the message of a denial without the prefix of the API server.
func messageOf(err error) string {
	GinkgoHelper()
	Expect(err).To(HaveOccurred())
	message := deniedRequest.ReplaceAllString(err.Error(), "")
	found := message != err.Error()
	Expect(found).To(BeTrue(), "%v", err)
	return message
}

// printed are the commands of a denial.
func printed(err error) string {
	GinkgoHelper()
	_, commands, found := strings.Cut(messageOf(err), "or have it granted: ")
	Expect(found).To(BeTrue(), "%v", err)
	return commands
}

// kubectl runs commands like an administrator who pastes them into a shell, and returns their output.
func (w *world) kubectl(ctx context.Context, commands string) string {
	GinkgoHelper()
	_, err := exec.LookPath("kubectl")
	Expect(err).NotTo(HaveOccurred(), "this spec runs the commands of a denial, so it needs kubectl in $PATH")
	shell := exec.CommandContext(ctx, "sh", "-c", commands)
	// Its own home directory, with kubectl's discovery cache.
	shell.Env = append(os.Environ(), "KUBECONFIG="+w.api.AdminKubeconfig(), "HOME="+GinkgoT().TempDir())
	output, err := shell.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s\n%s", commands, output)
	return string(output)
}
