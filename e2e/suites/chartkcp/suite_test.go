//go:build e2e

// Package chartkcp_test installs the chart with helm in a real kube-apiserver beside a real kcp. The Jobs and Pods of helm, and
// warrantgate itself, run as processes with the arguments and files that they would have.
package chartkcp_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/suite"
)

const (
	// startTimeout limits the start of a kcp, a kube-apiserver and helm on a busy machine.
	startTimeout = 8 * time.Minute
	specTimeout  = 4 * time.Minute
)

func TestChartBesideKCP(t *testing.T) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	suite.Run(t, "The chart beside a kcp", time.Minute, 100*time.Millisecond)
}
