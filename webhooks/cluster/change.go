package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// regionField is the field of a CloudSigmaCluster with the region of its instances.
const regionField = "spec.region"

// change is the difference that a request makes in what an object says about users.
type change struct {
	// after is what the object says after the request.
	after said
	// names are the users that the request sets, none if it leaves them unchanged or clears them.
	names []naming
	// region is the region that the request sets, "" if it sets none.
	region string
	// moves is true if a provider acts with another account after the request. by is the field that changes the account.
	moves bool
	by    naming
}

// changeOf compares an object before and after a request. An object that was malformed counts as a new one.
func changeOf(o object, request admission.Request) (change, error) {
	after, err := o.kind.read(o, request.Object.Raw)
	if err != nil {
		return change{}, err
	}
	var before said
	isNew := !o.exists
	if o.exists {
		before, err = o.kind.read(o, request.OldObject.Raw)
		isNew = err != nil
	}
	c := change{after: after, names: named(o, before, after)}
	if after.region != before.region {
		c.region = after.region
	}
	isCluster, cleared := after.cluster != nil, len(before.names) > 0 && len(after.names) == 0
	c.moves = isCluster && (isNew || after.region != before.region) || (isCluster || o.kind.resource == secrets) && (len(c.names) > 0 || cleared)
	switch {
	case len(c.names) > 0:
		c.by = c.names[0]
	case cleared:
		c.by.field = before.names[0].field
	case isNew:
		c.by.field = userEmailField
	case len(after.names) > 0:
		c.by = after.names[0]
		c.by.field = regionField
	default:
		c.by.field = regionField
	}
	return c, nil
}

// named returns the fields that name another user than before. If the first annotation of a KdcCluster is removed, the second one counts.
func named(o object, before, after said) []naming {
	var names []naming
	for i, n := range after.names {
		same := slices.ContainsFunc(before.names, func(was naming) bool { return was.field == n.field && was.names(n) })
		if i == 0 && o.kind.resource == kdcClusters {
			same = same && before.names[0].names(n)
		}
		if !same {
			names = append(names, n)
		}
	}
	return names
}

// hold denies a change while machines name instances that do not belong to the new account of their provider.
func (g *Impersonation) hold(ctx context.Context, requester authenticationv1.UserInfo, o object, c change) *webhooks.Answer {
	if g.holdings == nil {
		return nil
	}
	if c.after.cluster == nil {
		return g.holdSecret(ctx, o, c)
	}
	account, err := g.users.AccountOf(ctx, o.kind.provider, c.after.cluster)
	var accountErr *clusterapi.AccountError
	switch {
	case errors.As(err, &accountErr) && accountErr.Reason != clusterapi.RegionNotAllowed: // the provider does not act
		return nil
	case err != nil && accountErr == nil:
		return ptr.To(undecided("SecretUnknown", "the Secret cannot be read now; try again", err))
	}
	nameOf := openly
	if c.by.ref.SecretName != "" {
		nameOf = func(account ownership.Account) (open, public string) {
			if open, public = account.Plain().Owner(), c.by.bySecret(); !g.knows(ctx, requester, c.by) {
				open = public
			}
			return open, public
		}
	}
	cluster := clusterapi.Cluster{Provider: o.kind.provider, Namespace: o.Namespace, Name: o.Name}
	return g.holdings.check(ctx, o, nameOf, nil, clusterapi.Dependent{Cluster: cluster, Account: account, Err: accountErr})
}

// holdSecret is hold for all clusters that take their user from the Secret of the request.
func (g *Impersonation) holdSecret(ctx context.Context, o object, c change) *webhooks.Answer {
	dependents, err := g.users.UserDependents(ctx, o.Namespace, o.Name, ownership.LowerEmail(c.by.email))
	switch {
	case errors.Is(err, clusterapi.ErrTooManyDependents): // a retry would not help
		return ptr.To(denied("TooManyClusters", fmt.Sprintf("more than %d clusters of other namespaces take their user from it, and at most %d are checked; "+
			"create another Secret for the new user, and let your clusters refer to that", clusterapi.MaxDependents, clusterapi.MaxDependents)))
	case err != nil:
		return ptr.To(undecided("ClustersUnknown", "the clusters that take their user from this Secret could not be read; try again", err))
	}
	nameOf := openly
	if len(c.after.names) > 0 {
		nameOf = func(account ownership.Account) (open, public string) { return account.Owner(), c.by.bySecret() }
	}
	return g.holdings.check(ctx, o, nameOf, nil, dependents...)
}
