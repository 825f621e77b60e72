package machine

import (
	"context"
	"fmt"
	"time"

	"warrantgate.dev/internal/fairqueue"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/settle"
	"warrantgate.dev/webhooks"
)

// clientRetries is how often client-go retries a request that is answered with Retry-After.
const clientRetries = 10

// firstClaims keeps first claims undecided for a while if the cloud does not confirm them. The zero value denies them at once.
//
// The creation of a machine with an instance is not a first claim: its author has the UUID in a manifest, and each attempt has another
// UID. Neither is the claim of a machine that named another instance before.
type firstClaims struct {
	claims         *settle.Claims
	logicalCluster string
}

// Settling makes the gate keep first claims undecided for a while. logicalCluster is that of kcp, "" on Kubernetes.
func (g *Gate) Settling(claims *settle.Claims, logicalCluster string) *Gate {
	g.first = firstClaims{claims: claims, logicalCluster: logicalCluster}
	return g
}

func (f firstClaims) apply(c change) bool { return f.claims != nil && c.first }

func (f firstClaims) claim(c change, id string, account ownership.Account) settle.Claim {
	object := c.machine.Reference()
	object.ResourceVersion = ""
	return settle.Claim{LogicalCluster: f.logicalCluster, Machine: object, Account: account, ID: id}
}

// settles reports whether to send another request to the cloud, because a denial would be undecided or is the first after the period.
func (f firstClaims) settles(ctx context.Context, c change, id string, account ownership.Account) bool {
	return f.apply(c) && f.claims.Settles(fairqueue.TenantOf(ctx), f.claim(c, id, account))
}

// settle returns the denial of a claim, or the answer that it is undecided for now.
//
// An undecided claim has the same answer for an instance of another user and for one that does not exist. It has a Retry-After, so that
// client-go sends the same request again: a provider that keeps the UUID only during its request would otherwise lose it and create
// another server. So a claim can block one worker of a provider for the period, and no longer.
func (f firstClaims) settle(ctx context.Context, c change, id string, account ownership.Account, denial webhooks.Answer, dryRun bool) webhooks.Answer {
	byCloud := denial.Reason == ownership.ReasonNotOwned || denial.Reason == ownership.ReasonNotFound
	if !byCloud || !f.apply(c) || f.claims.NotConfirmed(fairqueue.TenantOf(ctx), f.claim(c, id, account), dryRun) {
		return denial
	}
	cluster := c.machine.ClusterName()
	const each = clientRetries * time.Second
	retryAfter := (f.claims.Period() + each - 1) / each * time.Second
	if dryRun { // a dry run does not start the period, so waiting does not help
		retryAfter = 0
	}
	return webhooks.Answer{
		Decision: webhooks.Undecided, Reason: ownership.ReasonNotYetOwned, RetryAfter: retryAfter, Details: denial.Details,
		Message: fmt.Sprintf("the cloud does not show it as an instance of %s in %s, %s, and the machine named none before, so it may have been "+
			"created a moment ago; this is retried automatically; if the cloud does not show it within %s, it is denied: correct the "+
			"identity that cluster %q acts as, or delete the instance", account.Owner(), account.Place(), account.Acting(cluster), f.claims.Period(), cluster),
	}
}

func (f firstClaims) forget(ctx context.Context, c change, id string, account ownership.Account) {
	if f.apply(c) {
		f.claims.Forget(fairqueue.TenantOf(ctx), f.claim(c, id, account))
	}
}
