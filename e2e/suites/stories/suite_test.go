//go:build e2e

// Package stories_test tells the main story of each gate, its most important denial, and what "kubectl describe" shows, on one kcp and one
// kube-apiserver. There is one file for each row of the README's table of gates. "make test" runs it before each change; the other suites
// test each gate in depth.
//
// Each spec has a workspace or a namespace of its own. The one who is denied has every permission there.
package stories_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"warrantgate.dev/e2e/env/suite"
)

const (
	startTimeout = 5 * time.Minute
	// specTimeout limits a spec, far above what it takes on a busy machine.
	specTimeout = 3 * time.Minute
	// patience is the timeout of Eventually.
	patience = time.Minute
)

// The worlds of the suite.
var (
	kcp  *kcpWorld
	kube *kubeWorld
)

func TestStories(t *testing.T) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	suite.Run(t, "Stories", patience, 100*time.Millisecond)
}

var _ = BeforeSuite(func(ctx SpecContext) {
	kcp, kube = &kcpWorld{}, &kubeWorld{}
	DeferCleanup(func() {
		Expect(kcp.stop()).To(Succeed())
		Expect(kube.stop()).To(Succeed())
	})
	worlds, ctxStart := errgroup.WithContext(ctx)
	worlds.Go(func() error {
		defer GinkgoRecover()
		kcp.start(ctxStart)
		return nil
	})
	worlds.Go(func() error { return kube.start(ctxStart) })
	Expect(worlds.Wait()).To(Succeed())
	kube.awaitGates(ctx)
}, NodeTimeout(startTimeout))

// The logs of a failed run are kept.
var _ = JustAfterEach(func() {
	if !CurrentSpecReport().Failed() {
		return
	}
	kcp.server.KeepDir()
	AddReportEntry("logs are kept", kcp.server.LogFile()+" "+kcp.gate.LogFile()+" "+kube.gate.LogFile())
})

// within limits a wait that is a part of a spec.
func within(ctx context.Context) context.Context {
	ctx, cancel := context.WithTimeout(ctx, patience)
	DeferCleanup(cancel)
	return ctx
}
