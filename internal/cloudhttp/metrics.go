package cloudhttp

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Operation is the purpose of a request, for metrics and errors.
type Operation string

// codeError is the code label of a request without a response, or with a response that cannot be parsed.
const codeError = "error"

// codes are the code labels by the class of the status. HTTP defines no status outside of 200 to 599 for a final response.
var codes = [...]string{2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"}

var (
	requestsTotal = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "warrantgate_cloud_requests_total",
		Help: "Requests to clouds and their identity providers by operation and by class of the status (2xx, 3xx, 4xx, 5xx), or error without a response that can be parsed.",
	}, []string{"cloud", "operation", "code"})
	requestDuration = promauto.With(metrics.Registry).NewHistogramVec(prometheus.HistogramOpts{
		Name:    "warrantgate_cloud_request_duration_seconds",
		Help:    "Seconds from a request to a cloud to the end of its response.",
		Buckets: prometheus.DefBuckets,
	}, []string{"cloud", "operation"})
)

// Requests counts the requests to one cloud.
type Requests struct{ cloud string }

// NewRequests returns the counters of a cloud, with the label cloud. It creates all series, with value 0.
func NewRequests(cloud string, operations ...Operation) Requests {
	for _, operation := range operations {
		requestDuration.WithLabelValues(cloud, string(operation))
		for _, code := range append([]string{codeError}, codes[2:]...) {
			requestsTotal.WithLabelValues(cloud, string(operation), code)
		}
	}
	return Requests{cloud: cloud}
}

// Observe counts one request. status is 0 without a response. understood reports whether a response with status 2xx could be parsed.
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
