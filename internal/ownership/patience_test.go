package ownership_test

import (
	"context"
	"testing"
	"time"

	"warrantgate.dev/internal/ownership"
)

// patient is a cloud that records Patience.
type patient struct {
	ownership.Cloud
	until chan time.Time
}

func (p patient) Ask(ctx context.Context, _ ownership.Claim) (ownership.Answer, error) {
	until, _ := ownership.Patience(ctx)
	p.until <- until
	return ownership.Answer{Verdict: ownership.Owned}, nil
}

func TestPatience(t *testing.T) {
	cloud := patient{until: make(chan time.Time, 1)}
	gate, err := ownership.NewGate(map[string]ownership.Cloud{"patient": cloud}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gate.Close)
	claim := ownership.Claim{Account: ownership.Account{Cloud: "patient"}}

	deadline := time.Now().Add(time.Minute)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	if _, err := gate.Decide(ctx, tenant, claim); err != nil {
		t.Fatal(err)
	}
	if got := <-cloud.until; !got.Equal(deadline) {
		t.Errorf("Patience() = %v, want %v, though the work takes longer", got, deadline)
	}

	claim.ID = "another"
	if _, err := gate.Decide(t.Context(), tenant, claim); err != nil {
		t.Fatal(err)
	}
	if got := <-cloud.until; !got.IsZero() {
		t.Errorf("Patience() = %v for a caller without a deadline", got)
	}
}
