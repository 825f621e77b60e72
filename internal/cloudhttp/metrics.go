package cloudhttp

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Operation is what a request is for, as a word for metrics and errors.
type Operation string

// codeError is the code of a request that got no answer, or none that could be understood.
const codeError = "error"

// codes are the codes of answers by the class of their status. Any status outside of 200 to 599 is none that HTTP knows.
var codes = [...]string{2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"}

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
}

// Requests counts the requests to one cloud.
type Requests struct{ cloud string }

// NewRequests returns the counts of a cloud, under its word in metrics. All that there can be are 0 from then on.
func NewRequests(cloud string, operations ...Operation) Requests {
	for _, operation := range operations {
		requestDuration.WithLabelValues(cloud, string(operation))
		for _, code := range append([]string{codeError}, codes[2:]...) {
			requestsTotal.WithLabelValues(cloud, string(operation), code)
		}
	}
	return Requests{cloud: cloud}
}

// Observe counts one request. The status is 0 where there was no answer; understood tells whether an answer that is none of an
// error could be read.
func (r Requests) Observe(operation Operation, status int, understood bool, took time.Duration) {
	requestsTotal.WithLabelValues(r.cloud, string(operation), codeOf(status, understood)).Inc()
	requestDuration.WithLabelValues(r.cloud, string(operation)).Observe(took.Seconds())
}

func codeOf(status int, understood bool) string {
	class := status / 100
	if class < 2 || class >= len(codes) || class == 2 && !understood {
		return codeError
	}
	return codes[class]
}
