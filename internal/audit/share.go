package audit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/share"
)

// perTenant is how long one run may send requests for the accounts and machines of one namespace, on kcp of one workspace. A tenant can create any
// number of clusters with credentials of their own, and of machines that name instances its user does not have. A run that checks all of them delays
// the findings about other tenants.
const perTenant = 5 * time.Minute

// reasonNotAudited: accounts of a namespace or workspace were not checked.
const reasonNotAudited = "AccountsNotAudited"

const notAudited = "the accounts of the clusters of this namespace (on kcp: of this workspace) take so long that the audit did not check all of them; " +
	"use fewer, correct those whose cloud does not answer, or have audit.requestsPerSecond raised"

const notRead = "the account of this cluster could not be read, so no other clusters of this namespace (on kcp: of this workspace) were checked; " +
	"the cause is in the log of warrantgate"

// errLater means that a run does not ask the cloud about the instance of a machine. The machine is checked after the run, within the share of its
// tenant.
var errLater error = &ownership.UnknownError{Cause: ownership.CauseTenantBusy, Explanation: "the machines of this namespace (on kcp: of this workspace) " +
	"name so many instances that are not in the lists of their users that this one is checked later"}

// requester is a tenant at a cloud.
type requester struct {
	cloud  string
	tenant share.Tenant
}

// describe describes a tenant for the operator.
func describe(tenant share.Tenant) string {
	if tenant.LogicalCluster != "" {
		return fmt.Sprintf("logical cluster %q", tenant.LogicalCluster)
	}
	return fmt.Sprintf("namespace %q", tenant.Namespace)
}

// spent is the time of a run that each tenant has used up.
type spent map[requester]time.Duration

// add counts the time that requests took, and the time for which they use up the limiter of their cloud, nil if there is no such cloud. It does not
// count how long they waited for the limiter: checks of other tenants' machines may have delayed them.
func (s spent) add(of requester, took time.Duration, requests int, limiter *rate.Limiter) {
	if s[of] += took; limiter != nil {
		s[of] += time.Duration(float64(requests) / float64(limiter.Limit()) * float64(time.Second))
	}
}

// least returns the tenant that has used up the least time, among those of the objects of an account, with its object.
func (s spent) least(t *tenancy) (requester, place) {
	of := func(p place) requester { return requester{cloud: t.account.Cloud, tenant: p.tenant()} }
	object := slices.MinFunc(t.about, func(a, b place) int { return cmp.Compare(s[of(a)], s[of(b)]) })
	return of(object), object
}

// tenant returns the tenant whose object it is.
func (p place) tenant() share.Tenant {
	return share.TenantOf(p.in.String(), p.object.Namespace)
}

// exhausted reports whether a tenant has used up perTenant.
func (s spent) exhausted(of requester) bool { return s[of] >= perTenant }
