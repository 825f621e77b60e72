//go:build e2e

// Package chart_test installs the chart with helm in a real kube-apiserver. It runs warrantgate as processes with the arguments, files and
// service account of the Deployment's pods.
package chart_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
)

func TestChart(t *testing.T) {
	suite.Run(t, "chart", 2*time.Minute, 50*time.Millisecond)
}

const (
	// timeout limits a spec, storyTimeout one with several upgrades.
	timeout, storyTimeout = 5 * time.Minute, 10 * time.Minute
)

// api is the API server of all stories. Each installs the chart, and uninstalls it at its end.
var api *kubetest.Server

var _ = BeforeSuite(func(ctx SpecContext) {
	api = suite.KubeAPIServer(ctx)
	prepare(ctx)
}, NodeTimeout(timeout))
