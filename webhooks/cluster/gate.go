// Package cluster holds the gates on objects that determine the identity that the provider of a cluster acts as: Impersonation on the
// user that they name, Delegation on the credentials that they refer to.
//
// The provider's service account may act as any user of the cloud, so a requester who writes an email into a CloudSigmaCluster acts as
// that user. The permission for it is "impersonate" on "users", which package impersonation checks: on kcp in the workspace of the
// provider, which the requester does not control.
package cluster

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/impersonation"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// Path is the path of the gate Impersonation.
const Path = "/cluster/impersonation"

// Users reads the users that clusters and Secrets name.
type Users interface {
	// User returns the user that ref refers to. The error is a *clusterapi.AccountError if the objects name no user, and another error if
	// they could not be read.
	User(ctx context.Context, ref clusterapi.UserRef) (string, error)
	// AccountOf returns the account that the provider acts with because of a cluster object. The error is that of User.
	AccountOf(ctx context.Context, provider v1beta1.Provider, object *unstructured.Unstructured) (ownership.Account, error)
	// UserDependents returns the clusters that take their user from a Secret, with the account that they have with this user.
	UserDependents(ctx context.Context, namespace, secret, user string) ([]clusterapi.Dependent, error)
	// SharedAccount is true if the provider acts with an account that clusters share (legacy credentials) because of a cluster that names no user.
	SharedAccount() bool
	// Object reads an object from the API server, nil if there is none or if its kind is not installed.
	Object(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error)
}

// Impersonation is the validating gate on the user that an object names. It fails closed: while the API server does not answer the
// SubjectAccessReview, no object can name another user.
//
// A Secret is checked whether or not a cluster refers to it. Otherwise a cluster could be admitted with the user of a Secret while
// another user is written into it.
//
// The account of the provider is part of the claims of machines. Its change is denied while machines name instances that do not belong
// to the new account.
type Impersonation struct {
	config v1beta1.Cluster
	// regions are the allowed regions, none for all valid ones.
	regions  []string
	checker  *impersonation.Checker
	users    Users
	holdings *Holdings
}

// NewImpersonation returns the gate. regions are the allowed ones of CloudSigma, none for all valid ones. holdings is nil if no machines are gated.
func NewImpersonation(config v1beta1.Cluster, regions []string, checker *impersonation.Checker, users Users, holdings *Holdings) *Impersonation {
	return &Impersonation{config: config, regions: regions, checker: checker, users: users, holdings: holdings}
}

var _ webhooks.Gate = &Impersonation{}

// Name implements webhooks.Gate.
func (*Impersonation) Name() string { return "cluster-impersonation" }

// Review implements webhooks.Gate.
func (g *Impersonation) Review(ctx context.Context, request admission.Request) webhooks.Answer {
	kind, known := kindOf(kindsOf(g.config.Impersonation), request)
	if !known {
		return webhooks.Answer{Decision: webhooks.Denied, Status: metav1.StatusReasonBadRequest, Reason: "UnknownKind", Message: fmt.Sprintf(
			"%s of group %q is not a kind of objects that name users", request.Resource.Resource, request.Resource.Group)}
	}
	o, err := readObject(kind, request)
	if err != nil {
		return unreadable(err)
	}
	if kind.resource == secrets && g.config.Exempts(o.Namespace) { // no cluster can refer to it
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: namespaceExempt}
	}
	c, err := changeOf(o, request)
	if err != nil {
		return unreadable(err)
	}
	if c.region != "" {
		if err := ownership.CheckRegion(c.region, g.regions); err != nil {
			return about(o, regionField, denied(ownership.RegionNotAllowed, err.Error()))
		}
	}
	if len(c.after.names) == 0 && !g.users.SharedAccount() { // the provider does not act after it
		c.moves = false
	}
	used := c.names
	if c.moves && len(used) == 0 {
		used = []naming{c.by}
	}
	for _, n := range used {
		if denial := g.mayUse(ctx, request.UserInfo, o, n); denial != nil {
			return about(o, n.field, *denial)
		}
	}
	answer := allowed("NothingNamed")
	for _, n := range c.names {
		if answer = g.mayName(ctx, request.UserInfo, o, n); answer.Decision != webhooks.Allowed {
			return about(o, n.field, answer)
		}
	}
	if c.moves {
		if denial := g.hold(ctx, request.UserInfo, o, c); denial != nil {
			return about(o, c.by.field, *denial)
		}
	}
	return g.compareOwner(ctx, o, c.names, answer)
}

// mayName decides whether the requester, who passed mayUse, may name this user. It shows the content of a Secret only to requesters
// that wrote it or may read it.
func (g *Impersonation) mayName(ctx context.Context, requester authenticationv1.UserInfo, o object, n naming) webhooks.Answer {
	email := n.email
	if invalid := clusterapi.CheckEmail(email); invalid != nil {
		return unusable(invalid)
	}
	if email == "" {
		var err error
		if email, err = g.users.User(ctx, n.ref); err != nil {
			return noUser(err)
		}
	}
	verdict, err := g.checker.MayImpersonate(ctx, requester, email)
	var outOfScope *impersonation.OutOfScopeError
	switch {
	case errors.As(err, &outOfScope):
		return denied(outOfScope.Reason, outOfScope.Error())
	case err != nil:
		return notChecked(err)
	case verdict.Allowed:
		return allowed("ImpersonationAllowed")
	}
	return notAllowed(verdict, o, n, g.knows(ctx, requester, n))
}

// knows reports whether the requester knows the user that is named: the request contains it, or the requester may read the Secret.
func (g *Impersonation) knows(ctx context.Context, requester authenticationv1.UserInfo, n naming) bool {
	if n.email != "" {
		return true
	}
	readable, _, err := g.checker.MayRead(ctx, requester, n.ref)
	return err == nil && readable
}

// mayUse denies a Secret that the requester may not use.
func (g *Impersonation) mayUse(ctx context.Context, requester authenticationv1.UserInfo, o object, n naming) *webhooks.Answer {
	may, evaluationError, err := g.checker.MayUse(ctx, requester, n.ref, o.Namespace)
	switch {
	case err != nil:
		return ptr.To(notChecked(err))
	case !may:
		return ptr.To(notReadable(requester, n.ref, evaluationError))
	}
	return nil
}
