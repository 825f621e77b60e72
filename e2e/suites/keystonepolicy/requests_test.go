//go:build e2e

package keystonepolicy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/internal/oslopolicy"
)

// chosen are alternatives of a rule that the holder of a token satisfies by what it sends, or that are true for almost all objects or tokens.
// Keystone admits the request, which reaches beyond the domain of the holder. USER is a user of another domain,
// OTHER, with the EC2 credential ACCESS, and DOMAIN the domain of the holder.
var chosen = []struct {
	operation, alternative, helpers string
	holder, request, body           string
	// subject is true if the holder sends its token as the subject of the request, too.
	subject bool
	// base is a policy that Keystone loads before.
	base string
}{
	// The linter tries these values.
	{operation: "update_user", alternative: "not 'another-id':%(target.user.id)s", request: "PATCH users/USER"},
	{operation: "update_user", alternative: "not user_id:caller", request: "PATCH users/USER"},
	// Null is equal to null.
	{operation: "update_user", alternative: "(system_scope:%(request_body.x)s and not system_scope:all)", request: "PATCH users/USER", body: `{"x": null}`},
	{operation: "update_user", alternative: "(system_scope:%(target.user.password_expires_at)s and not system_scope:all)", request: "PATCH users/USER"},
	// Keystone gives the policy the body of each request.
	{
		operation: "get_user", alternative: "rule:flagged", request: "GET users/USER", body: `{"flag": "yes"}`,
		helpers: "flagged: \"'yes':%(request_body.flag)s\"\nidentity:update_user: rule:admin_required or (role:admin and rule:flagged)\n",
	},
	// Keystone gives the policy the token that the request names as its subject.
	{operation: "list_users", alternative: "rule:token_subject", request: "GET users", subject: true},
	{operation: "create_region", alternative: "rule:local", helpers: "local: rule:token_subject\n", request: "POST regions", body: `{"region": {"description": 1}}`, subject: true},
	// Objects of these kinds are in no domain, so the field has no effect.
	{
		operation: "create_domain", alternative: "(role:manager and domain_id:%(request_body.domain.domain_id)s)", holder: "manager of the domain",
		request: "POST domains", body: `{"domain": {"domain_id": "DOMAIN", "name": 1}}`,
	},
	{
		operation: "create_endpoint", alternative: "(role:manager and domain_id:%(request_body.endpoint.domain_id)s)", holder: "manager of the domain",
		request: "POST endpoints", body: `{"endpoint": {"domain_id": "DOMAIN"}}`,
	},
	{
		operation: "create_credential", alternative: "(role:manager and domain_id:%(target.credential.domain_id)s)", holder: "manager of the domain",
		request: "POST credentials", body: `{"credential": {"domain_id": "DOMAIN", "user_id": "USER"}}`,
	},
	// A token without a scope counts as one for the admin project.
	{
		operation: "list_users", alternative: "(is_admin_project:True and project_id:None and not system_scope:all)", holder: "user without a scope",
		request: "GET users",
	},
	// A domain is also a project, which has no domain.
	{
		operation: "update_project", alternative: "(role:observer and None:%(target.project.domain_id)s)", holder: "observer of a project", base: "cloud_admin: role:admin\n",
		request: "PATCH projects/OTHER",
	},
	// The user in the path need not be the owner of the credential.
	{operation: "ec2_get_credential", alternative: "rule:owner", request: "GET users/SELF/credentials/OS-EC2/ACCESS"},
}

var _ = Describe("A rule that tenants can satisfy", func() {
	It("is an error of the linter", func(ctx SpecContext) {
		w := newRandomWorld(ctx)
		away, admin := w.places[other], keystone.Admin()
		var created struct{ Credential struct{ Access string } }
		response, err := admin.Post(ctx, admin.ServiceURL("users", away.user.ID, "credentials", "OS-EC2"), object{"tenant_id": away.project}, &created, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(response.Body.Close()).To(Succeed())
		replace := strings.NewReplacer("USER", away.user.ID, "DOMAIN", w.places[own].domain, "OTHER", away.domain, "ACCESS", created.Credential.Access).Replace
		type answer struct {
			Admitted bool
			Severity string
		}
		want, got := map[string]answer{}, map[string]answer{}
		for _, row := range chosen {
			policy := fmt.Sprintf("%q: %q\n%s", prefix+row.operation, "rule:admin_required or "+row.alternative, row.helpers)
			Expect(keystone.SetPolicy(ctx, []byte(row.base), []byte(policy))).To(Succeed())
			var options oslopolicy.LintOptions
			if row.base != "" {
				options.Base, err = oslopolicy.ReadAll([]oslopolicy.Source{{Name: "base", Data: []byte(row.base)}})
				Expect(err).NotTo(HaveOccurred())
			}
			name := row.holder
			if name == "" {
				name = "member of a project"
			}
			h := w.holders[slices.IndexFunc(w.holders, func(h holder) bool { return h.name == name })]
			p := probe{subject: row.subject}
			p.method, p.path, _ = strings.Cut(replace(row.request), " ")
			switch {
			case row.body != "":
				Expect(json.Unmarshal([]byte(replace(row.body)), &p.body)).To(Succeed())
			case p.method == http.MethodPatch:
				invalid := object{"description": 1}
				p.body = object{"user": invalid, "project": invalid}
			}
			allowed, _ := w.send(ctx, h, p)
			want[policy], got[policy] = answer{true, string(oslopolicy.SeverityError)}, answer{allowed, worst(ctx, policy, options)}
		}
		Expect(cmp.Diff(want, got)).To(BeEmpty(), "answers of Keystone and severities of the linter (-want +got)")
	}, SpecTimeout(specTimeout))
})
