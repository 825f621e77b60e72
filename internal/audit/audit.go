package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
)

// Objects are the machines and clusters to be looked at.
type Objects interface {
	// Machines and Clusters yield all that there are, as they were last seen.
	Machines() iter.Seq[clusterapi.Machine]
	Clusters() iter.Seq2[clusterapi.Cluster, corev1.ObjectReference]
	// Account returns as whom the provider of a cluster acts. The error is a *clusterapi.AccountError where the objects do
	// not say.
	Account(ctx context.Context, cluster clusterapi.Cluster) (ownership.Account, error)
}

// Audit compares machines with the instances of their users.
type Audit struct {
	Objects Objects
	// Clouds by the word for each in ownership.Account.
	Clouds map[string]ownership.Cloud
	// Limiter bounds the requests to each cloud, by the same words.
	Limiter map[string]*rate.Limiter
	// Delegation finds out, anew each time and with one request, whether a cluster may act with credentials. The error is an
	// *ownership.IdentityError where it must not. Nil where that is not asked.
	Delegation func(ctx context.Context, identity ownership.Identity) error
}

// Result is what one pass found.
type Result struct {
	Findings []Finding
	// Machines, Accounts and Requests count what was looked at, and the requests to clouds that it took.
	Machines, Accounts, Requests int
}

// Pass looks at everything once. An account that cannot be looked at does not keep the others from it: it is a finding,
// and part of the error.
func (a *Audit) Pass(ctx context.Context) (Result, error) {
	tenancies, accounts, err := a.tenancies(ctx)
	if err != nil {
		return Result{}, err
	}
	result := Result{Accounts: len(tenancies)}
	instances := make(map[*tenancy][]ownership.Instance, len(tenancies))
	var failed error
	for _, t := range tenancies {
		refused, asked := a.delegation(ctx, t)
		result.Findings = append(result.Findings, refused...)
		found, requests, err := a.instances(ctx, t.account)
		result.Requests += asked + requests
		var identity *ownership.IdentityError
		switch {
		case ctx.Err() != nil:
			return result, ctx.Err()
		case err == nil:
			instances[t] = found
		case errors.As(err, &identity): // whoever wrote the credentials has to mend them, so the pass has done what it can
			if len(refused) == 0 {
				result.Findings = append(result.Findings, unusable(t, identity)...)
			}
		default:
			result.Findings = append(result.Findings, unknown(t.account, t.about[0], "", err))
			failed = errors.Join(failed, fmt.Errorf("instances of %s in %s: %w", t.account.Owner(), t.account.Place(), err))
		}
	}
	// The machines last, because what was made in the meantime has come to be named by now.
	machines := slices.Collect(a.Objects.Machines())
	result.Machines = len(machines)
	all := index(machines, accounts)
	for i := range machines {
		machine := &machines[i]
		lookup := accounts[machine.Cluster()]
		if lookup.tenancy != nil {
			lookup.tenancy.machines = append(lookup.tenancy.machines, *machine)
		}
		if machine.InstanceID != "" || machine.ProviderID != "" {
			result.Findings = append(result.Findings, alone(*machine, lookup, all)...)
		}
	}
	ask := func(t *tenancy) asker {
		return func(machine clusterapi.Machine, id string) (ownership.Answer, error) {
			if err := a.Limiter[t.account.Cloud].Wait(ctx); err != nil {
				return ownership.Answer{}, err
			}
			result.Requests++
			return a.Clouds[t.account.Cloud].Ask(ctx, ownership.Claim{
				Account: t.account, ID: id, Name: machine.Name, MachineUID: string(machine.UID),
			})
		}
	}
	for t, found := range instances {
		result.Findings = append(result.Findings, compare(*t, found, all, ask(t))...)
	}
	slices.SortFunc(result.Findings, byObject)
	return result, failed
}

func byObject(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Object.Namespace, b.Object.Namespace), cmp.Compare(a.Object.Kind, b.Object.Kind),
		cmp.Compare(a.Object.Name, b.Object.Name), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Instance, b.Instance))
}

// lookup is what is known of a cluster: the account that it uses, or why that is not known. The zero value is a cluster
// that is not there.
type lookup struct {
	tenancy *tenancy
	refused *clusterapi.AccountError
}

// tenancies sorts the clusters by the account that they use, and with them the machines that bring an account of their own.
func (a *Audit) tenancies(ctx context.Context) ([]*tenancy, map[clusterapi.Cluster]lookup, error) {
	book := register{ask: a.Objects.Account, byAccount: map[ownership.Account]*tenancy{}, byCluster: map[clusterapi.Cluster]lookup{}}
	for cluster, object := range a.Objects.Clusters() {
		if err := book.add(ctx, cluster, object); err != nil {
			return nil, nil, err
		}
	}
	for machine := range a.Objects.Machines() {
		if machine.Identity == (clusterapi.IdentityRef{}) {
			continue
		}
		if err := book.add(ctx, machine.Cluster(), machine.Reference()); err != nil {
			return nil, nil, err
		}
	}
	return book.sorted(), book.byCluster, nil
}

// register sorts objects by the account that they use.
type register struct {
	ask       func(ctx context.Context, cluster clusterapi.Cluster) (ownership.Account, error)
	byAccount map[ownership.Account]*tenancy
	byCluster map[clusterapi.Cluster]lookup
}

// add takes an object that says which account a cluster uses. That it does not say is no error.
func (r register) add(ctx context.Context, cluster clusterapi.Cluster, object corev1.ObjectReference) error {
	account, err := r.ask(ctx, cluster)
	var refused *clusterapi.AccountError
	switch {
	case errors.As(err, &refused):
		r.byCluster[cluster] = lookup{refused: refused}
		return nil
	case err != nil:
		return err
	}
	t := r.byAccount[account]
	if t == nil {
		t = &tenancy{account: account}
		r.byAccount[account] = t
	}
	t.about = append(t.about, object)
	r.byCluster[cluster] = lookup{tenancy: t}
	return nil
}

// sorted returns the tenancies in an order that each pass repeats.
func (r register) sorted() []*tenancy {
	for _, t := range r.byAccount {
		slices.SortFunc(t.about, func(a, b corev1.ObjectReference) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
		})
	}
	return slices.SortedFunc(maps.Values(r.byAccount), func(a, b *tenancy) int {
		return compareAccounts(a.account, b.account)
	})
}

func compareAccounts(a, b ownership.Account) int {
	return cmp.Or(cmp.Compare(a.Cloud, b.Cloud), cmp.Compare(a.Region, b.Region), cmp.Compare(a.User, b.User),
		cmp.Compare(a.Identity.Namespace, b.Identity.Namespace), cmp.Compare(a.Identity.Secret, b.Identity.Secret),
		cmp.Compare(a.Identity.Entry, b.Identity.Entry))
}

// delegation tells of credentials with which no cluster may act, and of the requests that this took. Where it cannot be told,
// neither can be what their instances are, which says why.
func (a *Audit) delegation(ctx context.Context, t *tenancy) (findings []Finding, requests int) {
	if a.Delegation == nil || t.account.Identity == (ownership.Identity{}) || a.Limiter[t.account.Cloud].Wait(ctx) != nil {
		return nil, 0
	}
	var refused *ownership.IdentityError
	if errors.As(a.Delegation(ctx, t.account.Identity), &refused) {
		findings = unusable(t, refused)
	}
	return findings, 1
}

// unusable tells all who refer to credentials what is wrong with these.
func unusable(t *tenancy, refused *ownership.IdentityError) []Finding {
	findings := make([]Finding, 0, len(t.about))
	for _, object := range t.about {
		findings = append(findings, Finding{Reason: refused.Reason, Object: object, Account: t.account, Message: refused.Message})
	}
	return findings
}

// instances lists those of an account. How many requests that takes is known afterwards only, so the next account waits
// for as long as they would have had to.
func (a *Audit) instances(ctx context.Context, account ownership.Account) ([]ownership.Instance, int, error) {
	cloud, known := a.Clouds[account.Cloud]
	if !known {
		return nil, 0, fmt.Errorf("no access to the cloud %q is configured", account.Cloud)
	}
	instances, requests, err := cloud.Instances(ctx, account)
	for range requests {
		if waited := a.Limiter[account.Cloud].Wait(ctx); waited != nil {
			return nil, requests, waited
		}
	}
	return instances, requests, err
}

// unknown says that an account, or an instance of it, could not be looked at.
func unknown(account ownership.Account, object corev1.ObjectReference, instance string, err error) Finding {
	why := ownership.CauseCloud.Explain()
	var cause *ownership.UnknownError
	var region *ownership.RegionError
	switch {
	case errors.As(err, &region):
		why = region.Error()
	case errors.As(err, &cause):
		why = cause.Cause.Explain()
	}
	what := "the instances of %s in %s could not be listed: %s"
	if instance != "" {
		what = "it could not be told whether its instance belongs to %s in %s: %s"
	}
	return Finding{
		Reason: ownership.ReasonUnknown, Object: object, Instance: instance, Account: account,
		Message: fmt.Sprintf(what, account.Owner(), account.Place(), why),
	}
}
