// Package machine holds the gate on the machine objects of Cluster API providers: the instance that a machine names must belong to the
// user that its provider acts as. Of an external provider, whose cloud is not asked, it must not be named by an object of another namespace.
//
// Package ownership decides. This package decodes requests and returns answers.
package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/share"
	"warrantgate.dev/webhooks"
)

// Path is where the gate is served.
const Path = "/machine/ownership"

// Owners decides which user an instance belongs to.
type Owners interface {
	// Decide answers a claim of a tenant before ctx ends. The error is an *ownership.UnknownError.
	Decide(ctx context.Context, tenant share.Tenant, claim ownership.Claim, options ownership.Options) (ownership.Answer, error)
}

// Objects reads the current state of other objects from the API server.
type Objects interface {
	// Account returns the account that the provider of a cluster acts with. The error is a *clusterapi.AccountError if the objects name no
	// account.
	Account(ctx context.Context, cluster clusterapi.Cluster) (ownership.Account, error)
	// Holder returns another machine that names the instance and counts, nil if there is none.
	Holder(ctx context.Context, id string, other clusterapi.Machine, counts func(clusterapi.Machine) bool) (*clusterapi.Machine, error)
	// Owner returns the Machine of Cluster API that owns a machine, nil if none does. The error is a *clusterapi.AccountError if the owner
	// references have to be corrected.
	Owner(ctx context.Context, machine clusterapi.Machine) (*clusterapi.Owner, error)
	// Owned returns the machines in a namespace that a Machine of Cluster API owns.
	Owned(ctx context.Context, namespace, owner string) ([]clusterapi.Machine, error)
}

// Gate is the validating gate. It fails closed: a request without a decision is denied, unless the configuration admits it with a
// warning.
//
// A first claim, of a machine that named no instance before, is admitted by default if the cloud does not answer, because a provider that
// loses it creates another server. The same holds for first claims of a tenant that already uses its share of the requests to the cloud. All that
// needs no cloud is checked before. The audit checks such a claim as soon as there is an answer.
//
// Two writes of one object cannot do together what neither may do alone. The API server sends the whole object as it is going to be
// stored: a write of the status has the stored metadata, and the other way round. It stores the object only if it has not changed since,
// and otherwise calls the gate again with the newer object (Store.Update of k8s.io/apiserver calls admission within GuaranteedUpdate).
//
// Two objects have no such guarantee: a machine, its cluster and the Machine that owns it are written by different requests, and each
// can be evaluated with the other object before its change. Both can be admitted. The audit checks each machine a moment after it, its owner
// or its cluster was stored, and reports what is wrong.
type Gate struct {
	kinds   []clusterapi.Kind
	objects Objects
	owners  Owners
	unknown v1beta1.UnknownPolicy
	audited func(context.Context) bool // nil means always
}

// New returns the gate on machines of the kinds.
func New(config v1beta1.Machine, kinds []clusterapi.Kind, objects Objects, owners Owners) *Gate {
	return &Gate{kinds: kinds, objects: objects, owners: owners, unknown: config.Unknown}
}

var _ webhooks.Gate = &Gate{}

// Name implements webhooks.Gate.
func (*Gate) Name() string { return "machine-ownership" }

// Review implements webhooks.Gate.
func (g *Gate) Review(ctx context.Context, request admission.Request) webhooks.Answer {
	kind, known := g.kindOf(request)
	if !known && isOwner(request) {
		return g.reviewOwner(ctx, request)
	}
	if !known {
		return webhooks.Answer{Decision: webhooks.Denied, Status: metav1.StatusReasonBadRequest, Reason: "UnknownKind", Message: fmt.Sprintf(
			"%s of group %q is not a configured kind of machines", request.Resource.Resource, request.Resource.Group)}
	}
	if request.Operation == admissionv1.Delete { // no rule of warrantgate selects it; other rules must not block a deletion
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "NothingClaimed"}
	}
	machine, old, err := read(kind, request)
	if err != nil {
		return webhooks.Undecodable(err)
	}
	c := newChange(machine, old, request.Operation != admissionv1.Create)
	if !c.claims() {
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "NothingClaimed"}
	}
	return g.review(ctx, c, request.DryRun != nil && *request.DryRun)
}

// review checks each instance that a change names. The first one that is not admitted has the answer.
func (g *Gate) review(ctx context.Context, c change, dryRun bool) (answer webhooks.Answer) {
	claims, denial := c.ids()
	if denial != nil {
		return g.conclude(c, *denial)
	}
	if c.machine.ClusterName() == "" && !c.machine.Kind.Provider.IsExternal() {
		return g.conclude(c, deniedf(ownership.ReasonWithoutCluster, withoutCluster))
	}
	for _, one := range claims {
		checked := g.conclude(one.change, g.check(ctx, one.change, one.id, dryRun))
		if checked.Decision != webhooks.Allowed && checked.Decision != webhooks.Warned {
			return checked
		}
		if answer.Decision != webhooks.Warned {
			answer = checked
		}
	}
	return answer
}

// check finds the first reason to deny the claim of an instance, cheapest first. Everything that it reads is the current state.
func (g *Gate) check(ctx context.Context, c change, id string, dryRun bool) webhooks.Answer {
	if c.machine.Kind.Provider.IsExternal() {
		if denial := g.unheld(ctx, c, id, anyMachine); denial != nil {
			return *denial
		}
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "NotHeld"}
	}
	var mismatch *webhooks.Answer
	var reads sync.WaitGroup
	reads.Go(func() { mismatch = g.sameCluster(ctx, c) }) // at the same time, because each read takes a round trip to the API server
	account, err := g.objects.Account(ctx, c.machine.Cluster())
	reads.Wait()
	if err != nil {
		return unknownObject(err, "the user that its provider acts as", "the cluster of the machine")
	}
	if denial := g.unrivaled(ctx, c, id, account); denial != nil {
		return *denial
	}
	if mismatch != nil {
		return *mismatch
	}
	answer := g.ask(ctx, c, id, account, dryRun)
	if !c.first || !isUnasked(answer) || !g.admitsFirst(ctx) {
		return answer
	}
	if denial := g.unheld(ctx, c, id, anyMachine); denial != nil {
		return *denial
	}
	return admitFirst(answer)
}

// withoutCluster is the message about a machine without a cluster.
const withoutCluster = "it has no label " + clusterapi.ClusterNameLabel + ", so the user that its provider acts as is unknown; set the label first"

// sameCluster compares the cluster labels of the machine and of the Machine that owns it, because the provider uses the label of the owner.
// It returns nil if they are equal. Without an owner the provider does not act yet, and the owner reference is evaluated once it is set.
func (g *Gate) sameCluster(ctx context.Context, c change) *webhooks.Answer {
	owner, err := g.objects.Owner(ctx, c.machine)
	switch {
	case err != nil:
		return ptr.To(unknownObject(err, "the cluster that its provider acts for", "the Machine that owns the machine"))
	case owner != nil && owner.ClusterName != c.machine.ClusterName():
		return ptr.To(deniedf(string(clusterapi.OwnerClusterMismatch), "%s", owner.Mismatch(c.machine)))
	}
	return nil
}

func (g *Gate) ask(ctx context.Context, c change, id string, account ownership.Account, dryRun bool) webhooks.Answer {
	answer, err := g.owners.Decide(ctx, share.FromContext(ctx), c.claim(id, account), ownership.Options{
		DryRun: dryRun, First: c.first, Recheck: c.first && g.unknown == v1beta1.AdmitFirstClaims,
	})
	var region *ownership.RegionError
	var identity *ownership.IdentityError
	switch {
	case errors.As(err, &region):
		return deniedf(ownership.RegionNotAllowed, "%s: %v", regionField(account, c.machine), region)
	case errors.As(err, &identity):
		return deniedf(identity.Reason, "the owner of the instance cannot be checked: %v", identity)
	case err != nil:
		return unknownOwner(c, account, err)
	}
	return verdict(c, id, account, answer)
}

func (g *Gate) kindOf(request admission.Request) (clusterapi.Kind, bool) {
	for _, kind := range g.kinds {
		if kind.Group == request.Resource.Group && kind.MachineKind.Resource == request.Resource.Resource {
			return kind, true
		}
	}
	return clusterapi.Kind{}, false
}

// read returns the machine after and before the request.
func read(kind clusterapi.Kind, request admission.Request) (machine, old clusterapi.Machine, err error) {
	if machine, err = kind.Decode(request.Object.Raw); err != nil {
		return machine, old, fmt.Errorf("decode the %s: %w", kind.Kind, err)
	}
	// The object may omit the namespace and name of the request.
	machine.Namespace, machine.Name = cmp.Or(machine.Namespace, request.Namespace), cmp.Or(machine.Name, request.Name)
	if request.Operation == admissionv1.Create {
		return machine, old, nil
	}
	if old, err = kind.Decode(request.OldObject.Raw); err != nil {
		// A stored object that cannot be decoded must not block its correction, so it is evaluated as if it had named no instance.
		return machine, clusterapi.Machine{Kind: kind}, nil //nolint:nilerr // see above
	}
	return machine, old, nil
}

// conclude adds the subject of the answer for a change.
func (g *Gate) conclude(c change, answer webhooks.Answer) webhooks.Answer {
	name, path := c.subject(answer.Reason)
	subject := webhooks.NewSubject(name, &c.machine, c.machine.Reference(), c.exists)
	details := []any{"cluster", c.machine.ClusterName()}
	if answer.Details != nil {
		details = append(details, answer.Details()...)
	}
	answer.Details = func() []any { return details }
	return g.about(subject, path, answer)
}

// about adds the subject and the field of an answer, and admits the request with a warning if the configuration admits requests in an outage.
func (g *Gate) about(subject webhooks.Subject, path string, answer webhooks.Answer) webhooks.Answer {
	answer.Subject, answer.Field = subject, path
	if answer.Decision == webhooks.Undecided && isOutage(answer) && g.unknown == v1beta1.Admit {
		answer.Decision = webhooks.Warned
	}
	return answer
}

// isUnasked reports whether there is no answer because the cloud or its identity provider is away, or was not asked because it is asked about
// too many other claims.
func isUnasked(answer webhooks.Answer) bool {
	return answer.Reason == ownership.ReasonUnknown && slices.ContainsFunc(answer.Causes, func(cause metav1.StatusCause) bool {
		of := ownership.Cause(cause.Type)
		return of.IsAway() || of == ownership.CauseBusy || of == ownership.CauseTenantBusy
	})
}

// isOutage reports whether an undecided answer is because of the cloud or its identity provider. The author of a request could cause all
// other reasons: too many other claims, and objects that cannot be read in time because they are many or large.
func isOutage(answer webhooks.Answer) bool {
	busy := func(cause metav1.StatusCause) bool { return cause.Type == metav1.CauseType(ownership.CauseBusy) }
	return answer.Reason == ownership.ReasonUnknown && !slices.ContainsFunc(answer.Causes, busy)
}
