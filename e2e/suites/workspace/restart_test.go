//go:build e2e

package workspace_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/env/volume"
)

// creators is the number of service accounts. Each creates one workspace.
var creators = volume.Of(6, 30)

// An upgrade or a crash of warrantgate only delays workspaces.
var _ = Describe("Killing warrantgate while service accounts create workspaces", func() {
	It("leaves no workspace stuck once it runs again", func(ctx SpecContext) {
		parent := newPlace(ctx)
		bots := make([]*rest.Config, creators)
		for i := range bots {
			bots[i] = parent.ServiceAccount(ctx, fmt.Sprintf("bot-%d", i))
		}

		var created atomic.Int64
		thirdCreated, allCreated := make(chan struct{}), make(chan error, 1)
		go func() { allCreated <- createAll(ctx, bots, &created, thirdCreated) }()
		<-thirdCreated
		gate.Kill()
		err := <-allCreated
		Expect(gate.Start(ctx)).To(Succeed())
		Expect(err).NotTo(HaveOccurred())

		Eventually(ctx, parent.notReady, manyWorkspaces).Should(BeEmpty())
		for i, bot := range bots {
			ws, err := kcptest.GetWorkspace(ctx, parent.Admin(), fmt.Sprintf("child-%d", i))
			Expect(err).NotTo(HaveOccurred())
			expectAtHome(ctx, bot, ws.Spec.Cluster)
		}
	}, SpecTimeout(manyWorkspaces))

	It("delays a new workspace that only the webhook can rewrite, instead of creating it with an owner that kcp cannot act as", func(ctx SpecContext) {
		parent := newPlace(ctx)
		alice := parent.Impersonated(ctx, "alice") // no admission policy rewrites this owner
		Expect(gate.Stop()).To(Succeed())
		restart := sync.OnceValue(func() error { return gate.Start(ctx) })
		DeferCleanup(restart)
		suite.CreateWorkspace(ctx, alice, "child")
		Consistently(ctx, func(g Gomega) {
			ws, err := kcptest.GetWorkspace(ctx, parent.Admin(), "child")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(ws.Status.Phase).To(Equal(corev1alpha1.LogicalClusterPhaseScheduling))
			g.Expect(ws.Spec.Cluster).To(BeEmpty())
		}).Should(Succeed())

		Expect(restart()).To(Succeed())
		child := parent.WaitReady(ctx, "child")
		Expect(child.Annotations).To(HaveKeyWithValue(kcptest.CreatedByAnnotation, "alice"))
	}, SpecTimeout(specTimeout))
})

// createAll makes each service account create a workspace, with limited concurrency, and closes third after a third of them.
func createAll(ctx context.Context, bots []*rest.Config, created *atomic.Int64, third chan<- struct{}) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(5)
	for i, bot := range bots {
		group.Go(func() error {
			_, err := kcptest.TryCreateWorkspace(ctx, bot, fmt.Sprintf("child-%d", i))
			if created.Add(1) == int64(len(bots)/3) {
				close(third)
			}
			return err
		})
	}
	return group.Wait()
}

// notReady describes the workspaces here that are not Ready.
func (p place) notReady(ctx context.Context) ([]string, error) {
	list := &tenancyv1alpha1.WorkspaceList{}
	if err := p.Client().List(ctx, list); err != nil {
		return nil, err
	}
	waiting := []string{}
	for i := range list.Items {
		if ws := &list.Items[i]; ws.Status.Phase != corev1alpha1.LogicalClusterPhaseReady {
			waiting = append(waiting, fmt.Sprint(ws.Name, " ", ws.Status.Phase, " ", conditionsOf(ws)))
		}
	}
	return waiting, nil
}
