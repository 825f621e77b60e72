//go:build e2e

// Package chartkcp_test installs the chart with helm in a real kube-apiserver beside a real kcp. The Jobs and Pods of helm, and
// warrantgate itself, run as processes with the arguments and files that they would have.
package chartkcp_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	// startTimeout limits the start of a kcp, a kube-apiserver and helm on a busy machine.
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
