package cluster

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// regionField is the field of a CloudSigmaCluster with the region of its instances.
const regionField = "spec.region"

// move is a change of the account that a provider acts with.
type move struct {
	// naming is the field that changes it.
	naming naming
	// cluster is the object after the request, nil if the request writes a Secret.
	cluster *unstructured.Unstructured
	// region is the region that the request sets, "" if it sets none.
	region string
	// withoutUser is true if no user is named after the request.
	withoutUser bool
}

// moveOf returns the change that a request makes, nil if it makes none. names are the users that it sets.
func moveOf(o object, request admission.Request, names []naming) (*move, error) {
	switch {
	case o.kind.resource == secrets:
		return secretMove(o, request, names)
	case o.kind.provider == "":
		return nil, nil
	}
	after, err := clusterIn(o, request.Object.Raw)
	if err != nil {
		return nil, err
	}
	now, err := sayingOf(after)
	if err != nil {
		return nil, err
	}
	m := &move{
		cluster: after, naming: naming{field: regionField, ref: now.ref}, region: now.region, withoutUser: now.ref.Email == "" && now.ref.SecretName == "",
	}
	if before, err := clusterIn(o, request.OldObject.Raw); err == nil && o.exists {
		// An object that was malformed counts as an empty one.
		was, err := sayingOf(before)
		if err == nil && was == now {
			return nil, nil
		}
		if err != nil || was.ref != now.ref {
			m.naming.field = userEmailField
		}
		if err == nil && m.withoutUser && was.ref.Email == "" && was.ref.SecretName != "" {
			m.naming.field = userRefField
		}
		if err == nil && was.region == now.region {
			m.region = ""
		}
	} else {
		m.naming.field = userEmailField
	}
	if len(names) > 0 {
		m.naming = names[0]
	}
	return m, nil
}

// secretMove is moveOf for a Secret.
func secretMove(o object, request admission.Request, names []naming) (*move, error) {
	if len(names) > 0 {
		return &move{naming: names[0]}, nil
	}
	named, before, err := secretNaming(o, request)
	if err != nil || named.email != "" || before == "" {
		return nil, err
	}
	return &move{naming: named, withoutUser: true}, nil
}

// saying is the user and region in a CloudSigmaCluster.
type saying struct {
	ref    clusterapi.UserRef
	region string
}

func sayingOf(cluster *unstructured.Unstructured) (saying, error) {
	ref, err := clusterapi.ReadUserRef(cluster)
	if err != nil {
		return saying{}, err
	}
	region, _, err := unstructured.NestedString(cluster.Object, "spec", "region")
	if err != nil {
		return saying{}, &clusterapi.AccountError{Reason: clusterapi.ClusterUnreadable, Message: fmt.Sprintf(
			"CloudSigmaCluster %q: %s is not a string", message.Value(cluster.GetName()), regionField)}
	}
	return saying{ref: canonical(ref), region: region}, nil
}

func clusterIn(o object, raw []byte) (*unstructured.Unstructured, error) {
	cluster := &unstructured.Unstructured{}
	if err := decodeInto(cluster, o.kind, raw); err != nil {
		return nil, err
	}
	cluster.SetNamespace(o.Namespace)
	cluster.SetName(o.Name)
	return cluster, nil
}

// identity returns the cluster whose identity the request changes.
func (m move) identity(o object) clusterapi.Cluster {
	return clusterapi.Cluster{Provider: o.kind.provider, Namespace: o.Namespace, Name: clusterapi.ClusterNameOf(o.kind.provider, m.cluster)}
}

// hold denies a change while machines name instances that do not belong to the new account of their provider.
func (g *Impersonation) hold(ctx context.Context, requester authenticationv1.UserInfo, o object, m move) *webhooks.Answer {
	if g.holdings == nil {
		return nil
	}
	if m.cluster == nil {
		return g.holdSecret(ctx, o, m)
	}
	account, err := g.users.AccountOf(ctx, o.kind.provider, m.cluster)
	var accountErr *clusterapi.AccountError
	switch {
	case errors.As(err, &accountErr) && accountErr.Reason == clusterapi.RegionNotAllowed: // it was so before
		return g.holdings.withoutAccount(ctx, m.identity(o), accountErr)
	case accountErr != nil: // the provider does not act
		return nil
	case err != nil:
		return ptr.To(undecided("SecretUnknown", "the Secret cannot be read now; try again", err))
	}
	whom := openly
	if m.naming.ref.SecretName != "" && m.naming.ref.Email == "" {
		whom = func(account ownership.Account) (open, public string) {
			if open, public = account.Plain().Owner(), m.naming.bySecret(); !g.knows(ctx, requester, m.naming) {
				open = public
			}
			return open, public
		}
	}
	return g.holdings.check(ctx, o, whom, nil, clusterapi.Dependent{Kind: o.kind.name, Name: o.Name, Cluster: m.identity(o), Account: account})
}

// holdSecret is hold for all clusters that take their user from the Secret of the request.
func (g *Impersonation) holdSecret(ctx context.Context, o object, m move) *webhooks.Answer {
	dependents, err := g.users.UserDependents(ctx, &corev1.Secret{ObjectMeta: o.ObjectMeta}, ownership.LowerEmail(m.naming.email))
	switch {
	case errors.Is(err, clusterapi.ErrTooManyDependents): // a retry would not help
		return ptr.To(denied("TooManyClusters", fmt.Sprintf("more than %d clusters of other namespaces take their user from it, and at most %d are checked; "+
			"create another Secret for the new user, and let your clusters refer to that", clusterapi.MaxDependents, clusterapi.MaxDependents)))
	case err != nil:
		return ptr.To(undecided("ClustersUnknown", "the clusters that take their user from this Secret could not be read; try again", err))
	}
	whom := openly
	if !m.withoutUser {
		whom = func(account ownership.Account) (open, public string) { return account.Owner(), m.naming.bySecret() }
	}
	return g.holdings.check(ctx, o, whom, nil, dependents...)
}

// bySecret refers to a user without the email.
func (n naming) bySecret() string {
	return fmt.Sprintf("the user that Secret %q of namespace %q names", message.Value(n.ref.SecretName), message.Value(n.ref.SecretNamespace))
}
