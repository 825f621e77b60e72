package serve

import (
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"warrantgate.dev/cmd/warrantgate/internal/clouds"
	"warrantgate.dev/internal/config/v1beta1"
)

var gateActive = promauto.With(metrics.Registry).NewGaugeVec(prometheus.GaugeOpts{
	Name: "warrantgate_gate_active",
	Help: "1 if the gate is active; 0 if it, or its cloud, is configured but it evaluates nothing.",
}, []string{"gate"})

// configuredGate is a gate that is configured, or that is on and whose cloud is configured.
type configuredGate struct {
	name string
	mode v1beta1.Mode
	// why is the reason why the gate is off.
	why string
}

// configuredGates returns the gates of Kubernetes that are configured, or whose cloud is.
func configuredGates(config v1beta1.GateConfiguration, owners clouds.Owners) []configuredGate {
	var gates []configuredGate
	if owners.Gate != nil {
		gates = append(gates, configuredGate{"machine-ownership", config.Machine.Mode, "machine.mode is Off"})
	}
	if owners.Cloud != nil {
		gates = append(gates, configuredGate{"cluster-impersonation", config.Cluster.Impersonation.Mode, "cluster.impersonation.mode is Off"})
	}
	if managers := config.ControllerManager; owners.Impersonating && managers.IsConfigured() {
		why := "controllerManager.mode is Off"
		if managers.Selector == nil && len(managers.Objects) == 0 {
			why = "controllerManager has neither a selector nor objects, so no cloud controller manager is evaluated"
		}
		gates = append(gates, configuredGate{"controller-manager-identity", managers.Mode, why}, configuredGate{"controller-manager-integrity", managers.Mode, why})
	}
	if owners.OpenStack != nil {
		gates = append(gates, configuredGate{"cluster-delegation", config.Cluster.Delegation.Mode, "cluster.delegation.mode is Off"})
	}
	if policy := config.KeystonePolicy; policy.IsConfigured() {
		why := "keystonePolicy.mode is Off"
		if policy.Selector == nil && len(policy.Objects) == 0 {
			why = "keystonePolicy has neither a selector nor objects, so no policy is evaluated"
		}
		gates = append(gates, configuredGate{"keystone-policy", policy.Mode, why})
	}
	return gates
}

// reportInactive logs, and records in a metric, which gates are off although they, or their cloud, are configured.
func reportInactive(config v1beta1.GateConfiguration, owners clouds.Owners, logger logr.Logger) {
	for _, gate := range configuredGates(config, owners) {
		if gate.mode != v1beta1.Off {
			gateActive.WithLabelValues(gate.name).Set(1)
			continue
		}
		gateActive.WithLabelValues(gate.name).Set(0)
		logger.Info("a gate is not active although it or its cloud is configured", "gate", gate.name, "reason", gate.why)
	}
}
