package webhooks

import (
	"cmp"
	"slices"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
)

// Decision says what happens to a request. The zero value refuses it.
type Decision string

const (
	// Denied refuses the request, as 403.
	Denied Decision = ""
	// Allowed lets the request pass, with the patches of the answer.
	Allowed Decision = "allowed"
	// Warned lets the request pass with an admission warning. The handler uses it in the mode Warn. A gate uses it where the
	// configuration admits what cannot be decided, and for problems that are no reason to refuse.
	Warned Decision = "warned"
	// Undecided refuses the request, as 503, because no decision is possible now. A retry may succeed.
	Undecided Decision = "error"
)

func (d Decision) String() string {
	if d == Denied {
		return "denied"
	}
	return string(d)
}

// Answer is what a gate decides about one request. It does not depend on the mode of the gate or on dry run.
type Answer struct {
	// Decision says what happens to the request.
	Decision Decision
	// Reason is a stable word in CamelCase for metrics, audit annotations, status causes and Events.
	Reason string
	// Subject is what the answer is about. It starts all texts, and its object has the Events.
	Subject Subject
	// Message is for the person who sent the request: what was refused, why, for which identity, what to do.
	Message string
	// Lasting is what the Event says instead of Message: without text that differs at each attempt, so that Events about the same
	// problem are counted and not repeated, and without anything that only the requester may read. Default: Message.
	Lasting string
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
	// Notices are what Events say. Default: one Event about a request that is not allowed, none about one that is.
	Notices []Notice
	// NoticesUnchanged replace Notices in the mode Warn, in which Patches are not applied. Default: Notices.
	NoticesUnchanged []Notice
	// Committed runs once the answer is final: not on a dry run, and not in the mode Warn. For counting.
	Committed func()
	// Details returns key-value pairs for the operator's log, which may hold what the requester must not see. May be nil.
	Details func() []any
}

// Notice is what one Event says.
type Notice struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is a stable word in CamelCase.
	Reason string
	// Message is the whole text.
	Message string
}

// Text is the message with its subject.
func (a Answer) Text() string { return a.Subject.text(a.Message) }

// WithDetails returns the answer with further key-value pairs for the operator's log.
func (a Answer) WithDetails(pairs ...any) Answer {
	before := a.Details
	a.Details = func() []any {
		if before == nil {
			return pairs
		}
		return slices.Concat(before(), pairs)
	}
	return a
}

// Events returns the Events about the answer in a mode. There are none where no object can have them.
func (a Answer) Events(mode v1beta1.Mode) []events.Event {
	admitted := a.Decision == Allowed || a.Decision == Warned || mode == v1beta1.Warn
	notices := a.Notices
	switch {
	case mode == v1beta1.Warn && a.NoticesUnchanged != nil:
		notices = a.NoticesUnchanged
	case notices == nil && a.Decision != Allowed:
		outcome := "Refused: "
		if admitted {
			outcome = "Admitted with a warning: "
		}
		notices = []Notice{{
			Type: corev1.EventTypeWarning, Reason: a.Reason, Message: outcome + a.Subject.text(cmp.Or(a.Lasting, a.Message)),
		}}
	}
	if len(notices) == 0 {
		return nil
	}
	object, found := a.Subject.eventObject(admitted && a.Decision != Allowed)
	if !found {
		return nil
	}
	told := make([]events.Event, 0, len(notices))
	for _, notice := range notices {
		told = append(told, events.Event{
			Cluster: a.Subject.Cluster, Object: object, Type: notice.Type, Reason: notice.Reason, Message: notice.Message,
		})
	}
	return told
}

// Undecodable refuses a request whose object cannot be decoded, as 400. The error is for the person who sent it.
func Undecodable(err error) Answer {
	return Answer{Decision: Denied, Status: metav1.StatusReasonBadRequest, Reason: "Undecodable", Message: err.Error()}
}
