package cloudsigma

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// cloudName is the word for this cloud in metrics.
const cloudName = "cloudsigma"

// operation is what a request is for, as a word for metrics and errors.
type operation string

const (
	opServer  operation = "server"
	opProfile operation = "profile"
	opList    operation = "list"
)

// codeError is the code of a request that got no answer, or none that could be understood.
const codeError = "error"

var (
	requestsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "warrantgate_cloud_requests_total",
		Help: "Requests to clouds by operation and by class of the status (2xx, 3xx, 4xx, 5xx), or error where there was no answer that could be understood.",
	}, []string{"cloud", "operation", "code"})
	requestDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "warrantgate_cloud_request_duration_seconds",
		Help:    "Seconds from a request to a cloud to the end of its answer.",
		Buckets: prometheus.DefBuckets,
	}, []string{"cloud", "operation"})
)

func init() { //nolint:gochecknoinits // collectors belong to the process, like the registry that they are put into
	metrics.Registry.MustRegister(requestsTotal, requestDuration)
	for _, op := range []operation{opServer, opProfile, opList} {
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
