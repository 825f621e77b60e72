//go:build e2e

// Package replicas_test shows that admissions go on, and that each is judged as it has to be, while replicas of the chart's
// Deployment end, are killed, come back and get other certificates, and while what they live on is not as it should be: the
// clock, the disk, the API server, the Lease.
package replicas_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestReplicas(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "replicas")
}

const (
	// startTimeout is how long a world may take to start.
	startTimeout = 3 * time.Minute
	// timeout is how long a story may take.
	timeout = 3 * time.Minute
)
