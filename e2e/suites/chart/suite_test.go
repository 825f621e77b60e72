//go:build e2e

// Package chart_test installs the chart with helm in a real kube-apiserver. It runs warrantgate as the pods of its Deployment would,
// with their arguments and files, and as their service account.
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
