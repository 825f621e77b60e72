//go:build e2e

// Package chart_test installs the chart with helm in a real kube-apiserver, and runs warrantgate as the pods of its
// Deployment would: with their arguments and files, and as their service account.
package chart_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestChart(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "chart")
}

// timeout is how long a story may take.
const timeout = time.Minute
