package events

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// outcome is the result for an Event.
type outcome string

const (
	outcomeWritten    outcome = "written"
	outcomeFailed     outcome = "failed"     // the API server rejected it or did not answer
	outcomeDropped    outcome = "dropped"    // the tenant had no place for it, or the API server did not answer
	outcomeSuppressed outcome = "suppressed" // too many of one reason on one object
	outcomeOff        outcome = "off"        // no permission to write Events
)

var total = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "warrantgate_events_total",
	Help: "Events by outcome: written, failed, dropped (no place to wait, or the API server does not answer), suppressed (too many of one reason on one object), off (no permission).",
}, []string{"outcome"})

func init() { //nolint:gochecknoinits // a collector belongs to the process, as its registry does
	metrics.Registry.MustRegister(total)
	for _, o := range []outcome{outcomeWritten, outcomeFailed, outcomeDropped, outcomeSuppressed, outcomeOff} {
		total.WithLabelValues(string(o))
	}
}

func count(o outcome) {
	total.WithLabelValues(string(o)).Inc()
}
