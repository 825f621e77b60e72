// Package webhooks is what all gates share: a deadline shorter than the API server's, one answer in the terms of
// admission, and the traces that every verdict leaves (log line, metric, audit annotations, Events).
//
// A gate itself lives in a folder of its own below this one.
package webhooks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
)

// Decision is what becomes of a request. The zero value refuses.
type Decision string

const (
	// Denied refuses the request, as 403.
	Denied Decision = ""
	// Allowed lets the request pass, with the patches of the answer.
	Allowed Decision = "allowed"
	// Warned lets the request pass and says what the gate would have done, or that it could not judge: in the mode Warn,
	// or where a gate is configured to let pass what it cannot judge.
	Warned Decision = "warned"
	// Undecided refuses the request because no verdict could be found, as 503: trying again may help.
	Undecided Decision = "error"
)

func (d Decision) String() string {
	if d == Denied {
		return "denied"
	}
	return string(d)
}

// Answer is what a gate says of one request.
type Answer struct {
	// Decision is what becomes of the request.
	Decision Decision
	// Reason is a stable word in CamelCase for metrics, audit annotations and status causes.
	Reason string
	// Message is for the person who sent the request: what was refused, why, which identity, what to do.
	Message string
	// Status is the kind of refusal: BadRequest (400) for what cannot be decoded, Invalid (422) for a malformed value,
	// TooManyRequests (429) for a tenant that sends too much. Default: Forbidden (403) where the answer is Denied,
	// ServiceUnavailable (503) where it is Undecided.
	Status metav1.StatusReason
	// RetryAfter tells clients when to try again, in whole seconds. Default: they decide by themselves.
	RetryAfter time.Duration
	// Field is the path of the field that a refusal is about, "" if it is about the object. For status causes.
	Field string
	// Causes are further status causes, for controllers that act on a refusal.
	Causes []metav1.StatusCause
	// Patches change the object. Only a mutating gate has them.
	Patches []jsonpatch.JsonPatchOperation
	// Events are recorded unless the request is a dry run.
	Events []events.Event
	// Committed runs once the answer holds: not on a dry run, and not where the gate only warns. For counting.
	Committed func()
	// Details returns key-value pairs for the operator's log, which may say what the person must not see. May be nil.
	Details func() []any
}

// Undecodable refuses a request whose object cannot be decoded, as 400. The error is for the person who sent it.
func Undecodable(err error) Answer {
	return Answer{Decision: Denied, Status: metav1.StatusReasonBadRequest, Reason: "Undecodable", Message: err.Error()}
}

// Gate judges admission requests.
type Gate interface {
	// Name is the word for the gate in metrics and logs.
	Name() string
	// Review judges one request. It has to return before ctx ends.
	Review(ctx context.Context, request admission.Request) Answer
}

// EventRecorder takes Events without blocking.
type EventRecorder interface {
	Record(event events.Event)
}

// Handler serves a gate in the given mode.
func Handler(gate Gate, mode v1beta1.Mode, recorder EventRecorder) http.Handler {
	return withDeadline(inFlight.limited(gate.Name(), withTrace(&handler{gate: gate, mode: mode, recorder: recorder})))
}

// logger is that of all gates.
var logger = logf.Log.WithName("admission")

type handler struct {
	gate     Gate
	mode     v1beta1.Mode
	recorder EventRecorder
}

// judge has the gate review a request and leaves the traces of its verdict.
func (h *handler) judge(ctx context.Context, request admission.Request) *admissionv1.AdmissionResponse {
	start := time.Now()
	answer := h.review(ctx, request)

	decision, warning := answer.Decision, ""
	if h.mode == v1beta1.Warn && (decision != Allowed || len(answer.Patches) > 0) {
		decision, answer.Patches = Warned, nil
		warning = fmt.Sprintf("%s (mode Warn, nothing was changed or refused): %s", answer.Reason, answer.Message)
	} else if decision == Warned {
		warning = answer.Reason + ": " + answer.Message
	}
	if request.DryRun == nil || !*request.DryRun {
		for _, event := range answer.Events {
			h.recorder.Record(event)
		}
		if answer.Committed != nil && h.mode == v1beta1.Enforce {
			answer.Committed()
		}
	}
	observe(ctx, h.gate.Name(), decision, answer.Reason, time.Since(start))
	h.log(ctx, request, decision, answer)
	return newResponse(request, decision, warning, answer)
}

// log writes one line a verdict. What passes is told by its metric, audit annotations and Events, so its line is only for
// those who ask for it: it would cost more than most verdicts.
func (h *handler) log(ctx context.Context, request admission.Request, decision Decision, answer Answer) {
	log := logger
	if decision == Allowed {
		log = log.V(1)
	}
	if !log.Enabled() {
		return
	}
	line := []any{
		"gate", h.gate.Name(), "decision", decision.String(), "reason", answer.Reason, "mode", h.mode,
		"decisionID", request.UID, "operation", request.Operation, "resource", request.Resource.Resource,
		"namespace", request.Namespace, "name", request.Name, "user", request.UserInfo.Username, "message", answer.Message,
	}
	if id, _ := traceOf(ctx); id != "" {
		line = append(line, "traceID", id)
	}
	if answer.Details != nil {
		line = append(line, answer.Details()...)
	}
	log.Info("verdict", line...)
}

// review turns a panic into a refusal of the one request that caused it.
func (h *handler) review(ctx context.Context, request admission.Request) (answer Answer) {
	if h.mode == v1beta1.Off {
		return Answer{Decision: Allowed, Reason: "Off"}
	}
	defer func() {
		if cause := recover(); cause != nil {
			stack := string(debug.Stack())
			answer = Answer{
				Decision: Undecided, Reason: "Panic", Message: "an internal error kept this request from being judged",
				Details: func() []any { return []any{"panic", fmt.Sprint(cause), "stack", stack} },
			}
		}
	}()
	answer = h.gate.Review(withTenant(ctx, request, ""), request)
	// A refusal still is one, and a gate that could not judge says more about it than that time is up. But an approval may
	// rest on half a look.
	if ctx.Err() != nil && answer.Decision == Allowed {
		return Answer{Decision: Undecided, Reason: "Deadline", Message: "no verdict was found in time; try again"}
	}
	return answer
}

func newResponse(request admission.Request, decision Decision, warning string, answer Answer) *admissionv1.AdmissionResponse {
	response := &admissionv1.AdmissionResponse{
		UID:     request.UID,
		Allowed: decision == Allowed || decision == Warned,
		AuditAnnotations: map[string]string{
			"decision": decision.String(), "reason": answer.Reason, "decision-id": string(request.UID),
		},
	}
	if warning != "" {
		response.Warnings = []string{shortLine(warning, maxWarningBytes)}
	}
	switch decision {
	case Allowed, Warned:
		response.Result = &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusOK}
	case Undecided:
		response.Result = status(cmp.Or(answer.Status, metav1.StatusReasonServiceUnavailable), answer)
	default:
		response.Result = status(cmp.Or(answer.Status, metav1.StatusReasonForbidden), answer)
	}
	if len(answer.Patches) > 0 {
		patch, err := encodePatch(answer.Patches)
		if err != nil {
			return &admissionv1.AdmissionResponse{
				UID: request.UID, Result: &apierrors.NewInternalError(fmt.Errorf("encode the change of the object: %w", err)).ErrStatus,
			}
		}
		response.Patch, response.PatchType = patch, ptr.To(admissionv1.PatchTypeJSONPatch)
	}
	return response
}

// encodePatch encodes each operation once: the MarshalJSON of an operation has it encoded again, which takes four times as long
// and more than judging the request does.
func encodePatch(operations []jsonpatch.JsonPatchOperation) ([]byte, error) {
	type operation jsonpatch.JsonPatchOperation // without the method
	plain := make([]operation, len(operations))
	for i := range operations {
		plain[i] = operation(operations[i])
	}
	return json.Marshal(plain)
}

// codes are the HTTP status codes of the kinds of refusal.
var codes = map[metav1.StatusReason]int32{
	metav1.StatusReasonBadRequest:         http.StatusBadRequest,
	metav1.StatusReasonForbidden:          http.StatusForbidden,
	metav1.StatusReasonInvalid:            http.StatusUnprocessableEntity,
	metav1.StatusReasonTooManyRequests:    http.StatusTooManyRequests,
	metav1.StatusReasonServiceUnavailable: http.StatusServiceUnavailable,
}

func status(reason metav1.StatusReason, answer Answer) *metav1.Status {
	message := shortLine(answer.Message, maxMessageBytes)
	cause := metav1.StatusCause{Type: metav1.CauseType(answer.Reason), Message: message, Field: answer.Field}
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: codes[reason], Reason: reason, Message: message,
		Details: &metav1.StatusDetails{
			Causes:            append([]metav1.StatusCause{cause}, answer.Causes...),
			RetryAfterSeconds: int32(answer.RetryAfter / time.Second), //nolint:gosec // seconds to minutes
		},
	}
}

const (
	// maxMessageBytes keeps a refusal within what a terminal line can carry.
	maxMessageBytes = 1024
	// maxWarningBytes is what the API server passes on of all warnings together before it cuts them itself.
	maxWarningBytes = 1024
)

func shortLine(text string, most int) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		const mark = "…"
		text = strings.ToValidUTF8(text[:most-len(mark)], "") + mark
	}
	return text
}
