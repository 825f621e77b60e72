package gates

import (
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/cluster"
	"warrantgate.dev/webhooks/machine"
)

// ProviderWildcard is the path segment that names the logical cluster of a provider. "install provider" writes it into the webhook
// configuration in that workspace, which only the provider can change. kcp therefore reports with each request which provider the object
// is from, and one serve can handle several providers.
const ProviderWildcard = "provider"

// ProviderPath returns the path of a gate on objects that a provider exports on kcp. These paths are separate from those of Kubernetes,
// where an object could claim to be from a logical cluster.
func ProviderPath(provider, gate string) string { return "/kcp/" + provider + gate }

// Exportable returns the configuration without the checks that are impossible in a workspace of kcp: those of credentials in Secrets there, and those
// against all other workspaces.
func Exportable(config v1beta1.GateConfiguration) v1beta1.GateConfiguration {
	return withoutKinds(Auditable(config), v1beta1.Provider.IsExternal)
}

// Auditable returns the configuration without what the audit cannot check on kcp: credentials in Secrets of workspaces. It reads all workspaces.
func Auditable(config v1beta1.GateConfiguration) v1beta1.GateConfiguration {
	config.OpenStack = v1beta1.OpenStack{}
	return withoutKinds(config, func(provider v1beta1.Provider) bool { return provider == v1beta1.ProviderOpenStack })
}

func withoutKinds(config v1beta1.GateConfiguration, of func(v1beta1.Provider) bool) v1beta1.GateConfiguration {
	config.Machine.Kinds = slices.DeleteFunc(slices.Clone(config.Machine.Kinds), func(kind v1beta1.MachineKind) bool { return of(kind.Provider) })
	return config
}

// ProviderRegistration returns the webhook configurations of these gates, for the logical cluster of a provider. audited is whether the audit
// checks the machines of the provider.
func ProviderRegistration(server webhooks.Server, config v1beta1.GateConfiguration, provider logicalcluster.Name, audited bool) []client.Object {
	config = Exportable(config)
	hooks := append(machine.Hooks(config.Machine.Mode, config.Machine.UnknownPolicy(audited), config.MachineKinds()), cluster.ProviderHooks(config.Cluster)...)
	for i := range hooks {
		hooks[i].Path = ProviderPath(provider.String(), hooks[i].Path)
	}
	return server.Registration(nil, hooks)
}

// IsGated reports whether a validating webhook of a registration is for a resource.
func IsGated(registration []client.Object, resource schema.GroupResource) bool {
	return slices.ContainsFunc(registration, func(object client.Object) bool {
		configuration, ok := object.(*admissionregistrationv1.ValidatingWebhookConfiguration)
		return ok && slices.ContainsFunc(configuration.Webhooks, func(hook admissionregistrationv1.ValidatingWebhook) bool {
			return slices.ContainsFunc(hook.Rules, func(rule admissionregistrationv1.RuleWithOperations) bool {
				return slices.Contains(rule.APIGroups, resource.Group) && slices.Contains(rule.Resources, resource.Resource)
			})
		})
	})
}
