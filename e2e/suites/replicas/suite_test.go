//go:build e2e

// Package replicas_test tests that admissions continue with the expected verdicts while replicas of the chart's Deployment end, are
// killed, start and get other certificates, and during failures of their environment: the clock, the API server, the Lease.
package replicas_test

import (
	"testing"
	"time"

	"warrantgate.dev/e2e/env/suite"
)

func TestReplicas(t *testing.T) {
	suite.Run(t, "replicas", 3*time.Minute, 50*time.Millisecond)
}

const (
	// startTimeout limits the start of a world.
	startTimeout = 5 * time.Minute
	// timeout limits a spec.
	timeout = 8 * time.Minute
)
