// Package cluster holds the gate on what says as which user the provider of a cluster acts: nobody can name a user
// whom they may not impersonate.
//
// The provider's service account may act as any user of the cloud, so whoever writes an email into a CloudSigmaCluster
// borrows that power. The right to do so is the one that Kubernetes has for it, "impersonate" on "users", and the API
// server is asked whether the requester has it.
//
// Only this verb counts. The verbs of constrained impersonation (KEP-5284) do not: "impersonate:user-info" permits to take a
// user's name, but a request under it must also be permitted by an "impersonate-on:user-info:<verb>" on what it does. These
// limits are about resources of Kubernetes. A provider acts with all the power that the user has in the cloud, which none of them
// describes, so a permission that is limited in Kubernetes would become an unlimited one in the cloud.
//
// On kcp it is asked in the workspace of the provider, which the requester does not control. See NewForProvider.
package cluster

import (
	"context"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/inflight"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// Path is where the gate is served.
const Path = "/cluster/impersonation"

// Users tells whom clusters and Secrets name.
type Users interface {
	// User returns the user that ref means. The error is a *clusterapi.AccountError where the objects do not say, and any
	// other where they could not be read.
	User(ctx context.Context, ref clusterapi.UserRef) (string, error)
	// AccountOf returns as whom the provider of a cluster object acts, as the object says it. The error is that of User.
	AccountOf(ctx context.Context, provider v1beta1.Provider, object *unstructured.Unstructured) (ownership.Account, error)
	// UserDependents returns the clusters that take their user from the Secret, with the account that they have with this user.
	// also are objects that were written a moment ago.
	UserDependents(ctx context.Context, secret *corev1.Secret, user string, also []inflight.Object) ([]clusterapi.Dependent, error)
}

// Gate is the validating gate. It fails closed: while the API server cannot be asked, nobody can name a user anew.
//
// A Secret is judged whether a cluster refers to it or not. If only Secrets in use were, a cluster could be admitted with the
// user of a Secret while another user is written into it.
//
// As whom a provider acts is part of what a machine claims. A change of it is refused while machines name instances that do not
// belong to whom the provider would act as.
type Gate struct {
	config   v1beta1.Cluster
	reviewer Reviewer
	users    Users
	holdings *Holdings
	// provider is the logical cluster in which permissions are checked, empty on Kubernetes. See NewForProvider.
	provider logicalcluster.Name
}

// New returns the gate. holdings is nil where no machines are gated.
func New(config v1beta1.Cluster, reviewer Reviewer, users Users, holdings *Holdings) *Gate {
	return &Gate{config: config, reviewer: reviewer, users: users, holdings: holdings}
}

// NewForProvider returns the gate on what a provider exports on kcp. The reviewer asks in the provider's workspace, the one of the
// APIExport: in its own the requester may be cluster-admin, and allow itself to impersonate anybody.
func NewForProvider(config v1beta1.Cluster, reviewer Reviewer, users Users, holdings *Holdings, provider logicalcluster.Name) *Gate {
	return &Gate{config: config, reviewer: reviewer, users: users, holdings: holdings, provider: provider}
}

var _ webhooks.Gate = &Gate{}

// Name implements webhooks.Gate.
func (*Gate) Name() string { return "cluster-impersonation" }

// Review implements webhooks.Gate.
func (g *Gate) Review(ctx context.Context, request admission.Request) (answer webhooks.Answer) {
	kind, known := kindOf(kindsOf(g.config.Impersonation), request)
	if !known {
		return webhooks.Answer{Decision: webhooks.Denied, Status: metav1.StatusReasonBadRequest, Reason: "UnknownKind", Message: fmt.Sprintf(
			"%s of group %q is no kind of objects that name users", request.Resource.Resource, request.Resource.Group)}
	}
	o, err := readObject(kind, request)
	if err != nil {
		return unreadable(err)
	}
	if kind.resource == secrets && g.config.Exempts(o.Namespace) { // no cluster can refer to it
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: namespaceExempt}
	}
	names, err := kind.names(o, request)
	if err != nil {
		return unreadable(err)
	}
	m, err := moveOf(o, request, names)
	if err != nil {
		return unreadable(err)
	}
	used := names
	if m != nil && len(names) == 0 {
		used = []naming{m.naming}
	}
	for _, n := range used {
		if refused := g.mayUse(ctx, request.UserInfo, o, n); refused != nil {
			return about(o, n.field, *refused)
		}
	}
	var c *change
	if m != nil {
		var refused *webhooks.Answer
		if c, refused = g.holdings.begin(ctx, o, request, m.uses(), m.changes(o)); refused != nil {
			return about(o, m.naming.field, *refused)
		}
		defer func() { c.end(answer.Decision) }()
	}
	named := allowed("NothingNamed")
	for _, n := range names {
		if named = g.mayName(ctx, request.UserInfo, o, n); named.Decision != webhooks.Allowed {
			return about(o, n.field, named)
		}
	}
	if m != nil {
		if refused := g.hold(ctx, request.UserInfo, o, *m, c); refused != nil {
			return about(o, m.naming.field, *refused)
		}
	}
	return named
}

// mayName decides whether the requester, who passed mayUse, may name this user. It shows the content of a Secret only to requesters
// that wrote it or may read it.
func (g *Gate) mayName(ctx context.Context, requester authenticationv1.UserInfo, o object, n naming) webhooks.Answer {
	email := n.email
	if email == "" {
		var err error
		if email, err = g.users.User(ctx, n.ref); err != nil {
			return noUser(err)
		}
	}
	known, err := g.knownAs(requester)
	if err != nil {
		return g.forged(requester, err)
	}
	allowed, evaluationErrors, err := g.mayImpersonate(ctx, known, email)
	switch {
	case err != nil:
		return notAsked(err)
	case allowed:
		return allowed("ImpersonationAllowed")
	}
	return g.notAllowed(requester, known, o, n, email, g.knows(ctx, requester, n), evaluationErrors)
}

// knows tells whether the requester knows the user that is named: by having written it, or by what it may read.
func (g *Gate) knows(ctx context.Context, requester authenticationv1.UserInfo, n naming) bool {
	if n.email != "" {
		return true
	}
	status, err := g.reviewer.Review(ctx, getSecret(requester, n.ref))
	return err == nil && status.Allowed
}

// mayUse refuses the Secret of another namespace, unless the requester could read it: or anybody could act as whoever is named
// there. It comes before the request is remembered as one that uses the Secret, or anybody could hold up those who write it.
func (g *Gate) mayUse(ctx context.Context, requester authenticationv1.UserInfo, o object, n naming) *webhooks.Answer {
	// On kcp no Secret names a user (clusterapi.UserRefUnguarded), and in the provider's workspace it would be another Secret.
	if n.ref.SecretName == "" || n.ref.SecretNamespace == o.Namespace || g.provider != "" {
		return nil
	}
	status, err := g.reviewer.Review(ctx, getSecret(requester, n.ref))
	switch {
	case err != nil:
		return refuse(notAsked(err))
	case !status.Allowed:
		return refuse(notReadable(requester, n.ref, status.EvaluationError))
	}
	return nil
}
