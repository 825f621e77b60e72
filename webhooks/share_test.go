package webhooks_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/webhooks"
)

// slowGate is a gate that waits, as the one on machines does for the cloud. Its limit of waiting reviews of a namespace is the same: 16
// send requests to the cloud, and 128 wait for them.
type slowGate struct {
	release chan struct{}
	inside  *atomic.Int64
}

func (slowGate) Name() string { return "slow" }

func (g slowGate) Review(ctx context.Context, request admission.Request) webhooks.Answer {
	if request.Namespace == "attacker" {
		g.inside.Add(1)
		select {
		case <-g.release:
		case <-ctx.Done():
		}
	}
	return webhooks.Answer{Decision: webhooks.Allowed, Reason: "Owned"}
}

type noEvents struct{}

func (noEvents) Record(events.Event) {}

// All tenants share the budget for bodies, and a review keeps its part while it waits.
func TestOneTenantDoesNotExhaustTheBudgetForBodies(t *testing.T) {
	const waiting = 16 + 128
	for name, size := range map[string]int{"small bodies": 127 << 10, "large bodies": 250 << 10} {
		t.Run(name, func(t *testing.T) {
			gate := slowGate{release: make(chan struct{}), inside: &atomic.Int64{}}
			server := httptest.NewServer(webhooks.Handler(gate, v1beta1.Enforce, noEvents{}))
			defer server.Close()
			send := func(namespace string) int {
				body := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","namespace":%q,"operation":"CREATE","object":{"padding":%q}}}`,
					namespace, strings.Repeat("x", size-300))
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/?timeout=30s", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return 0
				}
				request.Header.Set("Content-Type", "application/json")
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Error(err)
					return 0
				}
				defer response.Body.Close()
				return response.StatusCode
			}
			var attack sync.WaitGroup
			var answered atomic.Int64
			for range waiting {
				attack.Go(func() {
					send("attacker")
					answered.Add(1)
				})
			}
			if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
				return gate.inside.Load()+answered.Load() == waiting, nil
			}); err != nil {
				t.Errorf("%d reviews wait in the gate and %d have responses, of %d: %v", gate.inside.Load(), answered.Load(), waiting, err)
			}
			before := answered.Load()
			if code := send("victim"); code != http.StatusOK {
				t.Errorf("the review of another tenant got %d", code)
			}
			if after := answered.Load(); after != before {
				t.Errorf("the review of another tenant had to wait for %d of the attacker's", after-before)
			}
			close(gate.release)
			attack.Wait()
		})
	}
}
