// Package webhooks is what all gates share: the Answer that a gate returns, and the handler that turns it into an
// AdmissionReview response. Only the handler applies the mode and dry run, and only it writes the log line, the metric, the
// audit annotations and the Events.
//
// Each gate has a folder of its own below this one.
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
	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/share"
)

// Gate decides about admission requests.
type Gate interface {
	// Name is the name of the gate in metrics and logs.
	Name() string
	// Review decides about one request. It must return before ctx ends.
	Review(ctx context.Context, request admission.Request) Answer
}

// EventRecorder takes Events without blocking.
type EventRecorder interface {
	Record(event events.Event)
}

// Handler serves a gate in a mode.
func Handler(gate Gate, mode v1beta1.Mode, recorder EventRecorder) http.Handler {
	return &handler{gate: gate, mode: mode, recorder: recorder, bodies: inFlight}
}

// logger is the logger of all gates.
var logger = logf.Log.WithName("admission")

type handler struct {
	gate     Gate
	mode     v1beta1.Mode
	recorder EventRecorder
	bodies   *bodies
}

// respond returns the response to a request, and writes the Events, the metric and the log line.
func (h *handler) respond(ctx context.Context, request admission.Request) *admissionv1.AdmissionResponse {
	start := time.Now()
	answer := h.review(ctx, request)

	decision, warning := answer.Decision, ""
	if h.mode == v1beta1.Warn && (decision != Allowed || len(answer.Patches) > 0) {
		decision, answer.Patches = Warned, nil
		warning = fmt.Sprintf("%s (mode Warn, nothing was changed or denied): %s", answer.Reason, answer.Text())
	} else if decision == Warned {
		warning = answer.Reason + ": " + answer.Text()
	}
	if request.DryRun == nil || !*request.DryRun {
		for _, event := range answer.Events(h.mode) {
			h.recorder.Record(event)
		}
	}
	observe(ctx, h.gate.Name(), decision, answer.Reason, time.Since(start))
	h.log(ctx, request, decision, answer)
	return newResponse(request, decision, warning, answer)
}

// log writes one line for each answer. Allowed requests are logged on level 1 only, because the line costs more than most
// decisions; their metric, audit annotations and Events are always written.
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
		"namespace", request.Namespace, "name", request.Name, "user", message.Clip(request.UserInfo.Username, maxMessageBytes), "message", message.Clip(answer.Text(), maxLogBytes),
	}
	if id, _ := traceOf(ctx); id != "" {
		line = append(line, "traceID", id)
	}
	if answer.Details != nil {
		line = append(line, answer.Details()...)
	}
	for i, value := range line { // requesters choose names, and a name can be as long as an object before it is validated
		switch value := value.(type) {
		case string:
			line[i] = message.Clip(value, maxDetailBytes)
		case []string:
			if all := strings.Join(value, ", "); len(all) > maxDetailBytes {
				line[i] = message.Clip(all, maxDetailBytes)
			}
		}
	}
	log.Info("verdict", line...)
}

// review calls the gate. A panic denies only the request that caused it.
func (h *handler) review(ctx context.Context, request admission.Request) (answer Answer) {
	if h.mode == v1beta1.Off {
		return Answer{Decision: Allowed, Reason: "Off"}
	}
	defer func() {
		if cause := recover(); cause != nil {
			stack := string(debug.Stack())
			answer = Answer{
				Decision: Undecided, Reason: "Panic", Message: "an internal error prevented the check of this request",
				Details: func() []any { return []any{"panic", fmt.Sprint(cause), "stack", stack} },
			}
		}
	}()
	ctx = share.WithTenant(ctx, share.TenantOf("", request.Namespace))
	if _, perCluster := h.gate.(*perCluster); perCluster { // the tenant is not known yet
		answer = h.gate.Review(ctx, request)
	} else {
		answer = shared(ctx, func() Answer { return h.gate.Review(ctx, request) })
	}
	// After the deadline, only an approval is replaced: it may be based on an incomplete check. A denial stays valid, and an
	// undecided answer already contains its reason.
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

// encodePatch encodes each operation once. MarshalJSON of jsonpatch.JsonPatchOperation encodes it a second time, which takes four
// times as long, more than the decision about the request.
func encodePatch(operations []jsonpatch.JsonPatchOperation) ([]byte, error) {
	type operation jsonpatch.JsonPatchOperation // without the method
	plain := make([]operation, len(operations))
	for i := range operations {
		plain[i] = operation(operations[i])
	}
	return json.Marshal(plain)
}

// codes are the HTTP status codes of the kinds of denial.
var codes = map[metav1.StatusReason]int32{
	metav1.StatusReasonBadRequest:         http.StatusBadRequest,
	metav1.StatusReasonForbidden:          http.StatusForbidden,
	metav1.StatusReasonInvalid:            http.StatusUnprocessableEntity,
	metav1.StatusReasonTooManyRequests:    http.StatusTooManyRequests,
	metav1.StatusReasonServiceUnavailable: http.StatusServiceUnavailable,
}

func status(reason metav1.StatusReason, answer Answer) *metav1.Status {
	message := shortLine(answer.Text(), maxMessageBytes)
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
	// maxMessageBytes limits a denial to a readable length.
	maxMessageBytes = 1024
	// maxLogBytes limits a message in the log. It is longer than a denial, and a message can repeat names that requesters choose.
	maxLogBytes = 4 * maxMessageBytes
	// maxDetailBytes limits each other value in the log. A stack is the longest.
	maxDetailBytes = 4 * maxLogBytes
	// maxWarningBytes is the API server's limit for all warnings together. It cuts longer ones itself.
	maxWarningBytes = 1024
)

// shortLine returns a text as one line of at most the given number of bytes.
func shortLine(text string, most int) string {
	return message.Clip(strings.Join(strings.Fields(text), " "), most)
}
