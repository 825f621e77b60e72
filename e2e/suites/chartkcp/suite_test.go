//go:build e2e

// Package chartkcp_test installs the chart with helm in a real kube-apiserver beside a real kcp. The Jobs and Pods that helm
// makes run as processes, with the arguments and files that they would have, and so does warrantgate itself.
package chartkcp_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	// startTimeout is what a kcp, a kube-apiserver and helm may take on a busy machine.
	startTimeout = 8 * time.Minute
	specTimeout  = 4 * time.Minute
)

func TestChartBesideKCP(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	RunSpecs(t, "The chart beside a kcp")
}
