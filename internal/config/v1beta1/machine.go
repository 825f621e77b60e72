package v1beta1

import (
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Machine configures the gate on machine objects: the instance that one names has to belong to the user that it acts as.
type Machine struct {
	// Mode is Enforce, Warn or Off. Default: Enforce.
	Mode Mode `json:"mode,omitzero"`
	// Unknown says what becomes of an instance whose owner cannot be found out, because the cloud or the identity
	// provider does not answer. Default: Refuse.
	Unknown UnknownPolicy `json:"unknown,omitzero"`
	// Kinds are further kinds of machines. CloudSigmaMachine is built in, and so is OpenStackMachine where openStack is
	// configured.
	Kinds []MachineKind `json:"kinds,omitzero"`
}

// UnknownPolicy says what becomes of a request for which no verdict could be found.
type UnknownPolicy string

const (
	// Refuse refuses the request as 503, so that it is tried again. The default.
	Refuse UnknownPolicy = "Refuse"
	// Admit lets the request pass with a warning and an Event. The audit looks at the machine later.
	Admit UnknownPolicy = "Admit"
)

// Provider is a cloud whose instances machines name.
type Provider string

const (
	// ProviderCloudSigma is CloudSigma.
	ProviderCloudSigma Provider = "cloudsigma"
	// ProviderOpenStack is an OpenStack.
	ProviderOpenStack Provider = "openstack"
)

// MachineKind is a kind of machine objects and where they keep what the gate looks at.
type MachineKind struct {
	// Group is the API group, such as infrastructure.cluster.x-k8s.io.
	Group string `json:"group"`
	// Version is the version that the objects are read in, such as v1beta1. It has to be served. Writes through any other are
	// judged as well.
	Version string `json:"version"`
	// Kind is the kind, such as CloudSigmaMachine.
	Kind string `json:"kind"`
	// Resource is the plural resource, such as cloudsigmamachines.
	Resource string `json:"resource"`
	// InstanceIDPath is the field with the instance's UUID, such as status.instanceID. Default: status.instanceID.
	InstanceIDPath string `json:"instanceIDPath,omitzero"`
	// ProviderIDPath is the field with the provider ID, such as spec.providerID. Default: spec.providerID.
	ProviderIDPath string `json:"providerIDPath,omitzero"`
	// IdentityRefPath is the field that refers to the credentials of this machine alone, where the kind has one, such as
	// spec.identityRef.
	IdentityRefPath string `json:"identityRefPath,omitzero"`
	// Provider is the cloud: cloudsigma or openstack.
	Provider Provider `json:"provider"`
}

// Cluster configures the gates on cluster objects.
type Cluster struct {
	// Impersonation is the gate that lets nobody name a user whom they may not impersonate.
	Impersonation ClusterImpersonation `json:"impersonation,omitzero"`
	// Delegation is the gate on the credentials that a cluster on OpenStack acts with.
	Delegation ClusterDelegation `json:"delegation,omitzero"`
	// ExemptNamespaces are namespaces whose Secrets neither gate judges, such as those of controllers that have a clouds.yaml of
	// their own. No cluster may take its user or its credentials from a Secret there. Default: none.
	ExemptNamespaces []string `json:"exemptNamespaces,omitzero"`
}

// Exempts tells whether the Secrets of a namespace are not judged.
func (c Cluster) Exempts(namespace string) bool {
	return slices.Contains(c.ExemptNamespaces, namespace)
}

// ClusterImpersonation configures the gate that lets nobody name a user whom they may not impersonate.
type ClusterImpersonation struct {
	// Mode is Enforce, Warn or Off. Default: Enforce.
	Mode Mode `json:"mode,omitzero"`
	// Kinds are further kinds of objects that name a user. CloudSigmaCluster, KdcCluster and Secret are built in.
	Kinds []UserKind `json:"kinds,omitzero"`
}

// UserKind is a kind of objects that name a user, and where.
type UserKind struct {
	// Group is the API group, such as infrastructure.example.com.
	Group string `json:"group"`
	// Version is the version in which the field is known, such as v1.
	Version string `json:"version"`
	// Kind is the kind, such as ExampleCluster.
	Kind string `json:"kind"`
	// Resource is the plural resource, such as exampleclusters.
	Resource string `json:"resource"`
	// EmailPath is the field with the user's email, such as spec.userEmail.
	EmailPath string `json:"emailPath,omitzero"`
	// Annotations are annotations with a user's email. These, emailPath or both are needed.
	Annotations []string `json:"annotations,omitzero"`
}

// CredentialKind is a kind of objects that refer to credentials as an OpenStackCluster does, by a field with name and
// cloudName.
type CredentialKind struct {
	// Group is the API group, such as infrastructure.example.com.
	Group string `json:"group"`
	// Version is the version in which the field is known, such as v1.
	Version string `json:"version"`
	// Kind is the kind, such as ExampleCluster.
	Kind string `json:"kind"`
	// Resource is the plural resource, such as exampleclusters.
	Resource string `json:"resource"`
	// IdentityRefPath is the field that refers to the credentials. Default: spec.identityRef.
	IdentityRefPath string `json:"identityRefPath,omitzero"`
}

// ControllerManager configures the gate on the Deployments, DaemonSets and StatefulSets of cloud controller managers.
type ControllerManager struct {
	// Mode is Enforce, Warn or Off. Default: Off, as long as neither selector nor objects say which objects they are, else Enforce.
	Mode Mode `json:"mode,omitzero"`
	// Selector picks the objects by their labels.
	Selector *metav1.LabelSelector `json:"selector,omitzero"`
	// Objects picks objects by their names, whatever labels they have.
	Objects []ControllerManagerObject `json:"objects,omitzero"`
	// Container is the container that gets the identity. Default: the only one of the object.
	Container string `json:"container,omitzero"`
	// Commands are the programs that the container may run in place of the image's entrypoint, such as /manager: the first words of
	// its command. Default: none.
	Commands []string `json:"commands,omitzero"`
	// ClusterNameLabel is the label whose value is the name of the CloudSigmaCluster in the object's namespace.
	// Default: cluster.x-k8s.io/cluster-name.
	ClusterNameLabel string `json:"clusterNameLabel,omitzero"`
	// SecretName is the name of the Secret in the object's namespace with the keys oauth-url, client-id and client-secret.
	// Default: cloudsigma-impersonation.
	SecretName string `json:"secretName,omitzero"`
}

// ControllerManagerObject names a Deployment, a DaemonSet, a StatefulSet, or one of each.
type ControllerManagerObject struct {
	// Namespace of the object. Required.
	Namespace string `json:"namespace"`
	// Name of the object. Required.
	Name string `json:"name"`
}

// Audit configures the pass over existing machines, which reports and changes nothing.
type Audit struct {
	// Mode is Enforce, Warn or Off. Default: Enforce. As the audit changes nothing, Warn is the same as Enforce.
	Mode Mode `json:"mode,omitzero"`
	// Interval is the time from one pass to the next, such as 10m, give or take a tenth. Default: 10m.
	Interval metav1.Duration `json:"interval,omitzero"`
	// RequestsPerSecond is how many requests are sent to each cloud at most. Default: 5.
	RequestsPerSecond int32 `json:"requestsPerSecond,omitzero"`
}

// CloudSigma says how CloudSigma is asked. Who asks it (identity provider, client, secret) is said by flags, the
// environment or a Secret.
type CloudSigma struct {
	// Regions are the regions that objects may name, such as zrh. They are needed where a region is part of a host name to which
	// tokens are sent, as by default. Default: any that looks like one.
	Regions []string `json:"regions,omitzero"`
	// API is the URL of a region's API; {region} stands for the region. Default: https://{region}.cloudsigma.com/api/2.0/.
	API string `json:"api,omitzero"`
	// ServiceProviderAPI is the URL of a region's service provider API; {region} stands for the region. Default:
	// https://direct.{region}.cloudsigma.com/service_provider/api/v1/.
	ServiceProviderAPI string `json:"serviceProviderAPI,omitzero"`
	// TokenPath is the path of the token endpoint below the identity provider's URL. Default:
	// /realms/cloudsigma/protocol/openid-connect/token.
	TokenPath string `json:"tokenPath,omitzero"`
	// CAFile holds the certificate authorities to trust, in PEM. Default: those of the system.
	CAFile string `json:"caFile,omitzero"`
	// Flow is how a user's token is had: ServiceProvider or TokenExchange. Default: ServiceProvider.
	Flow ImpersonationFlow `json:"flow,omitzero"`
	// Audience is the audience of what is asked for. Default: service_provider_api for the flow ServiceProvider,
	// cloudsigma-api for TokenExchange.
	Audience string `json:"audience,omitzero"`
	// Concurrency is how many questions are put to the cloud at the same time at most. Default: 16.
	Concurrency int32 `json:"concurrency,omitzero"`
}

// RequireRegions returns an error where a token would be sent to a host that an object names: a region is part of a host name,
// and it is not said which regions there are.
func (c CloudSigma) RequireRegions() error {
	if len(c.Regions) > 0 {
		return nil
	}
	for path, template := range map[string]string{"cloudSigma.api": c.API, "cloudSigma.serviceProviderAPI": c.ServiceProviderAPI} {
		_, rest, _ := strings.Cut(template, "://")
		if host, _, _ := strings.Cut(rest, "/"); strings.Contains(host, regionMark) && (path == "cloudSigma.api" || c.Flow == ServiceProvider) {
			return errors.New("cloudSigma.regions: Required value: tokens are sent to the host that the region of an object is part of, " +
				"so say which regions there are, such as [zrh]")
		}
	}
	return nil
}

// ImpersonationFlow is a way from a service account's credentials to a user's token.
type ImpersonationFlow string

const (
	// ServiceProvider is CloudSigma's own: client credentials, a UMA ticket, the service provider API.
	ServiceProvider ImpersonationFlow = "ServiceProvider"
	// TokenExchange is that of RFC 8693.
	TokenExchange ImpersonationFlow = "TokenExchange"
)
