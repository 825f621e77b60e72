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
		Help: "Answers to whose an instance is, by cloud, verdict (Owned, Foreign, Absent, or why there is none) and source (cache, cloud).",
	}, []string{"cloud", "verdict", "source"})
	waiting = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "warrantgate_ownership_waiting",
		Help: "Questions that wait because enough are being asked of the cloud already.",
	}, []string{"cloud"})
	rejected = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "warrantgate_ownership_rejected_total",
		Help: "Questions that were rejected because too many of the same tenant waited.",
	}, []string{"cloud"})
)

func init() { //nolint:gochecknoinits // a collector belongs to the process, like the registry that it is put into
	metrics.Registry.MustRegister(answersTotal, waiting, rejected)
}

func observe(cloud, verdict, source string) {
	answersTotal.WithLabelValues(cloud, verdict, source).Inc()
}
