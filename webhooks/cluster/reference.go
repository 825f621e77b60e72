package cluster

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

// isCoreCluster is true for a request for a Cluster of Cluster API.
func isCoreCluster(request admission.Request) bool {
	return request.Resource.Group == clusterapi.CoreClusters.Group && request.Resource.Resource == clusterapi.CoreClusters.Resource
}

// reviewCluster checks spec.infrastructureRef of a Cluster of Cluster API, by which the provider for OpenStack finds the
// OpenStackCluster whose credentials it acts with. A reference to another one makes the provider act with other credentials, so it is
// checked against the instances that machines of the Cluster name, like a change of the credentials.
//
// A Cluster whose machines name no instance may refer to any OpenStackCluster. Instances that its machines name later are checked
// against the reference at that time.
func (g *Delegation) reviewCluster(ctx context.Context, request admission.Request) webhooks.Answer {
	k := kind{resource: clusterapi.CoreClusters.WithVersion(request.Resource.Version), name: "Cluster", identityRefPath: clusterapi.InfrastructureRefPath}
	o, err := readObject(k, request)
	if err != nil {
		return unreadable(err)
	}
	name, err := infrastructureIn(o, request.Object.Raw)
	if err != nil {
		return unreadable(err)
	}
	if before, err := infrastructureIn(o, request.OldObject.Raw); name == "" || o.exists && err == nil && before == name {
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "ReferenceUnchanged"}
	}
	if g.holdings == nil {
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "MachinesNotGated"}
	}
	if !clusterapi.IsName(name) { // no provider acts, because there is no such object
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "ReferenceAllowed"}
	}
	if denial := g.holdReference(ctx, o, name); denial != nil {
		return g.about(o, *denial)
	}
	return webhooks.Answer{Decision: webhooks.Allowed, Reason: "ReferenceAllowed"}
}

// holdReference denies a reference to the named OpenStackCluster while machines of the Cluster name instances that do not belong to its account.
func (g *Delegation) holdReference(ctx context.Context, o object, name string) *webhooks.Answer {
	cluster := clusterapi.Cluster{Provider: v1beta1.ProviderOpenStack, Namespace: o.Namespace, Name: o.Name}
	account, err := g.credentials.AccountBy(ctx, cluster, name)
	var accountErr *clusterapi.AccountError
	switch {
	case err != nil && !errors.As(err, &accountErr):
		return ptr.To(undecided("ObjectsUnknown", "the OpenStackCluster that it refers to cannot be read now; try again", err))
	case accountErr != nil && accountErr.Reason == clusterapi.ClusterMissing: // no provider acts before the object is created, and that write is checked
		return nil
	}
	return g.holdings.check(ctx, o, openly, nil, clusterapi.Dependent{Cluster: cluster, Account: account, Err: accountErr})
}

// infrastructureIn returns the name of the object that a Cluster refers to.
func infrastructureIn(o object, raw []byte) (string, error) {
	content := &unstructured.Unstructured{}
	if err := decodeInto(content, o.kind, raw, clusterapi.InfrastructureRefPath+".name"); err != nil {
		return "", err
	}
	content.SetName(o.Name)
	return clusterapi.InfrastructureName(content)
}
