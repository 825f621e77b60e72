package ownership

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Sources of answers.
const (
	sourceCache = "cache"
	sourceCloud = "cloud"
)

var (
	answersTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "warrantgate_ownership_answers_total",
		Help: "Verdicts on instances, by cloud, verdict (Owned, Foreign, Absent, or why there is none) and source (cache, cloud).",
	}, []string{"cloud", "verdict", "source"})
	rejected = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "warrantgate_ownership_rejected_total",
		Help: "Lookups that were not sent, because their tenant already used its share of the concurrent lookups.",
	}, []string{"cloud"})
)

func init() { //nolint:gochecknoinits // a collector belongs to the process, like the registry that it is put into
	metrics.Registry.MustRegister(answersTotal, rejected)
}

func observe(cloud, verdict, source string) {
	answersTotal.WithLabelValues(cloud, verdict, source).Inc()
}
