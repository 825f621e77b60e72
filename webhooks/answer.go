package webhooks

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
)

// Decision is the result for a request. The zero value denies it.
type Decision string

const (
	// Denied denies the request, as 403.
	Denied Decision = ""
	// Allowed admits the request, with the patches of the answer.
	Allowed Decision = "allowed"
	// Warned admits the request with an admission warning. The handler uses it in mode Warn. A gate uses it if the configuration
	// admits requests without a decision, and for problems that are not a reason to deny.
	Warned Decision = "warned"
	// Undecided denies the request, as 503, because no decision is possible now. A retry may succeed.
	Undecided Decision = "error"
)

func (d Decision) String() string {
	if d == Denied {
		return "denied"
	}
	return string(d)
}

// Answer is the decision of a gate about one request. It does not depend on the mode of the gate or on dry run.
type Answer struct {
	// Decision is the result for the request.
	Decision Decision
	// Reason is a stable word in CamelCase for metrics, audit annotations, status causes and Events.
	Reason string
	// Subject is the object or field of the answer. It starts all texts, and its object has the Events.
	Subject Subject
	// Message is for the requester: what was denied, why, for which identity, and what to do.
	Message string
	// Lasting replaces Message in the Event. It contains no text that differs between attempts, so that Events about the same
	// problem are aggregated, and nothing that only the requester may read. Default: Message.
	Lasting string
	// Status is the kind of denial: BadRequest (400) if the object cannot be decoded, Invalid (422) for a malformed value, TooManyRequests (429)
	// for a tenant that sends too many requests. Default: Forbidden (403) for Denied, ServiceUnavailable (503) for Undecided.
	Status metav1.StatusReason
	// RetryAfter is how long clients should wait before they retry, in whole seconds. Default: the client decides.
	RetryAfter time.Duration
	// Field is the path of the denied field, "" for the whole object. For status causes.
	Field string
	// Causes are additional status causes, for controllers that handle denials.
	Causes []metav1.StatusCause
	// Patches change the object. Only a mutating gate has them.
	Patches []jsonpatch.JsonPatchOperation
	// Notices are the texts of Events. Default: one Event for a request that is not allowed, none for an allowed one.
	Notices []Notice
	// NoticesUnchanged replaces Notices in mode Warn, which does not apply Patches. Default: Notices.
	NoticesUnchanged []Notice
	// Details returns key-value pairs for the operator's log. They may contain data that the requester must not see. May be nil.
	Details func() []any
}

// Notice is the text of one Event.
type Notice struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is a stable word in CamelCase.
	Reason string
	// Message is the whole text.
	Message string
	// By is the user who caused it, where Events are limited per user. "" where they are not.
	By string
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

// Events returns the Events about the answer in a mode. There are none if no object can have them.
func (a Answer) Events(mode v1beta1.Mode) []events.Event {
	admitted := a.Decision == Allowed || a.Decision == Warned || mode == v1beta1.Warn
	notices := a.Notices
	switch {
	case mode == v1beta1.Warn && a.NoticesUnchanged != nil:
		notices = a.NoticesUnchanged
	case notices == nil && a.Decision != Allowed:
		outcome := "Denied: "
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
	recorded := make([]events.Event, 0, len(notices))
	for _, notice := range notices {
		recorded = append(recorded, events.Event{
			Cluster: a.Subject.Cluster, Object: object, Type: notice.Type, Reason: notice.Reason, Message: notice.Message,
			By: notice.By,
		})
	}
	return recorded
}

// Undecodable denies a request whose object cannot be decoded, as 400. The error is for the requester.
func Undecodable(err error) Answer {
	return Answer{Decision: Denied, Status: metav1.StatusReasonBadRequest, Reason: "Undecodable", Message: err.Error()}
}

// SetAnnotation returns the patch that sets an annotation of an object with the given annotations.
func SetAnnotation(annotations map[string]string, key, value string) jsonpatch.JsonPatchOperation {
	if len(annotations) == 0 { // the map may not exist yet
		return jsonpatch.NewOperation("add", annotationsPath, map[string]string{key: value})
	}
	return jsonpatch.NewOperation("add", AnnotationPath(key), value)
}

// RemoveAnnotation returns the patch that removes an annotation, which the object must have.
func RemoveAnnotation(key string) jsonpatch.JsonPatchOperation {
	return jsonpatch.NewOperation("remove", AnnotationPath(key), nil)
}

// AnnotationPath returns the JSON pointer (RFC 6901) of an annotation.
func AnnotationPath(key string) string { return annotationsPath + "/" + pointerEscapes.Replace(key) }

const annotationsPath = "/metadata/annotations"

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
