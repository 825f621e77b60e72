package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// DelegationPath is where the gate on delegated roles is served.
const DelegationPath = "/cluster/delegation"

// identityRefField is the field that refers to credentials.
const identityRefField = "spec.identityRef"

// applicationCredentialWarning is for those whose clusters act through a trust, as Magnum's do (Keystone, option
// allow_insecure_application_credential_trust_escalation).
const applicationCredentialWarning = "the credentials are an application credential, from which Keystone takes no trust; use the password of " +
	"a user of the tenant. Whoever runs Keystone can allow it with [security_compliance] " +
	"allow_insecure_application_credential_trust_escalation, and should not: the credential can delegate roles then that it does not have"

// Delegations finds out what credentials carry.
type Delegations interface {
	// Delegation returns what Keystone says of credentials. The error is an *ownership.IdentityError where no cluster may act
	// with them, and an *ownership.UnknownError where it cannot be told.
	Delegation(ctx context.Context, credentials ownership.Identity, policy identity.RolePolicy) (openstack.Token, error)
}

// Delegation is the validating gate on the credentials that a cluster on OpenStack acts with: they are the tenant's own, carry
// what a cluster needs, and nothing beyond. It fails closed: what Keystone does not answer is refused.
//
// It judges when an object comes to refer to credentials. What becomes of the Secret and of the roles later is for the audit.
type Delegation struct {
	config      v1beta1.ClusterDelegation
	policy      identity.RolePolicy
	delegations Delegations
}

// NewDelegation returns the gate. The mode is that of webhooks.Handler, for the words of Events.
func NewDelegation(config v1beta1.ClusterDelegation, policy identity.RolePolicy, delegations Delegations) *Delegation {
	return &Delegation{config: config, policy: policy, delegations: delegations}
}

var _ webhooks.Gate = &Delegation{}

// Name implements webhooks.Gate.
func (*Delegation) Name() string { return "cluster-delegation" }

// Review implements webhooks.Gate.
func (g *Delegation) Review(ctx context.Context, request admission.Request) webhooks.Answer {
	kind, known := kindOf(delegationKinds(), request)
	if !known {
		return webhooks.Answer{Decision: webhooks.Denied, Status: metav1.StatusReasonBadRequest, Reason: "UnknownKind", Message: fmt.Sprintf(
			"%s of group %q is no kind of objects that refer to credentials", request.Resource.Resource, request.Resource.Group)}
	}
	o, err := readObject(kind, request)
	if err != nil {
		return unreadable(err)
	}
	account, err := referredBy(o, request.Object.Raw)
	var refused *clusterapi.AccountError
	switch {
	case errors.As(err, &refused):
		return g.conclude(o, unusable(refused))
	case err != nil:
		return unreadable(err)
	}
	if o.exists {
		if before, err := referredBy(o, request.OldObject.Raw); err == nil && before == account {
			return webhooks.Answer{Decision: webhooks.Allowed, Reason: "IdentityUnchanged"}
		}
	}
	return g.conclude(o, g.judge(ctx, account.Identity))
}

// judge finds out whether a cluster may act with the credentials.
func (g *Delegation) judge(ctx context.Context, credentials ownership.Identity) finding {
	token, err := g.delegations.Delegation(ctx, credentials, g.policy)
	var refused *ownership.IdentityError
	var unknown *ownership.UnknownError
	switch {
	case errors.As(err, &refused):
		return denied(refused.Reason, refused.Message, detailsOf(credentials, token)...)
	case errors.As(err, &unknown):
		return undecided("DelegationUnknown", fmt.Sprintf("it cannot be told now what %s carries: %s", credentials, unknown.Cause.Explain()), err)
	case err != nil:
		return undecided("DelegationUnknown", fmt.Sprintf("it cannot be told now what %s carries; try again", credentials), err)
	case g.config.Through == v1beta1.Trust && token.ApplicationCredential != nil:
		return finding{
			decision: webhooks.Warned, reason: "ApplicationCredentialWithoutTrust", message: applicationCredentialWarning,
			public: applicationCredentialWarning, details: detailsOf(credentials, token),
		}
	}
	return finding{decision: webhooks.Allowed, reason: "DelegationAllowed", details: detailsOf(credentials, token)}
}

// detailsOf are for the operator's log. They name who the credentials are of.
func detailsOf(credentials ownership.Identity, token openstack.Token) []any {
	return []any{
		"secret", credentials.Secret, "cloudName", credentials.Entry, "userID", token.UserID, "projectID", token.ProjectID,
		"roles", token.Roles, "cloudRequestID", token.RequestID,
	}
}

// referredBy returns the credentials that an object refers to. Of what it says about a field the error is a
// *clusterapi.AccountError.
func referredBy(o object, raw []byte) (ownership.Account, error) {
	content := &unstructured.Unstructured{}
	if json.Unmarshal(raw, &content.Object) != nil {
		return ownership.Account{}, undecodable(o.kind)
	}
	content.SetNamespace(o.Namespace)
	content.SetName(o.Name)
	content.SetKind(o.kind.name)
	return clusterapi.ReadIdentity(content)
}

// conclude makes an answer of a finding, in the words of the request.
func (g *Delegation) conclude(o object, f finding) webhooks.Answer {
	return f.answer(o, identityRefField, identityRefField+" of "+o.String(), g.config.Mode)
}
