package serve

import (
	"net/http"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// withExemplars serves the metrics in the place of controller-runtime's handler: as OpenMetrics to who accepts that, for the
// exemplars that the other format cannot show, and uncompressed whatever the client accepts. A compressor holds more memory
// than all else that an idle serve keeps on its heap, for a page of a few dozen KiB now and then.
func withExemplars(*rest.Config, *http.Client) (metricsserver.Filter, error) {
	return func(logr.Logger, http.Handler) (http.Handler, error) {
		return promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{
			ErrorHandling: promhttp.HTTPErrorOnError, EnableOpenMetrics: true, DisableCompression: true,
		}), nil
	}, nil
}
