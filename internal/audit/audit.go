package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/share"
)

// Objects are the machines and clusters to check.
type Objects interface {
	// Machines and Clusters yield all objects in their last seen state.
	Machines() iter.Seq[clusterapi.Machine]
	// Machine returns one machine, and whether it exists. Naming returns the machines of its provider that name one of its instances; of an
	// external provider, those of other namespaces.
	Machine(key clusterapi.MachineKey) (clusterapi.Machine, bool)
	Naming(id string, machine clusterapi.Machine) []clusterapi.Machine
	Clusters() iter.Seq2[clusterapi.Cluster, corev1.ObjectReference]
	// Account returns the account of a cluster's provider. The error is a *clusterapi.AccountError if the objects specify no account.
	Account(ctx context.Context, cluster clusterapi.Cluster) (ownership.Account, error)
	// OwnerSeen returns the Machine of Cluster API that owns a machine, nil if there is none. The error is a *clusterapi.AccountError if
	// the owner references have to be corrected.
	OwnerSeen(ctx context.Context, machine clusterapi.Machine) (*clusterapi.Owner, error)
}

// Audit compares machines with the instances of their users.
type Audit struct {
	Objects Objects
	// Namespace limits the result to this namespace, unless it is empty: to findings about its objects, and to the accounts that they use.
	Namespace string
	// Progress is called after each account, if it is not nil, with the numbers of listed accounts, of all accounts and of requests to clouds.
	Progress func(accounts, all, requests int)
	// Refresh makes Objects read all objects again. It is nil if Objects watches them.
	Refresh func(ctx context.Context) error
	// Clouds are the clouds by their names in ownership.Account.
	Clouds map[string]ownership.Cloud
	// Limiter limits the requests to each cloud, by the same names.
	Limiter map[string]*rate.Limiter
	// Confirmed reports whether a gate of this replica got the answer a short time ago that the instance of a claim belongs to the user. Recheck
	// then sends no request to the cloud. It is nil if there is no gate.
	Confirmed func(claim ownership.Claim) bool
	// Delegation checks with one new request whether a cluster may use credentials. The error is an *ownership.IdentityError if it may not.
	// Delegation is nil if credentials are not checked.
	Delegation func(ctx context.Context, identity ownership.Identity) error
	// Now is the clock.
	Now func() time.Time
	// notNamed are the instances that the previous run saw and that their machines did not name.
	notNamed    map[notNamed]bool
	differences differences
}

// errNotRead means that Refresh failed, so that the run has no result.
var errNotRead = errors.New("machines and clusters could not be read")

// refresh returns an error that wraps errNotRead if the objects could not be read.
func (a *Audit) refresh(ctx context.Context) error {
	if a.Refresh == nil {
		return nil
	}
	if err := a.Refresh(ctx); err != nil {
		return fmt.Errorf("%w: %w", errNotRead, err)
	}
	return nil
}

// Result is the result of one run.
type Result struct {
	Findings []Finding
	// Machines and Accounts are the numbers of checked machines and accounts, Requests the number of requests to clouds.
	Machines, Accounts, Requests int
	// NotNamed is the number of instances that were created for a machine that names none, and that are a finding if the next run sees
	// them again.
	NotNamed int
	// Young is the number of findings that are missing because their problem has not lasted for Lasting.
	Young int
	// Unchecked are machines to check again: those with such a problem, and those about which the cloud did not answer.
	Unchecked []clusterapi.MachineKey
	// compared are the machines whose instances were compared with those of the cloud.
	compared []subject
}

// Run checks all objects once. Two runs must not overlap, because each run compares with the previous one. An account that
// cannot be checked is a finding and part of the error. Run then continues with the other accounts.
func (a *Audit) Run(ctx context.Context) (Result, error) {
	if err := a.refresh(ctx); err != nil {
		return Result{}, err
	}
	book := a.register(ctx)
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	tenancies := slices.DeleteFunc(book.sorted(), func(t *tenancy) bool { return !t.usedIn(a.Namespace) })
	result := Result{Accounts: len(tenancies), Findings: book.invalid}
	used := spent{}
	instances, failed := a.list(ctx, tenancies, used, &result)
	if ctx.Err() != nil {
		return result, ctx.Err()
	}
	failed = errors.Join(book.failure(), failed)
	// Read the machines after the instances: by now, machines name the instances that were created in the meantime.
	if err := a.refresh(ctx); err != nil {
		return Result{}, err
	}
	machines := slices.Collect(a.Objects.Machines())
	a.differences.keep(machines)
	result.Machines = len(machines)
	all := index(machines, book.byCluster)
	result.Findings = append(result.Findings, book.assign(machines, all)...)
	misowned, err := a.owners(ctx, machines)
	result.Findings, failed = append(result.Findings, misowned...), errors.Join(failed, err)
	ask := func(machine acting, id string) (answer ownership.Answer, err error) {
		of := requester{cloud: machine.account.Cloud, tenant: machine.place().tenant()}
		if err = errLater; !used.exhausted(of) {
			var took time.Duration
			answer, took, err = a.ask(ctx, machine.claim(id))
			used.add(of, took, 1, a.Limiter[of.cloud])
			result.Requests++
		}
		if awaited(err) {
			result.Unchecked = append(result.Unchecked, machine.Key())
		}
		return answer, err
	}
	again := a.seenAgain(book, instances, &result)
	for t, found := range instances {
		result.Findings = append(result.Findings, compare(*t, found, all, ask, again)...)
		for _, machine := range t.machines {
			if len(machine.IDs()) > 0 {
				result.compared = append(result.compared, subjectOf(machine.Machine))
			}
		}
	}
	var young []clusterapi.MachineKey
	result.Findings, young = lasting(result.Findings)
	result.Young, result.Unchecked = len(young), slices.Concat(result.Unchecked, young, unanswered(tenancies))
	result.Findings = slices.DeleteFunc(result.Findings, func(f Finding) bool { return a.Namespace != "" && f.Object.Namespace != a.Namespace })
	slices.SortFunc(result.Findings, byObject)
	return result, failed
}

// ask requests the answer for a claim from the cloud, within the rate limit, and returns how long the request took.
func (a *Audit) ask(ctx context.Context, claim ownership.Claim) (answer ownership.Answer, took time.Duration, err error) {
	if err := a.Limiter[claim.Cloud].Wait(ctx); err != nil {
		return ownership.Answer{}, 0, err
	}
	began := a.Now()
	answer, err = a.Clouds[claim.Cloud].Ask(ctx, claim)
	return answer, a.Now().Sub(began), err
}

// unanswered returns the machines that name instances of accounts whose instances could not be listed because the cloud did not answer.
func unanswered(tenancies []*tenancy) []clusterapi.MachineKey {
	var machines []clusterapi.MachineKey
	for _, t := range tenancies {
		for _, machine := range t.machines {
			if t.awaited && len(machine.IDs()) > 0 {
				machines = append(machines, machine.Key())
			}
		}
	}
	return machines
}

// awaited reports whether a request to a cloud failed for a reason that ends by itself: the cloud or its identity provider did not answer. All
// others have to be corrected by the author of the account.
func awaited(err error) bool {
	var unknown *ownership.UnknownError
	var identity *ownership.IdentityError
	var region *ownership.RegionError
	switch {
	case errors.As(err, &identity), errors.As(err, &region):
		return false
	case errors.As(err, &unknown):
		return unknown.Cause != ownership.CauseNotImpersonable
	}
	return err != nil
}

// list lists the instances of the accounts. The error is for accounts that could not be checked; each of them also has a finding.
func (a *Audit) list(
	ctx context.Context, tenancies []*tenancy, used spent, result *Result,
) (instances map[*tenancy][]ownership.Instance, failed error) {
	instances = make(map[*tenancy][]ownership.Instance, len(tenancies))
	reported := map[requester]bool{}
	for i, t := range tenancies {
		if a.Progress != nil {
			a.Progress(i, len(tenancies), result.Requests)
		}
		of, object := used.least(t)
		if used.exhausted(of) {
			if result.Accounts--; !reported[of] {
				reported[of] = true
				result.Findings = append(result.Findings, object.finding(Finding{Reason: reasonNotAudited, Message: notAudited}))
				failed = errors.Join(failed, fmt.Errorf("the accounts of %s take too long", describe(of.tenant)))
			}
			continue
		}
		began := a.Now()
		invalid, sent := a.delegation(ctx, t)
		result.Findings = append(result.Findings, invalid...)
		found, more, err := a.instances(ctx, t.account)
		used.add(of, a.Now().Sub(began), sent+more, a.Limiter[of.cloud])
		result.Requests += sent + more
		if waited := a.wait(ctx, of.cloud, sent+more); waited != nil {
			err = waited
		}
		var identity *ownership.IdentityError
		var region *ownership.RegionError
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil:
			instances[t] = found
		case errors.As(err, &identity): // the author of the credentials has to correct them, so the run is complete
			if len(invalid) == 0 {
				result.Findings = append(result.Findings, unusable(t, gateDelegation, identity.Reason, identity.Message)...)
			}
		case errors.As(err, &region): // the author of the cluster has to correct the region
			result.Findings = append(result.Findings, unusable(t, gateImpersonation, ownership.RegionNotAllowed, region.Error())...)
		default:
			t.awaited = awaited(err)
			result.Findings = append(result.Findings, unknown(t.whole(), "", err))
			failed = errors.Join(failed, fmt.Errorf("instances of %s in %s: %w", t.account.Owner(), t.account.Place(), err))
		}
	}
	return instances, failed
}

// seenAgain returns a function that remembers an instance that its machine does not name, and reports whether the previous run
// saw it, too. Instances of accounts that this run could not list stay remembered.
func (a *Audit) seenAgain(book *register, instances map[*tenancy][]ownership.Instance, result *Result) func(notNamed) bool {
	before := a.notNamed
	a.notNamed = map[notNamed]bool{}
	for seen := range before {
		t := book.byAccount[seen.account]
		if _, listed := instances[t]; t != nil && !listed { // this run could not list its account
			a.notNamed[seen] = true
		}
	}
	return func(seen notNamed) bool {
		a.notNamed[seen] = true
		if !before[seen] {
			result.NotNamed++
		}
		return before[seen]
	}
}

func byObject(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.LogicalCluster, b.LogicalCluster), cmp.Compare(a.Object.Namespace, b.Object.Namespace), cmp.Compare(a.Object.Kind, b.Object.Kind),
		cmp.Compare(a.Object.Name, b.Object.Name), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Instance, b.Instance))
}

// lookup is the account that a cluster uses, or the reason why it is unknown. The zero value is a cluster that does not exist.
type lookup struct {
	tenancy *tenancy
	account ownership.Account
	invalid *clusterapi.AccountError
}

func (a *Audit) newRegister() *register {
	return &register{
		ask: a.Objects.Account, left: func(machine clusterapi.Machine) time.Duration { return a.differences.left(machine, a.Now()) },
		byAccount: map[ownership.Account]*tenancy{}, byCluster: map[clusterapi.Cluster]lookup{}, unread: map[share.Tenant]error{},
	}
}

// register groups the clusters by their accounts, and adds the machines with their own identity.
func (a *Audit) register(ctx context.Context) *register {
	book := a.newRegister()
	for cluster, object := range a.Objects.Clusters() {
		book.add(ctx, cluster, place{in: cluster.LogicalCluster, object: object})
	}
	for machine := range a.Objects.Machines() {
		cluster := machine.Cluster()
		_, known := book.byCluster[cluster]
		switch {
		case machine.Identity != (clusterapi.IdentityRef{}):
			book.add(ctx, cluster, placeOf(machine))
		case !known && cluster.Name != "":
			// A Cluster can refer to a cluster object without its label. Clusters yields that object by its own name.
			book.resolve(ctx, cluster, placeOf(machine))
		}
	}
	return book
}

// register groups objects by the account that they use.
type register struct {
	ask       func(ctx context.Context, cluster clusterapi.Cluster) (ownership.Account, error)
	left      func(machine clusterapi.Machine) time.Duration
	byAccount map[ownership.Account]*tenancy
	byCluster map[clusterapi.Cluster]lookup
	// invalid are the findings about objects that specify no account, or whose account could not be read.
	invalid []Finding
	// unread contains the first error for each tenant. The remaining accounts of the tenant are not read, because each can take
	// as long as the first: a tenant can make its objects large.
	unread map[share.Tenant]error
}

// failure returns an error if accounts could not be read.
func (r *register) failure() error {
	for of, err := range r.unread {
		return fmt.Errorf("accounts of %d namespaces or logical clusters could not be read, among them %s: %w", len(r.unread), describe(of), err)
	}
	return nil
}

// add adds an object that specifies the account of a cluster. If it specifies none, add adds a finding.
func (r *register) add(ctx context.Context, cluster clusterapi.Cluster, object place) {
	if _, known := r.byCluster[cluster]; !known {
		r.resolve(ctx, cluster, object)
	}
	found := r.byCluster[cluster]
	object.account = found.account
	switch {
	case found.invalid != nil:
		r.invalid = append(r.invalid, object.finding(Finding{Reason: string(found.invalid.Reason), Message: notKnown(found.invalid)}))
	case found.tenancy != nil:
		found.tenancy.add(object)
	}
}

// resolve reads the account of a cluster. If no other object specifies this account, object represents it in findings.
func (r *register) resolve(ctx context.Context, cluster clusterapi.Cluster, object place) {
	if r.unread[object.tenant()] != nil {
		return
	}
	account, err := r.ask(ctx, cluster)
	var invalid *clusterapi.AccountError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == clusterapi.ClusterMissing: // or it was deleted a moment ago
		r.byCluster[cluster] = lookup{}
		return
	case errors.As(err, &invalid):
		r.byCluster[cluster] = lookup{invalid: invalid}
		return
	case err != nil:
		r.unread[object.tenant()] = err
		r.invalid = append(r.invalid, object.finding(Finding{Reason: reasonNotAudited, Message: notRead}))
		return
	}
	t := r.byAccount[account.Plain()]
	if t == nil {
		object.account = account
		t = &tenancy{account: account.Plain()}
		t.add(object)
		r.byAccount[t.account] = t
	}
	r.byCluster[cluster] = lookup{tenancy: t, account: account}
}

// assign adds each machine to the account of its cluster, and returns the findings of alone.
func (r *register) assign(machines []clusterapi.Machine, all named) []Finding {
	var findings []Finding
	for i := range machines {
		machine := acting{Machine: machines[i]}
		lookup, known := r.byCluster[machine.Cluster()]
		if !known && machine.ClusterName() != "" {
			continue // it was created during this run, and the next one checks it
		}
		machine.account, machine.left = lookup.account, r.left(machine.Machine)
		if lookup.tenancy != nil {
			lookup.tenancy.machines = append(lookup.tenancy.machines, machine)
		}
		if machine.InstanceID != "" || machine.ProviderID != "" {
			findings = append(findings, alone(machine, lookup, all)...)
		}
	}
	return findings
}

// sorted returns the tenancies in the same order in each run.
func (r *register) sorted() []*tenancy {
	for _, t := range r.byAccount {
		slices.SortFunc(t.about, func(a, b place) int {
			return cmp.Or(cmp.Compare(a.in, b.in), cmp.Compare(a.object.Namespace, b.object.Namespace),
				cmp.Compare(a.object.Kind, b.object.Kind), cmp.Compare(a.object.Name, b.object.Name))
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

// delegation returns a finding if no cluster may use the credentials, and the number of requests. If the check fails, it returns no
// finding: the list of the instances then fails as well, and its error contains the reason.
func (a *Audit) delegation(ctx context.Context, t *tenancy) (findings []Finding, requests int) {
	if a.Delegation == nil || t.account.Identity == (ownership.Identity{}) {
		return nil, 0
	}
	var invalid *ownership.IdentityError
	if errors.As(a.Delegation(ctx, t.account.Identity), &invalid) {
		findings = unusable(t, gateDelegation, invalid.Reason, invalid.Message)
	}
	return findings, 1
}

// unusable returns a finding for each object that specifies the account.
func unusable(t *tenancy, gate, reason, message string) []Finding {
	findings := make([]Finding, 0, len(t.about))
	for _, object := range t.about {
		findings = append(findings, object.finding(Finding{Reason: reason, Account: t.account, Message: message, gate: gate}))
	}
	return findings
}

// owners compares the cluster labels of machines that name instances with those of the Machines of Cluster API that own them, because
// providers use the latter. If an owner cannot be read, the remaining machines of its logical cluster are not compared, on Kubernetes all
// remaining machines.
func (a *Audit) owners(ctx context.Context, machines []clusterapi.Machine) ([]Finding, error) {
	var findings []Finding
	add := func(machine clusterapi.Machine, reason clusterapi.Reason, message string) {
		findings = append(findings, findingOf(machine, Finding{Reason: string(reason), Message: message}))
	}
	failed := map[logicalcluster.Name]error{}
	for _, machine := range machines {
		if machine.InstanceID == "" && machine.ProviderID == "" || len(machine.Owners()) == 0 || machine.Kind.Provider.IsExternal() ||
			failed[machine.LogicalCluster] != nil {
			continue
		}
		owner, err := a.Objects.OwnerSeen(ctx, machine)
		var invalid *clusterapi.AccountError
		switch {
		case errors.As(err, &invalid) && invalid.Reason == clusterapi.OwnerMachineMissing && machine.DeletionTimestamp != nil: // deleted after its owner
		case errors.As(err, &invalid):
			add(machine, invalid.Reason, "the cluster that its provider acts for is unknown: "+invalid.Message)
		case err != nil && machine.LogicalCluster != "":
			failed[machine.LogicalCluster] = fmt.Errorf("owners of machines of logical cluster %q: %w", machine.LogicalCluster, err)
		case err != nil:
			failed[""] = fmt.Errorf("owners of machines: %w", err)
		case owner != nil && owner.ClusterName != machine.ClusterName():
			add(machine, clusterapi.OwnerClusterMismatch, owner.Mismatch(machine))
		}
	}
	return findings, errors.Join(slices.Collect(maps.Values(failed))...)
}

// instances lists the instances of an account, and returns the number of requests.
func (a *Audit) instances(ctx context.Context, account ownership.Account) ([]ownership.Instance, int, error) {
	cloud, known := a.Clouds[account.Cloud]
	if !known {
		return nil, 0, fmt.Errorf("no access to the cloud %q is configured", account.Cloud)
	}
	return cloud.Instances(ctx, account)
}

// wait waits for the rate limit after requests whose number was not known before, and so delays the next account.
func (a *Audit) wait(ctx context.Context, cloud string, requests int) error {
	for range requests {
		if err := a.Limiter[cloud].Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// unknown returns the finding for an account, or an instance of it, that could not be checked.
func unknown(object place, instance string, err error) Finding {
	why := ownership.CauseCloud.Explain()
	var cause *ownership.UnknownError
	if errors.As(err, &cause) {
		why = cause.Explain()
	}
	what := "the instances of %s in %s could not be listed: %s"
	if instance != "" {
		what = "it could not be determined whether its instance belongs to %s in %s: %s"
	}
	return object.finding(Finding{
		Reason: ownership.ReasonUnknown, Instance: instance, Account: object.account,
		Message: fmt.Sprintf(what, object.account.Owner(), object.account.Place(), why),
	})
}
