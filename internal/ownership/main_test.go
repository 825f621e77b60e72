package ownership_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/share"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	cloudName  = "cloudsigma"
	instanceID = "5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b"
)

// tenant is the tenant of tests that do not depend on it.
var tenant = share.Tenant{Namespace: "team-a"}

// claim returns the claim of a machine, after modify.
func claim(modify ...func(*ownership.Claim)) ownership.Claim {
	c := ownership.Claim{
		Account: ownership.Account{Cloud: cloudName, User: "tenant@example.com", Region: "next"},
		ID:      instanceID, Name: "metal-worker-pool-1-hl9tl-qbrcf", MachineUID: "6a1b",
	}
	for _, m := range modify {
		m(&c)
	}
	return c
}

// numbered returns the n-th claim, for the n-th instance.
func numbered(i int) ownership.Claim {
	return claim(func(c *ownership.Claim) { c.ID = fmt.Sprintf("5d0c3e1f-9a47-4b6e-8f21-%012d", i) })
}

// fakeCloud answers with ask, and counts the lookups.
type fakeCloud struct {
	ownership.Cloud // for the other methods
	ask             func(ctx context.Context, claim ownership.Claim) (ownership.Answer, error)
	lookups         atomic.Int32
}

func (c *fakeCloud) Ask(ctx context.Context, claim ownership.Claim) (ownership.Answer, error) {
	c.lookups.Add(1)
	return c.ask(ctx, claim)
}

// cloudWith returns a cloud with a fixed answer.
func cloudWith(answer ownership.Answer, err error) *fakeCloud {
	return &fakeCloud{ask: func(context.Context, ownership.Claim) (ownership.Answer, error) { return answer, err }}
}

// newGate returns a gate that is closed at the end of the test.
func newGate(t *testing.T, concurrency int32, cloud ownership.Cloud) *ownership.Gate {
	t.Helper()
	gate := ownership.NewGate(map[string]ownership.Cloud{cloudName: cloud}, map[string]int32{cloudName: concurrency})
	t.Cleanup(gate.Close)
	return gate
}

// series returns the values of one metric by its labels, such as "cloudsigma/Owned/cache", in the order of their names.
func series(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatalf("gather metrics: %v", err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			values[strings.Join(labels, "/")] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return values
}

// newAnswers returns a function for the answers that were counted since now, by cloud, source and verdict.
func newAnswers(t *testing.T) func() map[string]float64 {
	t.Helper()
	const name = "warrantgate_ownership_answers_total"
	before := series(t, name)
	return func() map[string]float64 {
		t.Helper()
		since := map[string]float64{}
		for key, value := range series(t, name) {
			if value > before[key] {
				since[key] = value - before[key]
			}
		}
		return since
	}
}

// decide is Gate.Decide with options.
type decide = func(context.Context, share.Tenant, ownership.Claim) (ownership.Answer, error)

func with(gate *ownership.Gate, options ownership.Options) decide {
	return func(ctx context.Context, tenant share.Tenant, claim ownership.Claim) (ownership.Answer, error) {
		return gate.Decide(ctx, tenant, claim, options)
	}
}

func asChanged(gate *ownership.Gate) decide { return with(gate, ownership.Options{}) }
func asDryRun(gate *ownership.Gate) decide  { return with(gate, ownership.Options{DryRun: true}) }
func asFirst(gate *ownership.Gate) decide   { return with(gate, ownership.Options{First: true}) }
