package canary

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"warrantgate.dev/internal/config/v1beta1"
)

// namePrefix is the begin of the name of every object that is sent as a dry run.
const namePrefix = "warrantgate-canary-"

// ForKubernetes returns objects that the gates of a Kubernetes API server have to refuse without asking anybody, for each gate
// that the configuration has on.
func ForKubernetes(config v1beta1.GateConfiguration, namespace string) ([]Canary, error) {
	var canaries []Canary
	// Those selected by name are in namespaces where the asker need not be allowed to create anything.
	if gate := config.KeystonePolicy; gate.Mode != v1beta1.Off && (gate.Selector != nil || len(gate.Objects) == 0) {
		object, err := policyCanary(gate, namespace)
		if err != nil {
			return nil, err
		}
		canaries = append(canaries, Canary{
			Webhook: "policies.keystone.warrantgate.dev", Reason: "KeystonePolicyBroken", Warns: gate.Mode == v1beta1.Warn, Object: object,
		})
	}
	if config.Machine.Mode == v1beta1.Off {
		return canaries, nil
	}
	for _, kind := range config.MachineKinds() {
		spec, known := machineSpecs[kind.Kind]
		if !known {
			continue
		}
		object := &unstructured.Unstructured{Object: map[string]any{"spec": spec()}}
		object.SetAPIVersion(kind.Group + "/" + kind.Version)
		object.SetKind(kind.Kind)
		object.SetNamespace(namespace)
		object.SetGenerateName(namePrefix)
		canaries = append(canaries, Canary{
			Webhook: kind.Resource + ".machine.warrantgate.dev", Reason: "ProviderIDInvalid", Warns: config.Machine.Mode == v1beta1.Warn, Object: object,
		})
	}
	return canaries, nil
}

// machineSpecs are specs with a provider ID that is no UUID, by the kinds that are built in. The rest is there because an API
// server refuses a machine without it before it asks anybody. Of other kinds it is not known what that is.
var machineSpecs = map[string]func() map[string]any{
	"CloudSigmaMachine": func() map[string]any {
		return map[string]any{
			"providerID": "cloudsigma://" + namePrefix, "cpu": int64(1000), "memory": int64(512),
			"disks": []any{map[string]any{"uuid": namePrefix, "device": "virtio", "boot_order": int64(1), "size": int64(1 << 30)}},
			"nics":  []any{map[string]any{"vlan": namePrefix, "ipv4_conf": map[string]any{"conf": "dhcp"}}},
		}
	},
	"OpenStackMachine": func() map[string]any {
		return map[string]any{
			"providerID": "openstack:///" + namePrefix, "flavor": namePrefix,
			"image": map[string]any{"filter": map[string]any{"name": namePrefix}},
		}
	},
}

// policyCanary is a ConfigMap that the gate's selector picks, with a rule that YAML reads as an empty one, so that everybody
// would be let pass.
func policyCanary(gate v1beta1.KeystonePolicy, namespace string) (*corev1.ConfigMap, error) {
	picked, err := labelsPicked(gate.Selector)
	if err != nil {
		return nil, fmt.Errorf("keystonePolicy.selector: %w", err)
	}
	key := "policy.yaml"
	if len(gate.Keys) > 0 {
		key = gate.Keys[0]
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: namePrefix, Labels: picked},
		Data:       map[string]string{key: "identity:list_users: !\n"},
	}, nil
}

// labelsPicked are labels that a selector picks. It is an error if none were found.
func labelsPicked(selector *metav1.LabelSelector) (map[string]string, error) {
	if selector == nil {
		return nil, nil
	}
	picked := maps.Clone(selector.MatchLabels)
	if picked == nil {
		picked = map[string]string{}
	}
	for _, requirement := range selector.MatchExpressions {
		_, set := picked[requirement.Key]
		switch {
		case requirement.Operator == metav1.LabelSelectorOpIn && !set:
			picked[requirement.Key] = requirement.Values[0]
		case requirement.Operator == metav1.LabelSelectorOpExists && !set:
			picked[requirement.Key] = "canary"
		}
	}
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, err
	}
	if !compiled.Matches(labels.Set(picked)) {
		return nil, fmt.Errorf("no labels were found that %q picks", metav1.FormatLabelSelector(selector))
	}
	return picked, nil
}
