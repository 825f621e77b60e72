package v1beta1

import (
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Machine configures the gate on machine objects: the server that one names must belong to the user that the provider acts as.
type Machine struct {
	// Mode is Enforce, Warn or Off. Default: Enforce.
	Mode Mode `json:"mode,omitzero"`
	// Unknown is what happens with a claim if the cloud, the identity provider or warrantgate does not answer. Default: AdmitFirstClaims for
	// machines that the audit checks, Deny for all others. Deny is required with legacy credentials.
	Unknown UnknownPolicy `json:"unknown,omitzero"`
	// Kinds are further kinds of machines. CloudSigmaMachine is built in, and OpenStackMachine if openStack is
	// configured.
	Kinds []MachineKind `json:"kinds,omitzero"`
}

// UnknownPolicy returns the policy for machines that the audit checks, or for others. Nothing checks the others later, so their first claims are
// not admitted.
func (m Machine) UnknownPolicy(audited bool) UnknownPolicy {
	switch {
	case m.Unknown == Deny || m.Unknown == Admit:
		return m.Unknown
	case audited:
		return AdmitFirstClaims
	}
	return Deny
}

// UnknownPolicy is what happens with a request that cannot be decided.
type UnknownPolicy string

const (
	// AdmitFirstClaims admits, with a warning and an Event, a claim of a machine that named no server before, and denies all other claims with status
	// 503. The audit checks the machine later.
	AdmitFirstClaims UnknownPolicy = "AdmitFirstClaims"
	// Deny denies the claim with status 503, so that it is retried.
	Deny UnknownPolicy = "Deny"
	// Admit admits the claim with a warning and an Event. The audit checks the machine later. A request that is undecided for a reason that its
	// author can cause is denied.
	Admit UnknownPolicy = "Admit"
)

// Provider is the cloud of a kind of machines.
type Provider string

const (
	// ProviderCloudSigma is CloudSigma.
	ProviderCloudSigma Provider = "cloudsigma"
	// ProviderOpenStack is an OpenStack.
	ProviderOpenStack Provider = "openstack"
	// ProviderExternal is any other provider, whose cloud is not asked. Several are external-aws, external-metal and so on: IDs are compared among
	// the kinds of the same one.
	ProviderExternal Provider = "external"
)

// IsExternal reports whether warrantgate has no access to the cloud.
func (p Provider) IsExternal() bool {
	return p == ProviderExternal || strings.HasPrefix(string(p), string(ProviderExternal)+"-")
}

// MachineKind is a kind of machine objects, with the paths of the fields that the gate reads.
type MachineKind struct {
	// Group is the API group, such as infrastructure.cluster.x-k8s.io.
	// +required
	// +kubebuilder:validation:Format=name
	Group string `json:"group"`
	// Version is the version in which the objects are read, such as v1beta1. It must be served. Writes of other versions are
	// evaluated, too.
	// +required
	// +kubebuilder:validation:Format=resource
	Version string `json:"version"`
	// Kind is the kind, such as CloudSigmaMachine.
	// +required
	// +kubebuilder:validation:Format=kindName
	Kind string `json:"kind"`
	// Resource is the plural resource, such as cloudsigmamachines.
	// +required
	// +kubebuilder:validation:Format=resource
	Resource string `json:"resource"`
	// InstanceIDPath is the field with the UUID of the server, such as status.instanceID. Default: status.instanceID. Not with an external provider.
	// +kubebuilder:validation:Format=fieldPath
	InstanceIDPath string `json:"instanceIDPath,omitzero"`
	// ProviderIDPath is the field with the provider ID, such as spec.providerID; with an external provider the field with the ID, which has to be a
	// string. Default: spec.providerID.
	// +kubebuilder:validation:Format=fieldPath
	ProviderIDPath string `json:"providerIDPath,omitzero"`
	// IDPattern is a regular expression (RE2) for the whole ID of an external provider. Its one group is what is compared, such as
	// aws:///[^/]+/(i-[0-9a-f]+). Set it if the provider reads only a part of the ID. Default: any ID, all of which is compared.
	IDPattern string `json:"idPattern,omitzero"`
	// IdentityRefPath is the field that refers to credentials of this machine only, if the kind has one, such as
	// spec.identityRef.
	// +kubebuilder:validation:Format=fieldPath
	IdentityRefPath string `json:"identityRefPath,omitzero"`
	// Provider is the cloud: cloudsigma, openstack, or external, which may have a suffix such as external-aws. An external provider's objects may
	// not name an ID that an object of another namespace names.
	// +required
	// +kubebuilder:validation:Format=provider
	Provider Provider `json:"provider"`
}

// Cluster configures the gates on cluster objects.
type Cluster struct {
	// Impersonation is the gate that denies naming a user that the author may not impersonate.
	Impersonation ClusterImpersonation `json:"impersonation,omitzero"`
	// Delegation is the gate on the credentials that a cluster on OpenStack uses.
	Delegation ClusterDelegation `json:"delegation,omitzero"`
	// ExemptNamespaces are namespaces whose Secrets are not evaluated, such as those of controllers that have a clouds.yaml of
	// their own. No cluster may refer to a Secret there. Default: none.
	// +kubebuilder:validation:items:Format=namespace
	ExemptNamespaces []string `json:"exemptNamespaces,omitzero"`
}

// Exempts reports whether the Secrets of a namespace are not evaluated.
func (c Cluster) Exempts(namespace string) bool {
	return slices.Contains(c.ExemptNamespaces, namespace)
}

// ClusterImpersonation configures the gate that denies naming a user that the author may not impersonate.
type ClusterImpersonation struct {
	// Mode is Enforce, Warn or Off. Default: Enforce.
	Mode Mode `json:"mode,omitzero"`
	// Kinds are further kinds of objects that name a user. CloudSigmaCluster, KdcCluster and Secret are built in.
	Kinds []UserKind `json:"kinds,omitzero"`
}

// UserKind is a kind of objects that name a user, with the paths of the fields that do.
type UserKind struct {
	// Group is the API group, such as infrastructure.example.com.
	// +required
	// +kubebuilder:validation:Format=name
	Group string `json:"group"`
	// Version is the version that has the field, such as v1.
	// +required
	// +kubebuilder:validation:Format=resource
	Version string `json:"version"`
	// Kind is the kind, such as ExampleCluster.
	// +required
	// +kubebuilder:validation:Format=kindName
	Kind string `json:"kind"`
	// Resource is the plural resource, such as exampleclusters.
	// +required
	// +kubebuilder:validation:Format=resource
	Resource string `json:"resource"`
	// EmailPath is the field with the user's email, such as spec.userEmail.
	// +kubebuilder:validation:Format=fieldPath
	EmailPath string `json:"emailPath,omitzero"`
	// Annotations are annotations with a user's email. At least one of annotations and emailPath is required.
	Annotations []string `json:"annotations,omitzero"`
}

// CredentialKind is a kind of objects that refer to credentials like an OpenStackCluster, by a field with name and cloudName.
type CredentialKind struct {
	// Group is the API group, such as infrastructure.example.com.
	// +required
	// +kubebuilder:validation:Format=name
	Group string `json:"group"`
	// Version is the version that has the field, such as v1.
	// +required
	// +kubebuilder:validation:Format=resource
	Version string `json:"version"`
	// Kind is the kind, such as ExampleCluster.
	// +required
	// +kubebuilder:validation:Format=kindName
	Kind string `json:"kind"`
	// Resource is the plural resource, such as exampleclusters.
	// +required
	// +kubebuilder:validation:Format=resource
	Resource string `json:"resource"`
	// IdentityRefPath is the field that refers to the credentials. Default: spec.identityRef.
	// +kubebuilder:validation:Format=fieldPath
	IdentityRefPath string `json:"identityRefPath,omitzero"`
}

// ControllerManager configures the gate on the Deployments, DaemonSets and StatefulSets of cloud controller managers.
type ControllerManager struct {
	// Mode is Enforce, Warn or Off. Default: Off without selector and objects, Enforce otherwise.
	Mode Mode `json:"mode,omitzero"`
	// Selector selects the objects by their labels.
	Selector *metav1.LabelSelector `json:"selector,omitzero"`
	// Objects selects objects by their names, whatever their labels.
	Objects []ControllerManagerObject `json:"objects,omitzero"`
	// Container is the name of the container that gets the identity. Default: the only one of the object.
	Container string `json:"container,omitzero"`
	// Commands are programs that may replace the entrypoint of the image: the first element of command. Default: /ccm, the command in
	// the provider's own manifest.
	Commands []string `json:"commands,omitzero"`
	// Flags are flags that a controller manager may have besides those of each Kubernetes cloud controller manager, without dashes. Their
	// values are not checked, so list none that selects a user, a region or credentials.
	Flags []string `json:"flags,omitzero"`
	// AllowCSIToken allows the flag --enable-csi-token, with which the controller manager writes a token of the cluster's user into a
	// Secret of the tenant cluster. Default: false.
	AllowCSIToken bool `json:"allowCSIToken,omitzero"`
	// ClusterNameLabel is the label whose value is the name of the CloudSigmaCluster in the object's namespace.
	// Default: cluster.x-k8s.io/cluster-name.
	ClusterNameLabel string `json:"clusterNameLabel,omitzero"`
	// SecretName is the name of the Secret in the object's namespace with the keys oauth-url, client-id and client-secret.
	// Default: cloudsigma-impersonation.
	// +kubebuilder:validation:Format=name
	SecretName string `json:"secretName,omitzero"`
}

// ControllerManagerObject names a Deployment, a DaemonSet, a StatefulSet, or one of each.
type ControllerManagerObject struct {
	// Namespace of the object. Required.
	// +required
	// +kubebuilder:validation:Format=namespace
	Namespace string `json:"namespace"`
	// Name of the object. Required.
	// +required
	// +kubebuilder:validation:Format=name
	Name string `json:"name"`
}

// Audit configures the check of existing machines, which only reports.
type Audit struct {
	// Mode is Enforce, Warn or Off. Default: Enforce. Warn is the same as Enforce, because the audit changes nothing.
	Mode Mode `json:"mode,omitzero"`
	// Interval is the time between two runs, such as 10m, with a jitter of 10 %. Default: 10m.
	Interval metav1.Duration `json:"interval,omitzero"`
	// RequestsPerSecond limits the requests to each cloud. A run spends five minutes at most on one namespace, on kcp on one workspace. Default: 5.
	RequestsPerSecond int32 `json:"requestsPerSecond,omitzero"`
	// Reports is whether the results are also written into one report for each namespace on Kubernetes, of openreports.io/v1alpha1 or else
	// wgpolicyk8s.io/v1alpha2. Default: false.
	Reports bool `json:"reports,omitzero"`
	// Providers are the providers on kcp whose machines are checked, in all workspaces that bind their APIExports. Default: none.
	Providers []AuditProvider `json:"providers,omitzero"`
}

// WritesReports reports whether the audit writes reports on Kubernetes.
func (a Audit) WritesReports() bool { return a.Mode != Off && a.Reports }

// OnKCP reports whether the audit checks machines on kcp.
func (a Audit) OnKCP() bool { return a.Mode != Off && len(a.Providers) > 0 }

// AuditProvider is a provider on kcp.
type AuditProvider struct {
	// Workspace is the path, such as root:provider, or the logical cluster of the workspace with the APIExport. Required.
	// +required
	// +kubebuilder:validation:Format=workspace
	Workspace string `json:"workspace"`
	// APIExport is the name of the APIExport of the machines and clusters. Required.
	// +required
	// +kubebuilder:validation:Format=name
	APIExport string `json:"apiExport"`
}

// CloudSigma configures the requests to CloudSigma. Identity provider, client and client secret come from flags, the environment or
// a Secret.
type CloudSigma struct {
	// Regions are the regions that objects may name, such as zrh. Required if the region is part of a host name to which tokens are
	// sent, as in the defaults. A region matches ^[a-z0-9-]{1,63}$. Default: any such region.
	// +kubebuilder:validation:items:Format=region
	Regions []string `json:"regions,omitzero"`
	// DefaultRegion is the region of clusters that name none. It must be that of the provider (its CLOUDSIGMA_REGION) and, if regions
	// are listed, one of these, or machines of such clusters are denied. Default: zrh.
	// +kubebuilder:validation:Format=region
	DefaultRegion string `json:"defaultRegion,omitzero"`
	// API is the URL of a region's API for tokens of impersonated users, with {region} for the region. At CloudSigma, such a token acts as its
	// user at this host only. Default: https://direct.{region}.cloudsigma.com/api/2.0/.
	// +kubebuilder:validation:Format=httpsURL
	API string `json:"api,omitzero"`
	// LegacyAPI is the URL of a region's API for legacy credentials, with {region} for the region. Default:
	// https://{region}.cloudsigma.com/api/2.0/, or api if api is set to another URL than its default.
	// +kubebuilder:validation:Format=httpsURL
	LegacyAPI string `json:"legacyAPI,omitzero"`
	// ServiceProviderAPI is the URL of a region's service provider API, with {region} for the region. Default:
	// https://direct.{region}.cloudsigma.com/service_provider/api/v1/.
	// +kubebuilder:validation:Format=httpsURL
	ServiceProviderAPI string `json:"serviceProviderAPI,omitzero"`
	// TokenPath is the path of the token endpoint below the identity provider's URL. Default:
	// /realms/cloudsigma/protocol/openid-connect/token.
	// +kubebuilder:validation:Format=urlPath
	TokenPath string `json:"tokenPath,omitzero"`
	// CAFile is a file of trusted CA certificates, in PEM. Default: those of the system.
	CAFile string `json:"caFile,omitzero"`
	// Flow is how a user's token is requested: ServiceProvider or TokenExchange. Default: ServiceProvider.
	Flow ImpersonationFlow `json:"flow,omitzero"`
	// Audience is the audience of the requested token. Default: service_provider_api for the flow ServiceProvider,
	// cloudsigma-api for TokenExchange.
	Audience string `json:"audience,omitzero"`
	// Concurrency limits the concurrent requests to the cloud, which tenants share. Default: 16.
	Concurrency int32 `json:"concurrency,omitzero"`
}

// RequireRegions returns an error if a token would be sent to a host that an object chooses: the region is part of a host name, and
// regions is empty.
func (c CloudSigma) RequireRegions() error {
	if len(c.Regions) > 0 {
		return nil
	}
	templates := []string{c.API, c.LegacyAPI}
	if c.Flow == ServiceProvider {
		templates = append(templates, c.ServiceProviderAPI)
	}
	for _, template := range templates {
		_, rest, _ := strings.Cut(template, "://")
		if host, _, _ := strings.Cut(rest, "/"); strings.Contains(host, regionMark) {
			return errors.New("cloudSigma.regions: Required value: the region of an object becomes part of the host that tokens are sent to, " +
				"so list the regions, such as [zrh]")
		}
	}
	return nil
}

// ImpersonationFlow is how warrantgate gets a user's token with its own credentials.
type ImpersonationFlow string

const (
	// ServiceProvider is CloudSigma's own flow: client credentials, a UMA ticket, the service provider API.
	ServiceProvider ImpersonationFlow = "ServiceProvider"
	// TokenExchange is the flow of RFC 8693.
	TokenExchange ImpersonationFlow = "TokenExchange"
)
