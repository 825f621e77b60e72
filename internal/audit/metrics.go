package audit

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	findings = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "warrantgate_audit_findings",
		Help: "What the last pass of the audit found, by reason. Only the replica that leads has them.",
	}, []string{"reason"})
	passes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "warrantgate_audit_passes_total",
		Help: "Passes of the audit by outcome: complete, incomplete (not all accounts could be looked at).",
	}, []string{"outcome"})
	requests = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "warrantgate_audit_cloud_requests_total",
		Help: "Requests to clouds for lists of instances that the audit caused.",
	})
)

func init() { //nolint:gochecknoinits // a collector belongs to the process, like the registry that it is put into
	metrics.Registry.MustRegister(findings, passes, requests)
}

func observe(result Result, err error) {
	outcome := "complete"
	if err != nil {
		outcome = "incomplete"
	}
	passes.WithLabelValues(outcome).Inc()
	requests.Add(float64(result.Requests))
	findings.Reset() // a reason that is found no more is not there
	for _, finding := range result.Findings {
		findings.WithLabelValues(finding.Reason).Inc()
	}
}
