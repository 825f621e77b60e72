package workspace

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"warrantgate.dev/internal/identity"
)

var (
	ownerRewrites = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "warrantgate_owner_rewrites_total",
		Help: "Owners of workspaces that were rewritten, by kind of creator: service-account, user.",
	}, []string{"kind"})
	warrantsDropped = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "warrantgate_warrants_dropped_total",
		Help: "Warrants and groups of creators that recorded owners do not keep, by reason.",
	}, []string{"reason"})
	privilegedOwners = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "warrantgate_privileged_owners_total",
		Help: "Workspaces whose recorded owner has an administrator's permissions.",
	})
)

func init() { //nolint:gochecknoinits // a collector belongs to the process, like its registry
	metrics.Registry.MustRegister(ownerRewrites, warrantsDropped, privilegedOwners)
}

// countChange counts a change of an owner.
func countChange(report identity.Report) {
	switch report.Reason {
	case identity.ServiceAccountRewritten:
		ownerRewrites.WithLabelValues("service-account").Inc()
	case identity.UserRewritten:
		ownerRewrites.WithLabelValues("user").Inc()
	}
	for _, drop := range report.Dropped {
		if drop.Kind != identity.DroppedExtra {
			warrantsDropped.WithLabelValues(string(drop.Reason)).Inc()
		}
	}
}
