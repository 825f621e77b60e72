package serve

import (
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/cmd/warrantgate/internal/clouds"
	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
)

func TestGatesThatAreNotActive(t *testing.T) {
	const not = `"level"=0 "msg"="a gate is not active although it or its cloud is configured" `
	cloudSigma := clouds.Owners{Access: clouds.Access{Cloud: &cloudsigma.Cloud{}, Impersonating: true}, Gate: &ownership.Gate{}}
	openStack := clouds.Owners{OpenStack: &openstack.Cloud{}, Gate: &ownership.Gate{}}
	off := v1beta1.Default()
	off.Machine.Mode, off.Cluster.Impersonation.Mode, off.Cluster.Delegation.Mode = v1beta1.Off, v1beta1.Off, v1beta1.Off
	off.ControllerManager.Objects = []v1beta1.NamedObject{{Namespace: "tenant", Name: "ccm"}}
	managers := v1beta1.GateConfiguration{ControllerManager: v1beta1.ControllerManager{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "ccm"}}}}
	v1beta1.SetDefaults(&managers)
	unselected := v1beta1.Default()
	unselected.ControllerManager.AllowCSIToken = true

	policies := func(policy v1beta1.KeystonePolicy) v1beta1.GateConfiguration {
		config := v1beta1.GateConfiguration{KeystonePolicy: policy}
		v1beta1.SetDefaults(&config)
		return config
	}
	base := []v1beta1.KeystonePolicyBase{{Namespace: "keystone", Name: "live"}}
	const noSelector = `"reason"="controllerManager has neither a selector nor objects, so no cloud controller manager is evaluated"`
	for name, tc := range map[string]struct {
		config  v1beta1.GateConfiguration
		owners  clouds.Owners
		want    map[string]float64
		wantLog []string
	}{
		"no cloud": {config: off},
		"CloudSigma, without controller managers": {
			config: v1beta1.Default(), owners: cloudSigma, want: map[string]float64{"machine-ownership": 1, "cluster-impersonation": 1},
		},
		"CloudSigma, with controller managers that nothing selects": {
			config: unselected, owners: cloudSigma,
			want: map[string]float64{"machine-ownership": 1, "cluster-impersonation": 1, "controller-manager-identity": 0, "controller-manager-integrity": 0},
			wantLog: []string{
				not + `"gate"="controller-manager-identity" ` + noSelector, not + `"gate"="controller-manager-integrity" ` + noSelector,
			},
		},
		"CloudSigma, with controller managers": {
			config: managers, owners: cloudSigma,
			want: map[string]float64{"machine-ownership": 1, "cluster-impersonation": 1, "controller-manager-identity": 1, "controller-manager-integrity": 1},
		},
		"CloudSigma, all off": {
			config: off, owners: cloudSigma,
			want: map[string]float64{"machine-ownership": 0, "cluster-impersonation": 0, "controller-manager-identity": 0, "controller-manager-integrity": 0},
			wantLog: []string{
				not + `"gate"="machine-ownership" "reason"="machine.mode is Off"`,
				not + `"gate"="cluster-impersonation" "reason"="cluster.impersonation.mode is Off"`,
				not + `"gate"="controller-manager-identity" "reason"="controllerManager.mode is Off"`,
				not + `"gate"="controller-manager-integrity" "reason"="controllerManager.mode is Off"`,
			},
		},
		"OpenStack": {config: v1beta1.Default(), owners: openStack, want: map[string]float64{"machine-ownership": 1, "cluster-delegation": 1}},
		"a base of Keystone's policies, without the policies": {
			config: policies(v1beta1.KeystonePolicy{Base: base}), want: map[string]float64{"keystone-policy": 0},
			wantLog: []string{not + `"gate"="keystone-policy" "reason"="keystonePolicy has neither a selector nor objects, so no policy is evaluated"`},
		},
		"policies of Keystone, off": {
			config: policies(v1beta1.KeystonePolicy{Mode: v1beta1.Off, Objects: []v1beta1.NamedObject{{Namespace: "keystone", Name: "policy"}}}),
			want:   map[string]float64{"keystone-policy": 0}, wantLog: []string{not + `"gate"="keystone-policy" "reason"="keystonePolicy.mode is Off"`},
		},
		"policies of Keystone": {
			config: policies(v1beta1.KeystonePolicy{Base: base, Objects: []v1beta1.NamedObject{{Namespace: "keystone", Name: "policy"}}}),
			want:   map[string]float64{"keystone-policy": 1},
		},
		"no policies of Keystone": {config: policies(v1beta1.KeystonePolicy{Mode: v1beta1.Off})},
		"OpenStack, all off": {
			config: off, owners: openStack, want: map[string]float64{"machine-ownership": 0, "cluster-delegation": 0},
			wantLog: []string{
				not + `"gate"="machine-ownership" "reason"="machine.mode is Off"`,
				not + `"gate"="cluster-delegation" "reason"="cluster.delegation.mode is Off"`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			gateActive.Reset()
			var lines []string
			reportInactive(tc.config, tc.owners, funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
			if diff := cmp.Diff(tc.wantLog, lines); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, gauges(t, gateActive), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("metric (-want +got):\n%s", diff)
			}
		})
	}
	gateActive.Reset()
}

// gauges returns the values of a metric by its only label.
func gauges(t *testing.T, metric prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metric)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			values[series.GetLabel()[0].GetValue()] = series.GetGauge().GetValue()
		}
	}
	return values
}
