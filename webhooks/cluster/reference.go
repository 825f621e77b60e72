package cluster

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/inflight"
	"warrantgate.dev/internal/ownership"
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
func (g *Delegation) reviewCluster(ctx context.Context, request admission.Request) (answer webhooks.Answer) {
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
	if !clusterapi.IsName(name) { // no provider acts, because there is no such object; a long name must not be remembered
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "ReferenceAllowed"}
	}
	r := reference{Delegation: g, cluster: clusterapi.Cluster{Provider: v1beta1.ProviderOpenStack, Namespace: o.Namespace, Name: o.Name}, name: name}
	account, _ := r.account(ctx) // only for uses; it is read again below, and the error is handled there
	c, denial := g.holdings.begin(ctx, o, request, r.uses(account), []inflight.Key{r.cluster.Key()})
	if denial != nil {
		return g.about(o, *denial)
	}
	defer func() { c.end(answer.Decision) }()
	was := r.uses(account)
	if account, err = r.account(ctx); !slices.Equal(was, r.uses(account)) {
		return g.about(o, *pendingReference())
	}
	if denial := r.hold(ctx, o, c, account, err); denial != nil {
		return g.about(o, *denial)
	}
	return webhooks.Answer{Decision: webhooks.Allowed, Reason: "ReferenceAllowed"}
}

// pendingReference is the answer while the object that a Cluster will refer to is being changed.
func pendingReference() *webhooks.Answer {
	return pending(errors.New("the object that the Cluster refers to has changed since it was read"))
}

// reference is the new infrastructureRef of a Cluster.
type reference struct {
	*Delegation
	cluster clusterapi.Cluster
	// name is that of the OpenStackCluster.
	name string
}

// account returns the account that the provider acts with after the reference is stored.
func (r reference) account(ctx context.Context) (ownership.Account, error) {
	return r.credentials.AccountBy(ctx, r.cluster, r.name)
}

// uses returns what the decision depends on: the OpenStackCluster and the Secret that it refers to.
func (r reference) uses(account ownership.Account) []inflight.Key {
	keys := []inflight.Key{clusterapi.ObjectKey(r.cluster.Provider, r.cluster.Namespace, r.name)}
	if account.Identity.Secret != "" {
		keys = append(keys, clusterapi.SecretKey(account.Identity.Namespace, account.Identity.Secret))
	}
	return keys
}

// hold denies the reference while machines of the Cluster name instances that do not belong to the account. noAccount is the error if
// the account is not known.
func (r reference) hold(ctx context.Context, o object, c *change, account ownership.Account, noAccount error) *webhooks.Answer {
	var accountErr *clusterapi.AccountError
	switch {
	case noAccount == nil:
		return c.check(ctx, o, openly, nil, clusterapi.Dependent{Kind: o.kind.name, Name: o.Name, Cluster: r.cluster, Account: account})
	case !errors.As(noAccount, &accountErr):
		return ptr.To(undecided("ObjectsUnknown", "the OpenStackCluster that it refers to cannot be read now; try again", noAccount))
	case accountErr.Reason == clusterapi.ClusterMissing: // no provider acts before the object is created, and that write is checked
		return nil
	}
	return c.withoutAccount(ctx, r.cluster, accountErr)
}

// infrastructureIn returns the name of the object that a Cluster refers to.
func infrastructureIn(o object, raw []byte) (string, error) {
	content := &unstructured.Unstructured{}
	if err := decodeInto(content, o.kind, raw); err != nil {
		return "", err
	}
	content.SetName(o.Name)
	return clusterapi.InfrastructureName(content)
}
