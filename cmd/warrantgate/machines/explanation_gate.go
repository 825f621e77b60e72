package machines

import (
	"context"
	"errors"
	"slices"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/share"
)

// reviewed are the objects for the gate: those that the caller could read.
type reviewed struct {
	*clusterapi.Objects
	others []clusterapi.Machine
}

// Holder implements machine.Objects.
func (r reviewed) Holder(
	_ context.Context, id string, of clusterapi.Machine, counts func(clusterapi.Machine) bool,
) (*clusterapi.Machine, error) {
	for i := range r.others {
		if other := &r.others[i]; slices.Contains(other.IDs(), id) && !other.SameServer(of) && counts(*other) {
			return other, nil
		}
	}
	return nil, nil //nolint:nilnil // as in clusterapi.Objects
}

// cloudOnce asks the clouds once for each claim.
type cloudOnce struct {
	// gate is nil if the caller gave no credentials, or wrong flags or a wrong configuration, which unasked is about.
	gate    *ownership.Gate
	unasked error
	answers map[ownership.Claim]cloudAnswer
}

type cloudAnswer struct {
	answer ownership.Answer
	err    error
}

var errNotAsked = &ownership.UnknownError{Cause: ownership.CauseCredentials, Err: errors.New("the cloud was not asked")}

func (c *cloudOnce) ask(ctx context.Context, claim ownership.Claim) (ownership.Answer, error) {
	if c.gate == nil {
		return ownership.Answer{}, errNotAsked
	}
	if known, found := c.answers[claim]; found {
		return known.answer, known.err
	}
	if c.answers == nil {
		c.answers = map[ownership.Claim]cloudAnswer{}
	}
	answer, err := c.gate.Decide(ctx, share.Tenant{}, claim, ownership.Options{DryRun: true})
	c.answers[claim] = cloudAnswer{answer, err}
	return answer, err
}

// answered returns the answer about a claim that was asked for.
func (c *cloudOnce) answered(claim ownership.Claim) (ownership.Answer, error) {
	if known, found := c.answers[claim]; found {
		return known.answer, known.err
	}
	return ownership.Answer{}, errNotAsked
}

// Decide implements machine.Owners.
func (c *cloudOnce) Decide(ctx context.Context, _ share.Tenant, claim ownership.Claim, _ ownership.Options) (ownership.Answer, error) {
	return c.ask(ctx, claim)
}
