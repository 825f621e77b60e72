package machine

import (
	"context"
	"strings"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

// AuditedIf makes the gate admit first claims without an answer of the cloud only if audited reports that the audit checks its machines.
func (g *Gate) AuditedIf(audited func(context.Context) bool) *Gate {
	g.audited = audited
	return g
}

// admitsFirst reports whether first claims are admitted without an answer of the cloud.
func (g *Gate) admitsFirst(ctx context.Context) bool {
	return g.unknown == v1beta1.AdmitFirstClaims && (g.audited == nil || g.audited(ctx))
}

// tryAgain removes the advice to repeat a request.
var tryAgain = strings.NewReplacer("; send fewer at the same time, and try again in a few seconds", "", "; try again later", "", "; try again", "")

// admitFirst admits a first claim in spite of an answer without a verdict.
func admitFirst(answer webhooks.Answer) webhooks.Answer {
	const admitted = "; the machine named none before, so this is admitted, and the audit checks it as soon as there is an answer"
	answer.Decision, answer.Status, answer.RetryAfter = webhooks.Warned, "", 0
	for _, text := range []*string{&answer.Message, &answer.Lasting} {
		*text = tryAgain.Replace(*text) + admitted
	}
	return answer
}
