package serve

import (
	"net/http"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// withExemplars serves the metrics instead of controller-runtime's handler. It serves OpenMetrics to clients that accept it, because only
// that format has exemplars, and never compresses. A compressor holds more memory than everything else on the heap of an idle serve, and
// the page has only a few dozen KiB.
func withExemplars(*rest.Config, *http.Client) (metricsserver.Filter, error) {
	return func(logr.Logger, http.Handler) (http.Handler, error) {
		return promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{
			ErrorHandling: promhttp.HTTPErrorOnError, EnableOpenMetrics: true, DisableCompression: true,
		}), nil
	}, nil
}
