//go:build e2e

package workspace_test

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/env/volume"
)

// forgers is the number of connections that patch the annotation at the same time.
const forgers = 4

// forgeries is the number of workspaces that are created during the attack. Without warrantgate, a few of ten are forged.
var forgeries = volume.Of(5, 100)

// kcp checks the owner only when a Workspace is created; the scheduler reads it some milliseconds later.
var _ = Describe("Forging the owner of a workspace while it is created", func() {
	It("never works with warrantgate", func(ctx SpecContext) {
		attack := newAttack(ctx)
		Expect(attack.run(ctx, forgeries)).To(BeZero())
		Expect(attack.unharmed).To(BeZero(), "a patch must have reached every workspace")
	}, SpecTimeout(manyWorkspaces))

	It("never works while warrantgate is down, and users' workspaces still become Ready", func(ctx SpecContext) {
		attack := newAttack(ctx)
		stopGate()
		Expect(attack.run(ctx, forgeries)).To(BeZero())
		Expect(attack.unharmed).To(BeZero(), "a patch must have reached every workspace")

		suite.CreateWorkspace(ctx, attack.mallory, "honest")
		attack.place.WaitReady(ctx, "honest")
	}, SpecTimeout(manyWorkspaces))
})

// attack is a user who patches the owner of its own new workspaces in a loop.
type attack struct {
	place   place
	mallory *rest.Config
	held    kcptest.WorkspaceOption
	// met counts patches that reached a workspace, whether they were denied or not.
	met atomic.Int64
	// unharmed counts workspaces that no patch reached before they were scheduled.
	unharmed int
}

func newAttack(ctx context.Context) *attack {
	GinkgoHelper()
	p := newPlace(ctx)
	return &attack{place: p, mallory: p.User(ctx, "mallory"), held: p.heldType(ctx)}
}

// run creates n workspaces during the attack and returns the number of those in which kcp then acts as another user.
func (a *attack) run(ctx context.Context, n int) int {
	GinkgoHelper()
	clients := make([]client.Client, 0, forgers)
	for range forgers {
		clients = append(clients, suite.KCPClient(kcptest.OwnConnection(a.mallory)))
	}
	wins := 0
	for i := range n {
		if a.one(ctx, clients, fmt.Sprintf("target-%d", i)) != "mallory" {
			wins++
		}
	}
	AddReportEntry("forgeries", fmt.Sprintf("%d of %d succeeded, %d patches reached a workspace", wins, n, a.met.Load()))
	return wins
}

// one attacks one workspace until it is scheduled, and returns the owner that kcp has recorded.
func (a *attack) one(ctx context.Context, clients []client.Client, name string) string {
	GinkgoHelper()
	fireCtx, ceaseFire := context.WithCancel(ctx)
	firing := make(chan struct{}, len(clients))
	for _, c := range clients {
		go func() {
			defer func() { firing <- struct{}{} }()
			a.fire(fireCtx, c, name)
		}()
	}
	met := a.met.Load()
	suite.CreateWorkspace(ctx, a.mallory, name, a.held)
	cluster := a.place.WaitInitializing(ctx, name).Spec.Cluster
	if a.met.Load() == met {
		a.unharmed++
	}
	ceaseFire()
	for range clients {
		<-firing
	}
	lc, err := kcptest.GetLogicalCluster(ctx, a.place.Server.ShardAdmin(cluster))
	Expect(err).NotTo(HaveOccurred())
	Expect(lc.Status.Phase).To(Equal(corev1alpha1.LogicalClusterPhaseInitializing))
	// kcp reads the annotation or spec.createdBy, depending on its version; neither may be forged.
	if owner := lc.Annotations[kcptest.OwnerAnnotation]; owner == forgedOwner {
		return "root-boss"
	}
	return ownerOf(lc).Username
}

// fire patches the owner until ctx is canceled.
func (a *attack) fire(ctx context.Context, c client.Client, name string) {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, kcptest.OwnerAnnotation, forgedOwner))
	for ctx.Err() == nil {
		ws := &tenancyv1alpha1.Workspace{}
		ws.Name = name
		if err := c.Patch(ctx, ws, patch); err == nil || apierrors.IsForbidden(err) {
			a.met.Add(1)
		}
	}
}
