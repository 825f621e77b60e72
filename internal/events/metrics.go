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
	outcomeDropped    outcome = "dropped"    // the queue was full
	outcomeSuppressed outcome = "suppressed" // too many of one reason on one object
	outcomeOff        outcome = "off"        // no permission to write Events
)

var total = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "warrantgate_events_total",
	Help: "Events by outcome: written, failed, dropped (queue full), suppressed (too many of one reason on one object), off (no permission).",
}, []string{"outcome"})

var waiting = prometheus.NewGauge(prometheus.GaugeOpts{
	Name: "warrantgate_events_waiting",
	Help: "Events that wait to be written. If the queue is full, further Events are dropped.",
})

func init() { //nolint:gochecknoinits // a collector belongs to the process, as its registry does
	metrics.Registry.MustRegister(total, waiting)
	for _, o := range []outcome{outcomeWritten, outcomeFailed, outcomeDropped, outcomeSuppressed, outcomeOff} {
		total.WithLabelValues(string(o))
	}
}

func count(o outcome) {
	total.WithLabelValues(string(o)).Inc()
}
