package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
)

// Objects are the machines and clusters to be looked at.
type Objects interface {
	// Machines and Clusters yield all that there are, as they were last seen.
	Machines() iter.Seq[clusterapi.Machine]
	Clusters() iter.Seq[corev1.ObjectReference]
	// Account returns as whom the provider of a cluster acts. The error is a *clusterapi.AccountError where the objects do
	// not say.
	Account(ctx context.Context, namespace, clusterName string) (ownership.Account, error)
}

// Audit compares machines with the instances of their users.
type Audit struct {
	Objects Objects
	// Clouds by the word for each in ownership.Account.
	Clouds map[string]ownership.Cloud
	// Limiter bounds the requests to each cloud, by the same words.
	Limiter map[string]*rate.Limiter
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
		found, requests, err := a.instances(ctx, t.account)
		result.Requests += requests
		switch {
		case ctx.Err() != nil:
			return result, ctx.Err()
		case err != nil:
			result.Findings = append(result.Findings, unknown(t.account, t.clusters[0], "", err))
			failed = errors.Join(failed, fmt.Errorf("instances of %s in region %q: %w", t.account.Owner(), t.account.Region, err))
		default:
			instances[t] = found
		}
	}
	// The machines last, because what was made in the meantime has come to be named by now.
	machines := slices.Collect(a.Objects.Machines())
	result.Machines = len(machines)
	all := index(machines, accounts)
	for i := range machines {
		machine := &machines[i]
		lookup := accounts[clusterOf(*machine)]
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

// tenancies sorts the clusters by the account that they use.
func (a *Audit) tenancies(ctx context.Context) ([]*tenancy, map[types.NamespacedName]lookup, error) {
	byAccount := map[ownership.Account]*tenancy{}
	byCluster := map[types.NamespacedName]lookup{}
	for cluster := range a.Objects.Clusters() {
		name := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
		account, err := a.Objects.Account(ctx, name.Namespace, name.Name)
		var refused *clusterapi.AccountError
		switch {
		case errors.As(err, &refused):
			byCluster[name] = lookup{refused: refused}
			continue
		case err != nil:
			return nil, nil, err
		}
		t := byAccount[account]
		if t == nil {
			t = &tenancy{account: account}
			byAccount[account] = t
		}
		t.clusters = append(t.clusters, cluster)
		byCluster[name] = lookup{tenancy: t}
	}
	sorted := make([]*tenancy, 0, len(byAccount))
	for _, t := range byAccount {
		slices.SortFunc(t.clusters, func(a, b corev1.ObjectReference) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		sorted = append(sorted, t)
	}
	slices.SortFunc(sorted, func(a, b *tenancy) int {
		return cmp.Or(cmp.Compare(a.account.Cloud, b.account.Cloud), cmp.Compare(a.account.Region, b.account.Region),
			cmp.Compare(a.account.User, b.account.User))
	})
	return sorted, byCluster, nil
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
	what := "the instances of %s in region %q could not be listed: %s"
	if instance != "" {
		what = "it could not be told whether its instance belongs to %s in region %q: %s"
	}
	return Finding{
		Reason: ownership.ReasonUnknown, Object: object, Instance: instance, Account: account,
		Message: fmt.Sprintf(what, account.Owner(), account.Region, why),
	}
}
