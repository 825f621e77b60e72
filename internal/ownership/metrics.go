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
	waiting = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "warrantgate_ownership_waiting",
		Help: "Lookups that are queued, because the limit of concurrent lookups of the cloud is reached.",
	}, []string{"cloud"})
	rejected = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "warrantgate_ownership_rejected_total",
		Help: "Lookups that were rejected, because too many lookups of the same tenant were queued.",
	}, []string{"cloud"})
)

func init() { //nolint:gochecknoinits // a collector belongs to the process, like the registry that it is put into
	metrics.Registry.MustRegister(answersTotal, waiting, rejected)
}

func observe(cloud, verdict, source string) {
	answersTotal.WithLabelValues(cloud, verdict, source).Inc()
}
