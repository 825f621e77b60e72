package serve

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// newMetricsHandler serves OpenMetrics to clients that accept it, because only that format has exemplars, and never compresses. A compressor
// holds more memory than everything else on the heap of an idle serve, and the page has only a few dozen KiB.
func newMetricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.HTTPErrorOnError, EnableOpenMetrics: true, DisableCompression: true,
	}))
	return mux
}
