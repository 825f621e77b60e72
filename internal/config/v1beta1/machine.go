package v1beta1

import (
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Machine configures the gate on machine objects: their server must belong to the user that the provider acts as.
type Machine struct {
	Mode Mode `json:"mode,omitzero"`
	// Default: AdmitFirstClaims for machines that the audit checks, Deny for others. Legacy credentials require Deny.
	Unknown UnknownPolicy `json:"unknown,omitzero"`
	// Kinds besides CloudSigmaMachine and, with openStack.authURLs, OpenStackMachine.
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

// UnknownPolicy is what happens if the cloud, the identity provider or warrantgate does not answer.
type UnknownPolicy string

const (
	// AdmitFirstClaims admits the claim of a machine that named no server before, with a warning and an Event, and denies others with status 503.
	// The audit checks the machine later.
	AdmitFirstClaims UnknownPolicy = "AdmitFirstClaims"
	// Deny denies all claims with status 503. Controllers retry.
	Deny UnknownPolicy = "Deny"
	// Admit admits all claims so, except those whose author can have caused the missing answer.
	Admit UnknownPolicy = "Admit"
)

// Provider is the cloud of a kind of machines.
type Provider string

const (
	// ProviderCloudSigma is CloudSigma.
	ProviderCloudSigma Provider = "cloudsigma"
	// ProviderOpenStack is an OpenStack.
	ProviderOpenStack Provider = "openstack"
	// ProviderExternal is any other, whose cloud is not asked. Several are external-aws, external-metal, …: IDs are compared within each.
	ProviderExternal Provider = "external"
)

// IsExternal reports whether warrantgate has no access to the cloud.
func (p Provider) IsExternal() bool {
	return p == ProviderExternal || strings.HasPrefix(string(p), string(ProviderExternal)+"-")
}

// MachineKind is a kind of machine objects, with the paths of fields.
type MachineKind struct {
	// Such as infrastructure.cluster.x-k8s.io.
	// +required
	// +kubebuilder:validation:Format=name
	Group string `json:"group"`
	// Version is the one in which objects are read. Writes of others are evaluated, too.
	// +required
	// +kubebuilder:validation:Format=resource
	Version string `json:"version"`
	// Such as AWSMachine.
	// +required
	// +kubebuilder:validation:Format=kindName
	Kind string `json:"kind"`
	// Resource is the plural of the kind, such as awsmachines.
	// +required
	// +kubebuilder:validation:Format=resource
	Resource string `json:"resource"`
	// InstanceIDPath is the field with the UUID of the server; none with an external provider. Default: status.instanceID.
	// +kubebuilder:validation:Format=fieldPath
	InstanceIDPath string `json:"instanceIDPath,omitzero"`
	// ProviderIDPath is the field with the provider ID; with an external provider any ID. Default: spec.providerID.
	// +kubebuilder:validation:Format=fieldPath
	ProviderIDPath string `json:"providerIDPath,omitzero"`
	// IDPattern is a regular expression (RE2) of the whole ID of an external provider. Its one group is compared: aws:///[^/]+/(i-[0-9a-f]+). Set it
	// if the provider reads only a part of the ID. Default: any ID is compared as a whole.
	IDPattern string `json:"idPattern,omitzero"`
	// IdentityRefPath is the field that refers to credentials of this machine only, such as spec.identityRef.
	// +kubebuilder:validation:Format=fieldPath
	IdentityRefPath string `json:"identityRefPath,omitzero"`
	// +required
	// +kubebuilder:validation:Format=provider
	Provider Provider `json:"provider"`
}

// Cluster configures the gates on cluster objects.
type Cluster struct {
	Impersonation ClusterImpersonation `json:"impersonation,omitzero"`
	Delegation    ClusterDelegation    `json:"delegation,omitzero"`
	// ExemptNamespaces are namespaces whose Secrets are not evaluated, such as of controllers with a clouds.yaml of their own. No cluster may refer
	// to a Secret there.
	// +kubebuilder:validation:items:Format=namespace
	ExemptNamespaces []string `json:"exemptNamespaces,omitzero"`
}

// Exempts reports whether the Secrets of a namespace are not evaluated.
func (c Cluster) Exempts(namespace string) bool {
	return slices.Contains(c.ExemptNamespaces, namespace)
}

// ClusterImpersonation configures the gate that denies naming a user that the author may not impersonate.
type ClusterImpersonation struct {
	Mode Mode `json:"mode,omitzero"`
	// Kinds that name a user, besides CloudSigmaCluster, KdcCluster and Secret.
	Kinds []UserKind `json:"kinds,omitzero"`
}

// UserKind is a kind of objects that name a user.
type UserKind struct {
	// +required
	// +kubebuilder:validation:Format=name
	Group string `json:"group"`
	// One that has the field.
	// +required
	// +kubebuilder:validation:Format=resource
	Version string `json:"version"`
	// +required
	// +kubebuilder:validation:Format=kindName
	Kind string `json:"kind"`
	// Resource is the plural of the kind.
	// +required
	// +kubebuilder:validation:Format=resource
	Resource string `json:"resource"`
	// EmailPath is the field with the user's email, such as spec.userEmail.
	// +kubebuilder:validation:Format=fieldPath
	EmailPath string `json:"emailPath,omitzero"`
	// Annotations with a user's email. annotations or emailPath is required.
	Annotations []string `json:"annotations,omitzero"`
}

// CredentialKind is a kind of objects that refer to credentials by a field with name and cloudName, as OpenStackCluster does.
type CredentialKind struct {
	// +required
	// +kubebuilder:validation:Format=name
	Group string `json:"group"`
	// One that has the field.
	// +required
	// +kubebuilder:validation:Format=resource
	Version string `json:"version"`
	// +required
	// +kubebuilder:validation:Format=kindName
	Kind string `json:"kind"`
	// Resource is the plural of the kind.
	// +required
	// +kubebuilder:validation:Format=resource
	Resource string `json:"resource"`
	// IdentityRefPath is the field that refers to the credentials. Default: spec.identityRef.
	// +kubebuilder:validation:Format=fieldPath
	IdentityRefPath string `json:"identityRefPath,omitzero"`
}

// ControllerManager configures the gate on the Deployments, DaemonSets and StatefulSets of cloud controller managers.
type ControllerManager struct {
	Mode Mode `json:"mode,omitzero"`
	// Selector selects objects by their labels.
	Selector *metav1.LabelSelector `json:"selector,omitzero"`
	// Objects selects objects by their names, whatever their labels.
	Objects []NamedObject `json:"objects,omitzero"`
	// Container is the container that gets the identity. Default: the only one of the object.
	Container string `json:"container,omitzero"`
	// Commands that may replace the entrypoint of the image, as the first element of command. Default: /ccm.
	Commands []string `json:"commands,omitzero"`
	// Flags, without dashes, that are permitted besides those of every cloud controller manager. List none that selects a user, a region or
	// credentials: values are not checked.
	Flags []string `json:"flags,omitzero"`
	// AllowCSIToken permits --enable-csi-token, which writes a token of the cluster's user into a Secret of the tenant cluster.
	AllowCSIToken bool `json:"allowCSIToken,omitzero"`
	// ClusterNameLabel is the label with the name of the CloudSigmaCluster. Default: cluster.x-k8s.io/cluster-name.
	ClusterNameLabel string `json:"clusterNameLabel,omitzero"`
	// SecretName is the Secret in the object's namespace with the keys oauth-url, client-id and client-secret. Default:
	// cloudsigma-impersonation.
	// +kubebuilder:validation:Format=name
	SecretName string `json:"secretName,omitzero"`
}

// IsConfigured reports whether a field has another value than by default: the gate is off without a selector, so it is wanted only then.
func (m ControllerManager) IsConfigured() bool {
	return !equality.Semantic.DeepEqual(m, Default().ControllerManager)
}

// Audit configures the check of existing machines, which only reports.
type Audit struct {
	Mode Mode `json:"mode,omitzero"`
	// Interval is the time between two runs, with a jitter of 10 %. Default: 10m.
	Interval metav1.Duration `json:"interval,omitzero"`
	// RequestsPerSecond limits the requests to each cloud. A run spends at most five minutes on a namespace, or on a workspace of kcp. Default: 5.
	RequestsPerSecond int32 `json:"requestsPerSecond,omitzero"`
	// Reports is whether namespaces of Kubernetes get a report, of openreports.io/v1alpha1 or else wgpolicyk8s.io/v1alpha2.
	Reports bool `json:"reports,omitzero"`
	// Providers on kcp whose machines are checked, in all workspaces that bind their APIExports.
	Providers []AuditProvider `json:"providers,omitzero"`
}

// WritesReports reports whether the audit writes reports on Kubernetes.
func (a Audit) WritesReports() bool { return a.Mode != Off && a.Reports }

// OnKCP reports whether the audit checks machines on kcp.
func (a Audit) OnKCP() bool { return a.Mode != Off && len(a.Providers) > 0 }

// AuditProvider is a provider on kcp.
type AuditProvider struct {
	// Workspace with the APIExport: its path, such as root:provider, or its logical cluster.
	// +required
	// +kubebuilder:validation:Format=workspace
	Workspace string `json:"workspace"`
	// APIExport of the machines and clusters.
	// +required
	// +kubebuilder:validation:Format=name
	APIExport string `json:"apiExport"`
}

// CloudSigma configures the requests to CloudSigma. The credentials come from flags, the environment or a Secret.
type CloudSigma struct {
	// Regions that objects may name, such as zrh. Required if a host name of the URLs below contains the region, as by default. Default: any that
	// matches ^[a-z0-9-]{1,63}$.
	// +kubebuilder:validation:items:Format=region
	Regions []string `json:"regions,omitzero"`
	// DefaultRegion is the region of clusters that name none. Their machines are denied if it is not the provider's CLOUDSIGMA_REGION, or not in
	// regions. Default: zrh.
	// +kubebuilder:validation:Format=region
	DefaultRegion string `json:"defaultRegion,omitzero"`
	// API is the URL for tokens of impersonated users, with {region}. They act as their user at this host only. Default:
	// https://direct.{region}.cloudsigma.com/api/2.0/.
	// +kubebuilder:validation:Format=httpsURL
	API string `json:"api,omitzero"`
	// LegacyAPI is the URL for legacy credentials, with {region}. Default: https://{region}.cloudsigma.com/api/2.0/, or api if that is not its
	// default.
	// +kubebuilder:validation:Format=httpsURL
	LegacyAPI string `json:"legacyAPI,omitzero"`
	// ServiceProviderAPI is the URL of the service provider API, with {region}. Default:
	// https://direct.{region}.cloudsigma.com/service_provider/api/v1/.
	// +kubebuilder:validation:Format=httpsURL
	ServiceProviderAPI string `json:"serviceProviderAPI,omitzero"`
	// TokenPath is the path of the token endpoint below the identity provider's URL. Default: /realms/cloudsigma/protocol/openid-connect/token.
	// +kubebuilder:validation:Format=urlPath
	TokenPath string `json:"tokenPath,omitzero"`
	// CAFile is a file of trusted CAs, in PEM. Default: those of the system.
	CAFile string            `json:"caFile,omitzero"`
	Flow   ImpersonationFlow `json:"flow,omitzero"`
	// Audience of the requested token. Default: service_provider_api, for TokenExchange cloudsigma-api.
	Audience string `json:"audience,omitzero"`
	// Concurrency limits the concurrent requests, which tenants share. Default: 16.
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
	// ServiceProvider is CloudSigma's own: client credentials, a UMA ticket, the service provider API. The default.
	ServiceProvider ImpersonationFlow = "ServiceProvider"
	// TokenExchange is that of RFC 8693.
	TokenExchange ImpersonationFlow = "TokenExchange"
)
