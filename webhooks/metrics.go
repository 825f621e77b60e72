package webhooks

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// No label contains a user, workspace or object, so the number of series is limited to gates times reasons.
var (
	admissions = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "warrantgate_admissions_total",
		Help: "Admission requests by gate, decision (allowed, denied, warned, error) and reason.",
	}, []string{"gate", "decision", "reason"})
	duration = promauto.With(metrics.Registry).NewHistogramVec(prometheus.HistogramOpts{
		Name:    "warrantgate_admission_duration_seconds",
		Help:    "Time to a decision by gate and decision, without transport.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
	}, []string{"gate", "decision"})
)

// observe counts an answer. The ID of a sampled trace becomes the exemplar of the duration.
func observe(ctx context.Context, gate string, decision Decision, reason string, took time.Duration) {
	admissions.WithLabelValues(gate, decision.String(), reason).Inc()
	durations := duration.WithLabelValues(gate, decision.String())
	if id, sampled := traceOf(ctx); sampled {
		if exemplars, ok := durations.(prometheus.ExemplarObserver); ok {
			exemplars.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": id})
			return
		}
	}
	durations.Observe(took.Seconds())
}
