package keystone

import (
	"context"
	"time"

	"warrantgate.dev/internal/oslopolicy"
)

// MaxBytes is how much is linted for one request.
const MaxBytes = maxBytes

// MaxMessage is the longest message.
const MaxMessage = maxMessage

// MaxLinters is how many requests are linted at the same time.
const MaxLinters = maxLinters

// MaxWaitingPerTenant is how many requests of a tenant wait.
const MaxWaitingPerTenant = maxWaitingPerTenant

// LintWith replaces the linter of a gate.
func (g *Gate) LintWith(lint func(name string, data []byte) []oslopolicy.Finding) {
	g.linter.lint = func(_ context.Context, name string, data []byte) ([]oslopolicy.Finding, error) {
		return lint(name, data), nil
	}
}

// TakeYourTime removes the time limit of a gate, for machines that are busy.
func (g *Gate) TakeYourTime() { g.linter.time = time.Hour }
