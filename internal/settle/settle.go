// Package settle delays the denial of first claims, because a cloud may not show the owner of a new server immediately.
//
// The first claim of a machine, which named no instance before, can be the only record of the UUID of a new server. A cloud may show the
// server only after a delay, and a provider that is denied at once may create a second server. So a first claim that the cloud does not
// confirm is undecided at first, and denied once it is older than a period.
//
// Claims is the memory of one process. Each replica measures the period from the time when it first sees the claim: a claim that is retried
// can stay undecided until the period has passed on each replica, at most the period after the last replica saw it. A restart starts the
// period again. A forgotten claim is undecided once more, never admitted.
//
// A provider that sends a claim only once leaves no other record of the UUID than its claim here, so Denied returns that claim, too.
package settle

import (
	"cmp"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"warrantgate.dev/internal/fairqueue"
	"warrantgate.dev/internal/ownership"
)

// A tenant can claim any number of random UUIDs, and kcp lets it create any number of workspaces. So these constants limit the number of
// claims of one machine, of one share of tenants (a namespace, on kcp a logical cluster) and of all tenants. Above a limit, the oldest
// claim of the machine or the share is removed. Above the limit of all tenants, it is a claim of the share with the most claims.
const (
	maxPerMachine = 4
	maxPerShare   = 500
	maxClaims     = 10_000
	// rememberedFor is the minimum time for which a claim is remembered that is not retried. Controllers retry after 1000 seconds at most.
	rememberedFor = time.Hour
)

// Claim is the first claim of a machine: that the account of its provider owns the instance. It is comparable.
type Claim struct {
	// LogicalCluster is the logical cluster of the machine on kcp, "" on Kubernetes.
	LogicalCluster string
	// Machine is the machine, without a resource version.
	Machine corev1.ObjectReference
	// Account is the account of the machine's provider.
	Account ownership.Account
	// ID is the UUID of the instance, in lower case.
	ID string
}

// machine identifies the machine of a claim.
type machine struct {
	logicalCluster string
	object         corev1.ObjectReference
}

func (c Claim) machine() machine { return machine{c.LogicalCluster, c.Machine} }

// remembered is a claim that the cloud did not confirm.
type remembered struct {
	claim       Claim
	first, last time.Time
	denied      bool
}

// Claims remembers first claims that a cloud did not confirm. It is safe for concurrent use. Create it with New.
type Claims struct {
	period, remembered time.Duration

	mu     sync.Mutex
	shares map[fairqueue.Tenant]map[machine][]*remembered
	// counts are the numbers of claims by share, total is the number of all claims.
	counts map[fairqueue.Tenant]int
	total  int
}

// New returns Claims that leave first claims undecided for a period. If the period is 0, first claims are denied at once.
func New(period time.Duration) *Claims {
	return &Claims{
		period: period, remembered: rememberedFor, shares: map[fairqueue.Tenant]map[machine][]*remembered{}, counts: map[fairqueue.Tenant]int{},
	}
}

// ReportedEvery makes Claims remember a claim until Denied, which is called at this interval, has returned it at least once.
func (c *Claims) ReportedEvery(interval time.Duration) *Claims {
	c.remembered = max(rememberedFor, 2*interval) // the interval has a jitter, and each report takes time
	return c
}

// Period returns how long a first claim is undecided.
func (c *Claims) Period() time.Duration { return c.period }

// Settles reports whether the claim is undecided or unknown. The caller must then send a new request to the cloud.
func (c *Claims) Settles(tenant fairqueue.Tenant, claim Claim) bool {
	if c.period == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.find(tenant.Share(), claim)
	return known == nil || !known.denied
}

// NotConfirmed remembers a claim that the cloud did not confirm, and returns whether the gate has to deny it. In a dry run it remembers nothing.
func (c *Claims) NotConfirmed(tenant fairqueue.Tenant, claim Claim, dryRun bool) (denied bool) {
	now, share := time.Now(), tenant.Share()
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.find(share, claim)
	if dryRun {
		return c.period == 0 || known != nil && c.passed(known, now)
	}
	if known == nil {
		known = &remembered{claim: claim, first: now}
		c.add(share, known, now)
	}
	known.last = now
	if c.passed(known, now) && !known.denied {
		known.denied = true
		denials.Inc()
	}
	return known.denied
}

// Forget removes a claim that is admitted.
func (c *Claims) Forget(tenant fairqueue.Tenant, claim Claim) {
	share := tenant.Share()
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.find(share, claim); known != nil {
		c.remove(share, known)
	}
}

// Denied returns the claims that were denied, and those that would be denied if they were retried, because the period has passed. The order
// is stable. Claims that were not retried for a long time are not included.
func (c *Claims) Denied() []Claim {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	var denied []Claim
	for share := range c.shares {
		c.expire(share, now)
		for _, claims := range c.shares[share] {
			for _, known := range claims {
				if c.passed(known, now) {
					denied = append(denied, known.claim)
				}
			}
		}
	}
	slices.SortFunc(denied, func(a, b Claim) int {
		return cmp.Or(cmp.Compare(a.LogicalCluster, b.LogicalCluster), cmp.Compare(a.Machine.Namespace, b.Machine.Namespace),
			cmp.Compare(a.Machine.Name, b.Machine.Name), cmp.Compare(a.ID, b.ID))
	})
	return denied
}

// passed reports whether the period of a claim has passed.
func (c *Claims) passed(known *remembered, now time.Time) bool {
	return now.Sub(known.first) >= c.period
}

func (c *Claims) find(share fairqueue.Tenant, claim Claim) *remembered {
	for _, known := range c.shares[share][claim.machine()] {
		if known.claim == claim {
			return known
		}
	}
	return nil
}

// add remembers a claim. Above a limit, it removes older claims.
func (c *Claims) add(share fairqueue.Tenant, added *remembered, now time.Time) {
	if claims := c.shares[share][added.claim.machine()]; len(claims) >= maxPerMachine {
		c.remove(share, oldest(claims))
	}
	if c.counts[share] >= maxPerShare {
		c.makeRoom(share, now)
	}
	if c.total >= maxClaims {
		largest := share
		for other, count := range c.counts {
			if count > c.counts[largest] {
				largest = other
			}
		}
		c.makeRoom(largest, now)
	}
	if c.shares[share] == nil {
		c.shares[share] = map[machine][]*remembered{}
	}
	of := added.claim.machine()
	c.shares[share][of] = append(c.shares[share][of], added)
	c.counts[share]++
	c.total++
	first.Inc()
}

// makeRoom removes the expired claims of a share, or the oldest claim if none has expired.
func (c *Claims) makeRoom(share fairqueue.Tenant, now time.Time) {
	before := c.counts[share]
	c.expire(share, now)
	if before == 0 || c.counts[share] < before {
		return
	}
	var all []*remembered
	for _, claims := range c.shares[share] {
		all = append(all, claims...)
	}
	c.remove(share, oldest(all))
}

func (c *Claims) expire(share fairqueue.Tenant, now time.Time) {
	for _, claims := range c.shares[share] {
		for _, known := range slices.Clone(claims) {
			if now.Sub(known.last) >= c.period+c.remembered {
				c.remove(share, known)
			}
		}
	}
}

func (c *Claims) remove(share fairqueue.Tenant, removed *remembered) {
	of := removed.claim.machine()
	claims := slices.DeleteFunc(slices.Clone(c.shares[share][of]), func(known *remembered) bool { return known == removed })
	if c.shares[share][of] = claims; len(claims) == 0 {
		delete(c.shares[share], of)
	}
	if c.counts[share]--; c.counts[share] == 0 {
		delete(c.counts, share)
		delete(c.shares, share)
	}
	c.total--
	first.Dec()
}

func oldest(claims []*remembered) *remembered {
	return slices.MinFunc(claims, func(a, b *remembered) int { return a.last.Compare(b.last) })
}
