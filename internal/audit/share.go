package audit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"warrantgate.dev/internal/fairqueue"
)

// perShare is how long one run may send requests for the accounts of one namespace, on kcp of one workspace. A tenant can create any number
// of clusters with credentials of their own, and a run that checks all of them delays the findings about other tenants.
const perShare = 5 * time.Minute

// reasonNotAudited: accounts of a namespace or workspace were not checked.
const reasonNotAudited = "AccountsNotAudited"

const notAudited = "the clusters of this namespace (on kcp: of this workspace) use so many accounts that the audit did not check all of them; use " +
	"fewer, or have audit.requestsPerSecond raised"

const notRead = "the account of this cluster could not be read, so no other clusters of this namespace (on kcp: of this workspace) were checked; " +
	"the cause is in the log of warrantgate"

// share is the share of a tenant in the requests to a cloud. It is comparable.
type share struct {
	cloud  string
	tenant fairqueue.Tenant
}

// String describes the share for the operator.
func (s share) String() string {
	if s.tenant.LogicalCluster != "" {
		return fmt.Sprintf("logical cluster %q", s.tenant.LogicalCluster)
	}
	return fmt.Sprintf("namespace %q", s.tenant.Namespace)
}

// shares counts the requests of a run by share.
type shares map[share]int

// least returns the share with the fewest requests, among those of the objects of an account, with its object.
func (s shares) least(t *tenancy) (share, place) {
	of := func(p place) share { return share{cloud: t.account.Cloud, tenant: p.share()} }
	object := slices.MinFunc(t.about, func(a, b place) int { return cmp.Compare(s[of(a)], s[of(b)]) })
	return of(object), object
}

// share returns the share of the tenant whose object it is.
func (p place) share() fairqueue.Tenant {
	return fairqueue.Tenant{LogicalCluster: p.in.String(), Namespace: p.object.Namespace}.Share()
}

// exhausted reports whether a share has sent requests for perShare. limiter is that of its cloud, nil if there is no such cloud.
func (s shares) exhausted(of share, limiter *rate.Limiter) bool {
	return limiter != nil && float64(s[of]) >= perShare.Seconds()*float64(limiter.Limit())
}
