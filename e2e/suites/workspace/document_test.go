//go:build e2e

package workspace_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// The report in kcp-dev/kcp#4038: the service account, its home, the workspace whose consumer it acted for, and the owner that kcp
// recorded.
const (
	reportedAccount  = "platform-mesh-provider-account-operator-kubeconfig"
	reportedHome     = "2zdbzrlcu6lvqr7p"
	reportedConsumer = "61i8h8nir1vojygo"
	reportedOwner    = `{"username":"system:serviceaccount:default:platform-mesh-provider-account-operator-kubeconfig",` +
		`"uid":"cad8af27-6d62-4812-8aed-58a3534c1388","groups":["system:serviceaccounts","system:serviceaccounts:default","system:authenticated"],` +
		`"extra":{"authentication.kcp.io/cluster-name":["2zdbzrlcu6lvqr7p"],"authentication.kcp.io/scopes":["cluster:2zdbzrlcu6lvqr7p"],` +
		`"authentication.kubernetes.io/credential-id":["JTI=1caa34c6-0c1b-4734-add3-8f64e013e46f"],` +
		`"authorization.kcp.io/warrant":["{\"user\":\"system:serviceaccount:default:rest\",\"groups\":[\"system:kcp:admin\"],` +
		`\"extra\":{\"authentication.kcp.io/cluster-name\":[\"61i8h8nir1vojygo\"]}}"]}}`
)

// report is the situation of the bug report: an account operator with the kubeconfig of a service account creates workspaces for its consumers,
// through the virtual workspace of its APIExport.
type report struct {
	provider, consumer place
	operator           *rest.Config
}

func newReport(ctx context.Context) report {
	GinkgoHelper()
	r := report{provider: newPlace(ctx), consumer: newPlace(ctx)}
	r.operator = r.provider.ServiceAccount(ctx, reportedAccount)
	return r
}

// here is a text of the report with the logical clusters of this spec.
func (r report) here(text string) string {
	return strings.NewReplacer(reportedHome, r.provider.Cluster, reportedConsumer, r.consumer.Cluster).Replace(text)
}

// create creates a workspace with the reported owner.
func (r report) create(ctx context.Context, options ...kcptest.WorkspaceOption) {
	GinkgoHelper()
	suite.CreateWorkspace(ctx, kcp.ShardAdmin(r.consumer.Path), "test8",
		append(options, kcptest.WithAnnotation(kcptest.OwnerAnnotation, r.here(reportedOwner)))...)
}

// reportedBug specifies the bug, on a kcp without warrantgate.
func reportedBug() {
	It("leaves the workspace of kcp-dev/kcp#4038 in Initializing with the reported owner, for the reported reason", func(ctx SpecContext) {
		r := newReport(ctx)
		r.create(ctx)
		r.consumer.expectStuck(ctx, "test8", deniedBindings("system:serviceaccount:default:"+reportedAccount))
	}, SpecTimeout(specTimeout))

	It("records the reported owner of a workspace that is created as in kcp-dev/kcp#4038", func(ctx SpecContext) {
		admitted, err := kcp.AdmitsServiceAccounts()
		Expect(err).NotTo(HaveOccurred())
		r := newReport(ctx)
		r.provider.exportWithClaim(ctx)
		Expect(kcptest.Grant(ctx, r.provider.Admin(), kcptest.ServiceAccountSubject("default", reportedAccount),
			kcptest.Rule("apis.kcp.io", []string{"apiexports/content"}, []string{"*"}))).To(Succeed())
		r.consumer.bindWithClaim(ctx, r.provider)
		r.consumer.createThrough(ctx, r.provider, r.operator, "test8")
		if !admitted {
			return // createThrough has shown that kcp v0.30 denies this route to service accounts
		}
		r.consumer.expectStuck(ctx, "test8", deniedBindings("system:serviceaccount:default:"+reportedAccount))

		ws, err := kcptest.GetWorkspace(ctx, r.consumer.Admin(), "test8")
		Expect(err).NotTo(HaveOccurred())
		Expect(withoutUUIDs(ws.Annotations[kcptest.OwnerAnnotation])).To(Equal(withoutUUIDs(r.here(reportedOwner))), "equal to the report, except for the UIDs")
	}, SpecTimeout(specTimeout))
}

var _ = Describe("The workspace of kcp-dev/kcp#4038", func() {
	It("becomes Ready with the reported owner and warrantgate, and the service account works in it", func(ctx SpecContext) {
		r := newReport(ctx)
		r.create(ctx)
		expectAtHome(ctx, r.operator, r.consumer.WaitReady(ctx, "test8").Spec.Cluster)
	}, SpecTimeout(specTimeout))

	It("has the same owner in the annotation and in spec.createdBy, and no administrator in either", func(ctx SpecContext) {
		r := newReport(ctx)
		r.create(ctx, r.consumer.heldType(ctx))
		cluster := r.consumer.WaitInitializing(ctx, "test8").Spec.Cluster
		lc, err := kcptest.GetLogicalCluster(ctx, kcp.ShardAdmin(cluster))
		Expect(err).NotTo(HaveOccurred())
		ws, err := kcptest.GetWorkspace(ctx, r.consumer.Admin(), "test8")
		Expect(err).NotTo(HaveOccurred())

		want := authenticationv1.UserInfo{
			Username: r.provider.GlobalName(reportedAccount), Groups: []string{"system:authenticated"},
			Extra: map[string]authenticationv1.ExtraValue{"authorization.kcp.io/warrant": {r.here(
				`{"user":"system:serviceaccount:default:` + reportedAccount + `","uid":"cad8af27-6d62-4812-8aed-58a3534c1388",` +
					`"groups":["system:serviceaccounts","system:serviceaccounts:default","system:authenticated"],` +
					`"extra":{"authentication.kcp.io/cluster-name":["2zdbzrlcu6lvqr7p"],"authentication.kcp.io/scopes":["cluster:2zdbzrlcu6lvqr7p"]}}`)}},
		}
		for _, annotation := range []string{ws.Annotations[kcptest.OwnerAnnotation], lc.Annotations[kcptest.OwnerAnnotation]} {
			var got authenticationv1.UserInfo
			Expect(json.Unmarshal([]byte(annotation), &got)).To(Succeed())
			Expect(got).To(Equal(want))
		}
		Expect(ownerOf(lc)).To(Equal(want))
		Expect(lc.Spec.CreatedBy != nil).To(Equal(suite.ByPolicy(kcp))) // which kcp v0.32 has, too
	}, SpecTimeout(specTimeout))
})

var uuid = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// withoutUUIDs replaces the values that differ for each service account and token.
func withoutUUIDs(text string) string { return uuid.ReplaceAllString(text, "UUID") }
