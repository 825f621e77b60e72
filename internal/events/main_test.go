package events_test

import (
	"testing"

	"go.uber.org/goleak"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// outcomes returns the counts of Events by outcome, without zeros.
func outcomes(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatalf("gather metrics: %v", err)
	}
	counts := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "warrantgate_events_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if value := metric.GetCounter().GetValue(); value > 0 {
				counts[metric.GetLabel()[0].GetValue()] = value
			}
		}
	}
	return counts
}

// newOutcomes returns a function for the counts since now.
func newOutcomes(t *testing.T) func() map[string]float64 {
	t.Helper()
	before := outcomes(t)
	return func() map[string]float64 {
		t.Helper()
		since := map[string]float64{}
		for outcome, value := range outcomes(t) {
			if value > before[outcome] {
				since[outcome] = value - before[outcome]
			}
		}
		return since
	}
}
