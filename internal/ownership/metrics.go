package ownership

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Sources of answers.
const (
	sourceCache = "cache"
	sourceCloud = "cloud"
)

var (
	answersTotal = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "warrantgate_ownership_answers_total",
		Help: "Verdicts on instances, by cloud, verdict (Owned, Foreign, Absent, or why there is none) and source (cache, cloud).",
	}, []string{"cloud", "verdict", "source"})
	rejected = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "warrantgate_ownership_rejected_total",
		Help: "Lookups that were not sent, because their tenant already used its share of the concurrent lookups.",
	}, []string{"cloud"})
)

func observe(cloud, verdict, source string) {
	answersTotal.WithLabelValues(cloud, verdict, source).Inc()
}
