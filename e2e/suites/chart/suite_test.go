//go:build e2e

// Package chart_test installs the chart with helm in a real kube-apiserver. It runs warrantgate as the pods of its Deployment would,
// with their arguments and files, and as their service account.
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

// timeout limits a spec.
const timeout = time.Minute
