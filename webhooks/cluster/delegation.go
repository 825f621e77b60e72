package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// DelegationPath is the path of the gate Delegation.
const DelegationPath = "/cluster/delegation"

// identityRefField is the field that refers to credentials.
const identityRefField = "spec.identityRef"

// cloudsField is the field of a Secret that holds credentials.
const cloudsField = "data[" + cloudsKey + "]"

// Delegations reads the roles of credentials.
type Delegations interface {
	// Delegation returns the token that Keystone issues for credentials. The error is an *ownership.IdentityError if no cluster may act
	// with them, and an *ownership.UnknownError if this could not be determined.
	Delegation(ctx context.Context, credentials ownership.Identity, policy identity.CredentialPolicy) (openstack.Token, error)
}

// Proposed reads OpenStack with the credentials of a Secret that is not stored yet.
type Proposed interface {
	Delegations
	ownership.Lister
}

// Credentials reads the objects that use credentials.
type Credentials interface {
	// CredentialDependents returns the objects that refer to one of the clouds of a Secret now.
	CredentialDependents(ctx context.Context, namespace, secret string, clouds []string) ([]clusterapi.Dependent, error)
	// Refers reports whether one of the fields of an object, or a machine, refers to a cloud of a Secret now, also if no provider acts for it yet.
	Refers(ctx context.Context, fields []clusterapi.IdentityField, namespace, secret, cloud string) (bool, error)
	// ActingBy returns the clusters whose provider acts with the account of an object.
	ActingBy(ctx context.Context, provider v1beta1.Provider, namespace, name string) ([]clusterapi.Cluster, error)
	// AccountBy returns the account that the provider acts with once the Cluster refers to the named object. The error is a
	// *clusterapi.AccountError if the objects name no account.
	AccountBy(ctx context.Context, cluster clusterapi.Cluster, name string) (ownership.Account, error)
}

// Delegation is the validating gate on the credentials that a cluster on OpenStack acts with: they must belong to the tenant and carry
// exactly the roles that a cluster needs. It fails closed: without an answer from Keystone the request is denied.
//
// It checks objects that start to refer to credentials, and credentials that are written, whether or not they are used. The audit
// reports roles that change later. As in Impersonation, a change is denied while machines name instances that do not belong to the
// project of the credentials.
type Delegation struct {
	config      v1beta1.Cluster
	policy      identity.CredentialPolicy
	delegations Delegations
	// with returns OpenStack with this data of a Secret.
	with        func(namespace, name string, data map[string][]byte) Proposed
	credentials Credentials
	holdings    *Holdings
}

// NewDelegation returns the gate. with returns OpenStack with other data of a Secret. holdings is nil if no machines are gated.
func NewDelegation(
	config v1beta1.Cluster, policy identity.CredentialPolicy, delegations Delegations,
	with func(namespace, name string, data map[string][]byte) Proposed, credentials Credentials, holdings *Holdings,
) *Delegation {
	return &Delegation{config: config, policy: policy, delegations: delegations, with: with, credentials: credentials, holdings: holdings}
}

var _ webhooks.Gate = &Delegation{}

// Name implements webhooks.Gate.
func (*Delegation) Name() string { return "cluster-delegation" }

// Review implements webhooks.Gate.
func (g *Delegation) Review(ctx context.Context, request admission.Request) webhooks.Answer {
	if isCoreCluster(request) {
		return g.reviewCluster(ctx, request)
	}
	kind, known := kindOf(delegationKindsOf(g.config.Delegation), request)
	if !known {
		return webhooks.Answer{Decision: webhooks.Denied, Status: metav1.StatusReasonBadRequest, Reason: "UnknownKind", Message: fmt.Sprintf(
			"%s of group %q is not a kind of objects that refer to credentials", request.Resource.Resource, request.Resource.Group)}
	}
	o, err := readObject(kind, request)
	switch {
	case err != nil:
		return unreadable(err)
	case kind.resource == secrets:
		return g.reviewSecret(ctx, o, request)
	}
	return g.reviewReference(ctx, o, request)
}

// reviewReference checks an object that refers to credentials.
func (g *Delegation) reviewReference(ctx context.Context, o object, request admission.Request) webhooks.Answer {
	account, err := referredBy(o, request.Object.Raw)
	var accountErr *clusterapi.AccountError
	switch {
	case errors.As(err, &accountErr):
		return g.about(o, unusable(accountErr))
	case err != nil:
		return unreadable(err)
	}
	if o.exists {
		if was, err := referredBy(o, request.OldObject.Raw); err == nil && was == account {
			return webhooks.Answer{Decision: webhooks.Allowed, Reason: "IdentityUnchanged"}
		}
	}
	if g.config.Exempts(o.Namespace) {
		return g.about(o, denied(namespaceExempt, fmt.Sprintf(
			"the Secrets of namespace %q are not checked (cluster.exemptNamespaces), so no cluster may use them", o.Namespace)))
	}
	answer := g.mayActWith(ctx, g.delegations, account.Identity)
	if o.kind.provider != "" && (answer.Decision == webhooks.Allowed || answer.Decision == webhooks.Warned) {
		if denial := g.hold(ctx, o, account); denial != nil {
			answer = *denial
		}
	}
	return g.about(o, answer)
}

// hold denies a change of a cluster object while machines name instances that do not belong to the account that it refers to.
func (g *Delegation) hold(ctx context.Context, o object, account ownership.Account) *webhooks.Answer {
	if g.holdings == nil {
		return nil
	}
	clusters, err := g.credentials.ActingBy(ctx, o.kind.provider, o.Namespace, o.Name)
	if err != nil {
		return ptr.To(undecided("ClustersUnknown", "the Clusters that refer to it could not be read; try again", err))
	}
	dependents := make([]clusterapi.Dependent, 0, len(clusters))
	for _, cluster := range clusters {
		dependents = append(dependents, clusterapi.Dependent{Cluster: cluster, Account: account})
	}
	return g.holdings.check(ctx, o, openly, nil, dependents...)
}

// reviewSecret checks credentials that are written.
func (g *Delegation) reviewSecret(ctx context.Context, o object, request admission.Request) webhooks.Answer {
	var secret, old corev1.Secret
	if json.Unmarshal(request.Object.Raw, &secret) != nil {
		return unreadable(undecodable(o.kind))
	}
	if o.exists && json.Unmarshal(request.OldObject.Raw, &old) != nil {
		old = corev1.Secret{} // counts as empty
	}
	if g.config.Exempts(o.Namespace) { // no cluster can refer to it
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: namespaceExempt}
	}
	clouds, err := openstack.ChangedClouds(o.Name, old.Data, secret.Data)
	var malformed *ownership.IdentityError
	switch {
	case errors.As(err, &malformed):
		answer := denied(malformed.Reason, malformed.Message)
		answer.Status = metav1.StatusReasonInvalid
		return g.about(o, answer)
	case len(clouds) == 0:
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "CredentialsUnchanged"}
	}
	if denial := TooManyClouds(len(clouds)); denial != nil {
		return g.about(o, *denial)
	}
	dependents, err := g.credentials.CredentialDependents(ctx, o.Namespace, o.Name, clouds)
	if err != nil {
		return g.about(o, undecided("ClustersUnknown", "the objects that refer to this Secret could not be read; try again", err))
	}
	return g.about(o, g.mayStore(ctx, o, clouds, dependents, secret.Data))
}

// mayStore decides whether the changed clouds of a Secret may be stored.
func (g *Delegation) mayStore(
	ctx context.Context, o object, clouds []string, dependents []clusterapi.Dependent, data map[string][]byte,
) webhooks.Answer {
	proposed := g.with(o.Namespace, o.Name, data)
	answer := allowed("CredentialsUnchanged")
	var warned []webhooks.Answer
	for _, name := range clouds {
		answer = g.mayActWith(ctx, proposed, ownership.Identity{Namespace: o.Namespace, Secret: o.Name, Entry: name})
		if answer.Reason == openstack.IdentityEndpointNotAllowed {
			answer = g.mayStoreForeign(ctx, o, name, answer)
		}
		switch {
		case answer.Decision == webhooks.Warned:
			warned = append(warned, answer)
		case answer.Decision != webhooks.Allowed:
			return answer
		}
	}
	if denial := g.holdings.check(ctx, o, openly, proposed, dependents...); denial != nil {
		return *denial
	}
	if len(warned) > 0 {
		return together(warned)
	}
	return answer
}

// mayStoreForeign admits credentials of a Keystone that is not configured, as long as no object refers to them: none can refer to them
// later. denial is the answer otherwise.
func (g *Delegation) mayStoreForeign(ctx context.Context, o object, cloud string, denial webhooks.Answer) webhooks.Answer {
	var fields []clusterapi.IdentityField
	for _, kind := range delegationKindsOf(g.config.Delegation) {
		if kind.resource != secrets {
			fields = append(fields, clusterapi.IdentityField{Resource: kind.resource, Path: kind.identityRefPath})
		}
	}
	switch used, err := g.credentials.Refers(ctx, fields, o.Namespace, o.Name, cloud); {
	case err != nil:
		return undecided("ClustersUnknown", "the objects that refer to this Secret could not be read; try again", err)
	case used:
		return denial
	}
	return allowed("CredentialsOfAnotherCloud")
}

// mayActWith decides whether a cluster may act with the credentials.
func (g *Delegation) mayActWith(ctx context.Context, delegations Delegations, credentials ownership.Identity) webhooks.Answer {
	return MayActWith(ctx, delegations, credentials, g.policy, g.config.Delegation.Through)
}

// referredBy returns the credentials that an object refers to. The error is a *clusterapi.AccountError if it is about a field.
func referredBy(o object, raw []byte) (ownership.Account, error) {
	content := &unstructured.Unstructured{}
	if err := decodeInto(content, o.kind, raw, clusterapi.IdentityPaths(o.kind.identityRefPath)...); err != nil {
		return ownership.Account{}, err
	}
	content.SetNamespace(o.Namespace)
	content.SetName(o.Name)
	content.SetKind(o.kind.name)
	return clusterapi.ReadIdentity(content, o.kind.identityRefPath)
}

// decodeInto decodes the strings at these paths of an object.
func decodeInto(content *unstructured.Unstructured, k kind, raw []byte, paths ...string) (err error) {
	if content.Object, err = clusterapi.Pick(raw, paths...); err != nil {
		return undecodable(k)
	}
	return nil
}

// about adds the field of the answer: the reference to the credentials, or the credentials themselves.
func (g *Delegation) about(o object, answer webhooks.Answer) webhooks.Answer {
	field := o.kind.identityRefPath
	if o.kind.resource == secrets {
		field = cloudsField
	}
	answer = about(o, field, answer)
	for i := range answer.Notices { // each warning has an Event of its own
		answer.Notices[i].Message = "Admitted with a warning: " + webhooks.Answer{Subject: answer.Subject, Message: answer.Notices[i].Message}.Text()
	}
	return answer
}
