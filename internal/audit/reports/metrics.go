package reports

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// outcome is the result for a report.
type outcome string

const (
	wrote       outcome = "written"
	deleted     outcome = "deleted"
	failed      outcome = "failed"      // the API server rejected a request or did not answer
	unsupported outcome = "unsupported" // a run of the audit had no kind of reports
)

var total = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "warrantgate_audit_reports_total",
	Help: "Reports of the audit by outcome: written, deleted, failed, unsupported (a run wrote none, because the API server has no such kind).",
}, []string{"outcome"})

func init() { //nolint:gochecknoinits // a collector belongs to the process, like the registry that it is put into
	metrics.Registry.MustRegister(total)
	for _, o := range []outcome{wrote, deleted, failed, unsupported} {
		total.WithLabelValues(string(o))
	}
}

func count(o outcome) { total.WithLabelValues(string(o)).Inc() }
