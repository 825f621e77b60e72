package main

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

// full returns a configuration that has each setting, with placeholders as values. Where there is any number of elements, it has two: the
// first, and one for all others.
func full() v1beta1.GateConfiguration {
	config := v1beta1.GateConfiguration{
		Machine: v1beta1.Machine{Kinds: []v1beta1.MachineKind{{
			Group: "{group}", Version: "{version}", Kind: "{kind}", Resource: "{resource}", Provider: "{provider}",
			InstanceIDPath: "{instanceIDPath}", ProviderIDPath: "{providerIDPath}", IdentityRefPath: "{identityRefPath}",
		}}},
		Cluster: v1beta1.Cluster{
			ExemptNamespaces: []string{"{exempt}", "{element}"},
			Impersonation: v1beta1.ClusterImpersonation{Kinds: []v1beta1.UserKind{{
				Group: "{group}", Version: "{version}", Resource: "{resource}", EmailPath: "{field}", Annotations: []string{"{element}"},
			}}},
			Delegation: v1beta1.ClusterDelegation{Kinds: []v1beta1.CredentialKind{{
				Group: "{group}", Version: "{version}", Resource: "{resource}", IdentityRefPath: "{credentialsPath}",
			}}},
		},
		ControllerManager: v1beta1.ControllerManager{
			Selector: &metav1.LabelSelector{},
			Objects:  []v1beta1.ControllerManagerObject{{Namespace: "{namespace}", Name: "{name}"}, {Namespace: "{namespace}", Name: "{element}"}},
		},
		KeystonePolicy: v1beta1.KeystonePolicy{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"{element}": ""}},
			Objects:  []v1beta1.KeystonePolicyObject{{Namespace: "{namespace}", Name: "{name}"}, {Namespace: "{namespace}", Name: "{element}"}},
			Base:     []v1beta1.KeystonePolicyBase{{Name: "{base}"}, {Name: "{element}"}},
		},
		OpenStack: v1beta1.OpenStack{AuthURLs: []string{"https://keystone.example.com/v3"}},
	}
	v1beta1.SetDefaults(&config)
	return config
}

// placeholders replaces the placeholders by actions on the values. $kind is the configured kind, $fields are the paths of the fields by
// which it names users, $names are the names of objects, and "." is the element of a list.
var placeholders = strings.NewReplacer(append(fields(),
	`{path}`, `{{- include "warrantgate.clientConfig" (dict "root" $ "path" "`, `{endOfPath}`, `") | nindent 4 }}`,
	`{namespaceSelector}`, `{{- include "warrantgate.namespaceSelector" $ | nindent 4 }}`,
	`{objectSelector}`, `{{ toJson . }}`,
	`{failurePolicy}`, `{{ $failurePolicy }}`,
	`{firstFailurePolicy}`, `{{ include "warrantgate.firstFailurePolicy" $ }}`,
	`'{group}'`, `{{ quote $kind.group }}`,
	`'{version}'`, `{{ quote $kind.version }}`,
	`'{resource}'`, `{{ quote $kind.resource }}`,
	`'{resource}/status'`, `{{ quote (printf "%s/status" $kind.resource) }}`,
	`{resource}`, `{{ $kind.resource }}`,
	`"{group}", "{kind}"`, `{{ quote $kind.group }}, {{ quote $kind.kind }}`,
	`{provider}://`, `{{ if eq $kind.provider "openstack" }}openstack:///{{ else }}{{ $kind.provider }}://{{ end }}`,
	`"{exempt}"`, `{{ quote (first $exempt) }}`,
	`"{namespace}/{name}"`, `{{ quote (first $names) }}`,
	`"{namespace}/{element}"`, `{{ quote . }}`,
	`'{base}'`, `{{ quote (first $needs.basePolicies) }}`,
	`'{element}'`, `{{ quote . }}`,
	`"{element}"`, `{{ quote . }}`,
)...)

// fields returns the expressions for configured fields, each followed by the action that replaces it.
func fields() []string {
	var defaults v1beta1.GateConfiguration
	defaults.Machine.Kinds, defaults.Cluster.Delegation.Kinds = make([]v1beta1.MachineKind, 1), make([]v1beta1.CredentialKind, 1)
	v1beta1.SetDefaults(&defaults)
	machine, credentials := defaults.Machine.Kinds[0], defaults.Cluster.Delegation.Kinds[0]
	split := func(field, byDefault string) string {
		return fmt.Sprintf("splitList \".\" ($kind.%s | default %q)", field, byDefault)
	}

	paths := [][2]string{
		{"{instanceIDPath}", split("instanceIDPath", machine.InstanceIDPath)},
		{"{providerIDPath}", split("providerIDPath", machine.ProviderIDPath)},
		{"{credentialsPath}", split("identityRefPath", credentials.IdentityRefPath)},
		{"{field}", "first $fields"},
		{"metadata.annotations.{element}", "."},
	}
	for _, path := range clusterapi.IdentityPaths("{identityRefPath}") {
		paths = append(paths, [2]string{path, fmt.Sprintf(`splitList "." (print $kind.identityRefPath %q)`, strings.TrimPrefix(path, "{identityRefPath}"))})
	}
	var replaced []string
	for _, path := range paths {
		for _, object := range []string{"object", "oldObject"} {
			fields := strings.Split(path[0], ".")
			replaced = append(replaced,
				webhooks.CELField(object, fields...), fmt.Sprintf(`{{ include "warrantgate.celField" (dict "object" %q "path" (%s)) }}`, object, path[1]),
				webhooks.CELReadable(object, fields...), fmt.Sprintf(`{{ include "warrantgate.celReadable" (dict "object" %q "path" (%s)) }}`, object, path[1]))
		}
	}
	return replaced
}
