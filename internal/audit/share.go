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

const notAudited = "the clusters of this namespace (on kcp: of this workspace) use so many accounts that the audit did not check all of them; use " +
	"fewer, or have audit.requestsPerSecond raised"

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

// sent counts the requests of a run.
type sent map[requester]int

// least returns the tenant with the fewest requests, among those of the objects of an account, with its object.
func (s sent) least(t *tenancy) (requester, place) {
	of := func(p place) requester { return requester{cloud: t.account.Cloud, tenant: p.tenant()} }
	object := slices.MinFunc(t.about, func(a, b place) int { return cmp.Compare(s[of(a)], s[of(b)]) })
	return of(object), object
}

// tenant returns the tenant whose object it is.
func (p place) tenant() share.Tenant {
	return share.TenantOf(p.in.String(), p.object.Namespace)
}

// exhausted reports whether requests for a tenant were sent for perTenant. limiter is that of its cloud, nil if there is no such cloud.
func (s sent) exhausted(of requester, limiter *rate.Limiter) bool {
	return limiter != nil && float64(s[of]) >= perTenant.Seconds()*float64(limiter.Limit())
}
