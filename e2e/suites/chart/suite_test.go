//go:build e2e

// Package chart_test installs the chart with helm in a real kube-apiserver. It runs warrantgate as processes with the arguments, files and
// service account of the Deployment's pods.
package chart_test

import (
	"testing"
	"time"

	"warrantgate.dev/e2e/env/suite"
)

func TestChart(t *testing.T) {
	suite.Run(t, "chart", 30*time.Second, 50*time.Millisecond)
}

// timeout limits a spec.
const timeout = time.Minute
