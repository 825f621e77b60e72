//go:build e2e

package keystonepolicy_test

import (
	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// matrix has the status that Keystone returns to each caller under the policies shipped, broken, mended and sound.
var matrix = []struct {
	caller string
	call   call
	want   statuses
}{
	// A manager manages the manager's own domain.
	{manager, creates("user", own), statuses{403, 201, 201, 201}},
	{manager, creates("project", own), statuses{403, 201, 201, 201}},
	{manager, creates("group", own), statuses{403, 201, 201, 201}},
	{manager, grants("member", own, own), statuses{403, 204, 204, 204}},
	{manager, grants("load-balancer_member", own, own), statuses{403, 204, 204, 204}},
	{manager, adds(own, own), statuses{403, 204, 204, 204}},
	{manager, lists("user", nowhere), statuses{403, 200, 200, 200}},
	{manager, lists("user", own), statuses{403, 200, 200, 200}},
	{manager, lists("project", nowhere), statuses{403, 200, 200, 200}},
	{manager, lists("group", nowhere), statuses{403, 200, 200, 200}},
	{manager, listsAll("domain"), statuses{403, 200, 200, 403}},
	{manager, listsAll("role"), statuses{403, 200, 200, 200}},

	// It cannot grant roles that exceed its own.
	{manager, grants("admin", own, own), statuses{403, 403, 403, 403}},
	{manager, grants("manager", own, own), statuses{403, 403, 403, 403}},
	{manager, grants("reader", own, own), statuses{403, 403, 403, 403}},
	{manager, creates("domain", nowhere), statuses{403, 403, 403, 403}},
	{manager, reads("admin"), statuses{403, 403, 403, 403}},

	// It has no permissions in another domain. Listing another domain is allowed, but the list is empty.
	{manager, creates("user", other), statuses{403, 403, 403, 403}},
	{manager, creates("project", other), statuses{403, 403, 403, 403}},
	{manager, creates("group", other), statuses{403, 403, 403, 403}},
	{manager, grants("member", own, other), statuses{403, 403, 403, 403}},
	{manager, grants("member", other, own), statuses{403, 403, 403, 403}},
	{manager, grants("member", other, other), statuses{403, 403, 403, 403}},
	{manager, adds(own, other), statuses{403, 403, 403, 403}},
	{manager, adds(other, own), statuses{403, 403, 403, 403}},
	{manager, lists("user", other), statuses{403, 200, 200, 200}},

	// A request has to name the domain, and needs a token for it.
	{manager, creates("user", nowhere), statuses{403, 403, 403, 403}},
	{manager, creates("project", nowhere), statuses{403, 403, 403, 403}},
	{projectManager, creates("user", own), statuses{403, 403, 403, 403}},
	{projectManager, creates("project", own), statuses{403, 403, 403, 403}},
	{projectManager, grants("member", own, own), statuses{403, 403, 403, 403}},
	{projectManager, lists("user", nowhere), statuses{403, 200, 200, 403}},

	// The dead templates affect the administrator of a domain.
	{domainAdmin, creates("user", own), statuses{201, 403, 201, 403}},
	{domainAdmin, creates("project", own), statuses{201, 403, 201, 403}},
	{domainAdmin, creates("group", own), statuses{201, 403, 201, 403}},
	{domainAdmin, creates("user", other), statuses{201, 403, 403, 403}},
	{domainAdmin, creates("project", other), statuses{201, 403, 403, 403}},
	{domainAdmin, lists("user", nowhere), statuses{200, 200, 403, 403}},
	{domainAdmin, lists("user", own), statuses{200, 200, 403, 403}},
	{domainAdmin, lists("project", own), statuses{200, 200, 403, 403}},
	{domainAdmin, lists("group", own), statuses{200, 200, 403, 403}},

	// Nothing changes for the administrator of the cluster.
	{cloudAdmin, creates("user", own), statuses{201, 201, 201, 201}},
	{cloudAdmin, creates("project", other), statuses{201, 201, 201, 201}},
	{cloudAdmin, creates("group", own), statuses{201, 201, 201, 201}},
	{cloudAdmin, creates("domain", nowhere), statuses{201, 201, 201, 201}},
	{cloudAdmin, grants("admin", own, own), statuses{204, 204, 204, 204}},
	{cloudAdmin, adds(own, own), statuses{204, 204, 204, 204}},
	{cloudAdmin, lists("user", nowhere), statuses{200, 200, 200, 200}},
	{cloudAdmin, lists("project", own), statuses{200, 200, 200, 200}},
	{cloudAdmin, lists("group", other), statuses{200, 200, 200, 200}},
	{cloudAdmin, listsAll("domain"), statuses{200, 200, 200, 200}},
	{cloudAdmin, reads("admin"), statuses{200, 200, 200, 200}},

	// A tenant has no permissions to manage.
	{tenant, creates("user", own), statuses{403, 403, 403, 403}},
	{tenant, grants("member", own, own), statuses{403, 403, 403, 403}},
	{tenant, lists("user", own), statuses{403, 403, 403, 403}},

	// A dead template denies trusts to all.
	{tenant, trusts(), statuses{201, 403, 201, 201}},
	{cloudAdmin, trusts(), statuses{201, 403, 201, 201}},
}

var _ = Describe("Keystone", func() {
	DescribeTable("decides as its policy says, and warrantgate predicts it", func(ctx SpecContext, policy int) {
		w := newWorld(ctx)
		enforce(ctx, files[policy])
		want, got := map[string]int{}, map[string]int{}
		var cases []checkCase
		for _, row := range matrix {
			name := row.caller + ": " + row.call.name
			c := w.callers[row.caller]
			r := row.call.of(w, c)
			want[name], got[name] = row.want[policy], c.send(ctx, r)
			cases = append(cases, newCase(name, c, row.call.can, r, got[name]))
		}
		Expect(want).To(HaveLen(len(matrix)), "rows have the same name")
		Expect(cmp.Diff(want, got)).To(BeEmpty(), "statuses of Keystone (-want +got)")
		agree(ctx, files[policy], cases)
	},
		Entry("with the rules that it ships", shipped, SpecTimeout(specTimeout)),
		Entry("with an override whose helpers for administrators of a domain are dead", broken, SpecTimeout(specTimeout)),
		Entry("with that override mended, except for the lists", mended, SpecTimeout(specTimeout)),
		Entry("with the override in which the linter has no findings", sound, SpecTimeout(specTimeout)),
	)

	It("shows a manager no users of another domain", func(ctx SpecContext) {
		w := newWorld(ctx)
		for _, policy := range []int{broken, mended, sound} {
			enforce(ctx, files[policy])
			for domain, matches := range map[string]OmegaMatcher{w.places[other].domain: BeEmpty(), "": HaveEach(HaveField("DomainID", w.places[own].domain))} {
				page, err := users.List(w.callers[manager].ServiceClient, users.ListOpts{DomainID: domain}).AllPages(ctx)
				Expect(err).NotTo(HaveOccurred())
				Expect(users.ExtractUsers(page)).To(matches)
			}
		}
	}, SpecTimeout(specTimeout))
})
