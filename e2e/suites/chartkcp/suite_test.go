//go:build e2e

// Package chartkcp_test installs the chart with helm in a real kube-apiserver beside a real kcp. The Jobs and Pods of helm, and
// warrantgate itself, run as processes with the arguments and files that they would have.
package chartkcp_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

const (
	// startTimeout limits the start of a kcp, a kube-apiserver and helm on a busy machine.
	startTimeout = 8 * time.Minute
	specTimeout  = 4 * time.Minute
)

func TestChartBesideKCP(t *testing.T) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	suite.Run(t, "The chart beside a kcp", 2*time.Minute, 100*time.Millisecond)
}

// The world with a kcp of one shard. Stories install a release in it, one after the other, and uninstall it.
var (
	oneShard *world
	// bot is a service account of root:provider that may create workspaces there.
	bot *rest.Config
)

var _ = BeforeSuite(func(ctx SpecContext) {
	oneShard = newWorld(ctx)
	bot = oneShard.bot(ctx)
	Expect(kcptest.Grant(ctx, oneShard.kcp.Admin("root"), kcptest.User("alice"), kcptest.CreatorRules()...)).To(Succeed())
}, NodeTimeout(startTimeout))

// begin returns the world with the values that it had at first.
func begin() *world {
	oneShard.values = oneShard.defaults
	return oneShard
}
