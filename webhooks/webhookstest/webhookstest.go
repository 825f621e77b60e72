// Package webhookstest shows answers of gates in the form in which users see them, and evaluates their admission policies with the admission plugins of
// the API server.
package webhookstest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	applypatch "github.com/evanphx/json-patch/v5"
	"gomodules.xyz/jsonpatch/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/webhooks"
)

// Answer is a webhooks.Answer with its texts and Events, as the handler of a gate derives them.
type Answer struct {
	Decision   webhooks.Decision
	Reason     string
	Message    string
	Status     metav1.StatusReason
	RetryAfter time.Duration
	Field      string
	Causes     []metav1.StatusCause
	Patches    []jsonpatch.JsonPatchOperation
	Events     []events.Event
	Details    func() []any
}

// Gate is a gate whose answers are shown in the form in which users see them.
type Gate struct {
	webhooks.Gate
	// Mode is the mode in which the gate is served.
	Mode v1beta1.Mode
}

// Review returns the answer of the gate to a request.
func (g Gate) Review(ctx context.Context, request admission.Request) Answer {
	a := g.Gate.Review(ctx, request)
	return Answer{
		Decision: a.Decision, Reason: a.Reason, Message: a.Text(), Status: a.Status, RetryAfter: a.RetryAfter, Field: a.Field,
		Causes: a.Causes, Patches: a.Patches, Events: a.Events(g.Mode), Details: a.Details,
	}
}

// Apply returns an object in JSON with the patches of the answer, as the API server applies them.
func (a Answer) Apply(t *testing.T, object []byte) []byte {
	t.Helper()
	operations, err := json.Marshal(a.Patches)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := applypatch.DecodePatch(operations)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := patch.Apply(object)
	if err != nil {
		t.Fatal(err)
	}
	return patched
}
