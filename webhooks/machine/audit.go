package machine

import (
	"context"
	"strings"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

// audit checks machines later whose first claims are admitted without an answer of the cloud.
type audit struct {
	// covers reports whether it checks the machines of this gate. nil means that it does.
	covers func(context.Context) bool
	check  func(context.Context, clusterapi.Machine)
}

// AuditedBy makes the gate call check with each machine whose first claim it admits without an answer of the cloud, but not in dry runs.
// check must not block.
func (g *Gate) AuditedBy(check func(ctx context.Context, machine clusterapi.Machine)) *Gate {
	g.audit.check = check
	return g
}

// AuditedIf makes the gate admit such claims only if covers reports that the audit checks its machines.
func (g *Gate) AuditedIf(covers func(context.Context) bool) *Gate {
	g.audit.covers = covers
	return g
}

// admitsFirst reports whether first claims are admitted without an answer of the cloud.
func (g *Gate) admitsFirst(ctx context.Context) bool {
	return g.unknown == v1beta1.AdmitFirstClaims && (g.audit.covers == nil || g.audit.covers(ctx))
}

// tryAgain removes the advice to repeat a request.
var tryAgain = strings.NewReplacer("; send fewer at the same time, and try again in a few seconds", "", "; try again later", "", "; try again", "")

// admitFirst admits a first claim in spite of an answer without a verdict.
func (g *Gate) admitFirst(ctx context.Context, c change, answer webhooks.Answer, dryRun bool) webhooks.Answer {
	const admitted = "; the machine named none before, so this is admitted, and the audit checks it as soon as there is an answer"
	answer.Decision, answer.Status, answer.RetryAfter = webhooks.Warned, "", 0
	for _, text := range []*string{&answer.Message, &answer.Lasting} {
		*text = tryAgain.Replace(*text) + admitted
	}
	if g.audit.check != nil && !dryRun {
		g.audit.check(ctx, c.machine)
	}
	return answer
}
