package keystone

import (
	"context"
	"time"

	"warrantgate.dev/internal/oslopolicy"
)

// MaxBytes is how much is judged for one request.
const MaxBytes = maxBytes

// MaxMessage is the longest message.
const MaxMessage = maxMessage

// MaxJudges is how many requests are judged at the same time.
const MaxJudges = maxJudges

// MaxWaitingPerTenant is how many requests of a tenant wait.
const MaxWaitingPerTenant = maxWaitingPerTenant

// LintWith has a gate judge by another linter.
func (g *Gate) LintWith(lint func(name string, data []byte) []oslopolicy.Finding) {
	g.judge.lint = func(_ context.Context, name string, data []byte) ([]oslopolicy.Finding, error) {
		return lint(name, data), nil
	}
}

// TakeYourTime has a gate judge for as long as it takes on a machine that is busy.
func (g *Gate) TakeYourTime() { g.judge.time = time.Hour }
