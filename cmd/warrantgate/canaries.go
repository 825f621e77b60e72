package main

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"warrantgate.dev/internal/canary"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
)

// canaryName is what the names of objects begin with that are sent as dry runs only.
const canaryName = "warrantgate-canary-"

// kubernetesCanaries are objects that the gates of a Kubernetes have to refuse without asking anybody, as far as the
// configuration has those gates on.
func kubernetesCanaries(config v1beta1.GateConfiguration, namespace string) ([]canary.Canary, error) {
	var canaries []canary.Canary
	// Those selected by name are in namespaces where the asker need not be allowed to create anything.
	if gate := config.KeystonePolicy; gate.Mode != v1beta1.Off && (gate.Selector != nil || len(gate.Objects) == 0) {
		object, err := policyCanary(gate, namespace)
		if err != nil {
			return nil, err
		}
		canaries = append(canaries, canary.Canary{
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
		object.SetGenerateName(canaryName)
		canaries = append(canaries, canary.Canary{
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
			"providerID": "cloudsigma://" + canaryName, "cpu": int64(1000), "memory": int64(512),
			"disks": []any{map[string]any{"uuid": canaryName, "device": "virtio", "boot_order": int64(1), "size": int64(1 << 30)}},
			"nics":  []any{map[string]any{"vlan": canaryName, "ipv4_conf": map[string]any{"conf": "dhcp"}}},
		}
	},
	"OpenStackMachine": func() map[string]any {
		return map[string]any{
			"providerID": "openstack:///" + canaryName, "flavor": canaryName,
			"image": map[string]any{"filter": map[string]any{"name": canaryName}},
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
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: canaryName, Labels: picked},
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

// kcpCanaries is a Workspace with an annotation that nobody but warrantgate may write, if the gate that guards it is on.
func kcpCanaries(config v1beta1.Workspace) []canary.Canary {
	mode := config.OwnerIntegrity.Mode
	if mode == v1beta1.Off {
		return nil
	}
	return []canary.Canary{{
		Webhook: integrityWebhook, Reason: events.OwnerChangeRefused, Warns: mode == v1beta1.Warn,
		Object: workspaceCanary("true"),
	}}
}
