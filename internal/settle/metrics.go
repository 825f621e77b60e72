package settle

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	first = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "warrantgate_first_claims",
		Help: "First claims of machines that the cloud did not confirm and that this replica remembers, undecided and denied.",
	})
	denials = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "warrantgate_first_claims_denied_total",
		Help: "First claims of machines that were denied because the cloud still did not confirm them after machine.settle.",
	})
)

func init() { //nolint:gochecknoinits // a collector belongs to the process, like the registry that it is put into
	metrics.Registry.MustRegister(first, denials)
}
