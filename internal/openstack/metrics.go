package openstack

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// cloudName is the word for this cloud in metrics.
const cloudName = "openstack"

// operation is what a request is for, as a word for metrics and errors.
type operation string

const (
	opToken  operation = "token"
	opServer operation = "server"
	opList   operation = "list"
)

// codeError is the code of a request that got no answer, or none that could be understood.
const codeError = "error"

// The metrics of all clouds are the same, so that they can be looked at together. Whichever cloud comes first has made them.
var (
	requestsTotal = shared(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "warrantgate_cloud_requests_total",
		Help: "Requests to clouds by operation and by class of the status (2xx, 3xx, 4xx, 5xx), or error where there was no answer that could be understood.",
	}, []string{"cloud", "operation", "code"}))
	requestDuration = shared(prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "warrantgate_cloud_request_duration_seconds",
		Help:    "Seconds from a request to a cloud to the end of its answer.",
		Buckets: prometheus.DefBuckets,
	}, []string{"cloud", "operation"}))
)

// shared registers a collector, or returns the one that is there already.
func shared[C prometheus.Collector](collector C) C {
	err := metrics.Registry.Register(collector)
	var registered prometheus.AlreadyRegisteredError
	if errors.As(err, &registered) {
		if existing, same := registered.ExistingCollector.(C); same {
			return existing
		}
	}
	if err != nil { // another metric has the name: a mistake in the program, as with MustRegister
		panic(err)
	}
	return collector
}

func init() { //nolint:gochecknoinits // collectors belong to the process, like the registry that they are put into
	for _, op := range []operation{opToken, opServer, opList} {
		requestDuration.WithLabelValues(cloudName, string(op))
		for _, code := range []string{"2xx", "3xx", "4xx", "5xx", codeError} {
			requestsTotal.WithLabelValues(cloudName, string(op), code)
		}
	}
}

// observe counts one request. Any status outside of 200 to 599 is none that HTTP knows, so it counts as an error.
func observe(op operation, status int, understood bool, took time.Duration) {
	code := codeError
	if class := status / 100; class > 2 && class < 6 || class == 2 && understood {
		code = fmt.Sprintf("%dxx", class)
	}
	requestsTotal.WithLabelValues(cloudName, string(op), code).Inc()
	requestDuration.WithLabelValues(cloudName, string(op)).Observe(took.Seconds())
}
