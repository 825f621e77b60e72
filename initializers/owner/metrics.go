package owner

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// No label holds a user, workspace or object.
var (
	repairs = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "warrantgate_repairs_total",
		Help: "Workspaces that the repair checked, by outcome (repaired, retriggered, foreign, fine, waiting, not-correctable, differs, gone, failed).",
	}, []string{"outcome"})
	initialized = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "warrantgate_initializations_total",
		Help: "Workspaces that waited for the initializer of type warranted, by outcome (fine, repaired, not-correctable, differs, failed).",
	}, []string{"outcome"})
	stuck = promauto.With(metrics.Registry).NewGauge(prometheus.GaugeOpts{
		Name: "warrantgate_stuck_workspaces",
		Help: "Workspaces that have been Initializing for longer than repair.after, as seen by the replica that holds the Lease.",
	})
)
