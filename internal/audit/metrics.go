package audit

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	findings = promauto.With(metrics.Registry).NewGaugeVec(prometheus.GaugeOpts{
		Name: "warrantgate_audit_findings",
		Help: "Findings of the last run of the audit and about machines that changed since, by platform (kubernetes, kcp) and reason. " +
			"Only the replica that holds the Lease has them.",
	}, []string{"platform", "reason"})
	runs = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "warrantgate_audit_runs_total",
		Help: "Runs of the audit by outcome: complete, incomplete (not everything could be checked).",
	}, []string{"outcome"})
	requests = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
		Name: "warrantgate_audit_cloud_requests_total",
		Help: "Requests to clouds for lists of instances that the audit caused.",
	})
)

func observe(result Result, err error) {
	outcome := "complete"
	if err != nil {
		outcome = "incomplete"
	}
	runs.WithLabelValues(outcome).Inc()
	requests.Add(float64(result.Requests))
}

// show replaces the findings of a platform.
func show(platform string, all []Finding) {
	forget(platform) // removes reasons without findings
	for _, finding := range all {
		findings.WithLabelValues(platform, finding.Reason).Inc()
	}
}

func forget(platform string) { findings.DeletePartialMatch(prometheus.Labels{"platform": platform}) }
