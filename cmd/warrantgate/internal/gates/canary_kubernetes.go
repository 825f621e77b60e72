package gates

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

// namePrefix is the prefix of the names of all canary objects.
const namePrefix = "warrantgate-canary-"

// KubernetesCanaries returns one canary for each gate that the configuration enables on Kubernetes. The gates deny these objects without
// a request to a cloud, unless legacy credentials are used for machines without a cluster: the cloud then has no such instance.
func KubernetesCanaries(config v1beta1.GateConfiguration, namespace string) ([]Canary, error) {
	var canaries []Canary
	// Objects selected by name are in namespaces where the user of this command may lack permission to create objects.
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
		if !known || kind.Provider.IsExternal() {
			continue
		}
		object := &unstructured.Unstructured{Object: map[string]any{"spec": spec()}}
		object.SetAPIVersion(kind.Group + "/" + kind.Version)
		object.SetKind(kind.Kind)
		object.SetNamespace(namespace)
		object.SetGenerateName(namePrefix)
		object.SetLabels(map[string]string{clusterapi.ClusterNameLabel: namePrefix + "missing"})
		canaries = append(canaries, Canary{
			Webhook: kind.Resource + ".machine.warrantgate.dev", Reason: string(clusterapi.ClusterMissing), OrReason: ownership.ReasonNotFound,
			Warns: config.Machine.Mode == v1beta1.Warn, Object: object,
		})
	}
	return canaries, nil
}

// machineSpecs returns specs with a provider ID for the built-in kinds, which a policy would deny if it were malformed. They contain the other required
// fields, because the API server rejects a machine without them before it calls webhooks. The required fields of other kinds are
// unknown.
var machineSpecs = map[string]func() map[string]any{
	"CloudSigmaMachine": func() map[string]any {
		return map[string]any{
			"providerID": "cloudsigma://" + ownership.ExampleInstanceID, "cpu": int64(1000), "memory": int64(512),
			"disks": []any{map[string]any{"uuid": namePrefix, "device": "virtio", "boot_order": int64(1), "size": int64(1 << 30)}},
			"nics":  []any{map[string]any{"vlan": namePrefix, "ipv4_conf": map[string]any{"conf": "dhcp"}}},
		}
	},
	"OpenStackMachine": func() map[string]any {
		return map[string]any{
			"providerID": "openstack:///" + ownership.ExampleInstanceID, "flavor": namePrefix,
			"image": map[string]any{"filter": map[string]any{"name": namePrefix}},
		}
	},
}

// policyCanary returns a ConfigMap that the gate's selector selects. YAML parses its rule as an empty rule, which would allow every
// user.
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

// labelsPicked returns labels that a selector selects, or an error if it finds none.
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
		return nil, fmt.Errorf("found no labels that %q selects", metav1.FormatLabelSelector(selector))
	}
	return picked, nil
}
