package webhooks

import (
	"cmp"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/share"
)

// maxReviewBytes limits the size of a review. It contains the object before and after the request, of at most 3 MiB each, and
// metadata.
const maxReviewBytes = 7 << 20

// reviewType is the type of requests and responses. The webhook configurations name no other version.
var reviewType = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}

// leniently accepts what API servers may send: unknown fields of later versions, and texts of tenants that are not UTF-8. Of
// repeated names the last one counts, as in API servers. Rejecting them here would cost the most for the objects, which gates
// decode again.
var leniently = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// ServeHTTP answers an AdmissionReview. It rejects any other body without calling the gate, and reads a body only when there is room for it.
// Without room the answer is 429 if the caller takes too much, or 503 after the deadline. It is then not an AdmissionReview, which needs the
// UID from the body.
//
// The gate has until shortly before the timeout of the API server. Its context does not depend on that of the server, which is canceled when
// the shutdown begins: running admissions are completed.
//
// admission.Webhook of controller-runtime parses each body four times, which takes longer than the decision of a gate. It also
// accepts YAML from every client that reaches the port, and a few megabytes of YAML take seconds and most of a gigabyte of memory.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), budget(r))
	defer cancel()
	// The client has readTimeout to send the body, also what is discarded. The recorder of a test has no deadline.
	body := http.NewResponseController(w)
	_ = body.SetReadDeadline(time.Now().Add(readTimeout))

	size := sizeOf(r)
	release, err := h.bodies.wait(ctx, size)
	if err != nil {
		h.withoutRoom(w, r, err)
		return
	}
	defer release()
	_ = body.SetReadDeadline(time.Now().Add(readTimeout)) // again, after the wait

	var response *admissionv1.AdmissionResponse
	if request, err := readRequest(r); err != nil {
		response = h.unreadable(request, err)
	} else {
		ctx = context.WithValue(withTrace(ctx, r.Header), roomKey{}, room{h.bodies, size})
		response = h.respond(ctx, admission.Request{AdmissionRequest: *request})
	}
	answer, err := stdjson.Marshal(admissionv1.AdmissionReview{TypeMeta: reviewType, Response: response})
	if err != nil { // a response always marshals
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer))) // else a long one is sent in chunks
	_, _ = w.Write(answer)                                      // it fails where the client is gone
}

// withoutRoom answers a request whose body is not read.
func (h *handler) withoutRoom(w http.ResponseWriter, r *http.Request, err error) {
	discard(r)
	admissions.WithLabelValues(h.gate.Name(), Undecided.String(), "Overloaded").Inc()
	logger.V(1).Info("no room for a review", "gate", h.gate.Name(), "bytes", r.ContentLength)
	code := http.StatusServiceUnavailable
	if errors.Is(err, share.ErrExceeded) {
		code = http.StatusTooManyRequests
	}
	http.Error(w, "warrantgate has no room for this request; try again", code)
}

// readRequest returns the request of a review (KEP-492, admission.k8s.io/v1). The error is for the API server. With an error, the request has what
// precedes it in the body, and can be nil.
func readRequest(r *http.Request) (*admissionv1.AdmissionRequest, *apierrors.StatusError) {
	if contentType := r.Header.Get("Content-Type"); contentType != "application/json" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the content type is %.64q, not application/json", contentType))
	}
	var review admissionv1.AdmissionReview
	// With the ResponseWriter, MaxBytesReader would close the connection.
	err := json.UnmarshalRead(http.MaxBytesReader(nil, r.Body, maxReviewBytes), &review, leniently)
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		discard(r)
		return review.Request, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d bytes", maxReviewBytes))
	case err != nil:
		return review.Request, apierrors.NewBadRequest(shortLine("the body cannot be read: "+why(err), maxMessageBytes))
	case review.TypeMeta != reviewType:
		return review.Request, apierrors.NewBadRequest(fmt.Sprintf("the body is a %.64q of %.64q, not an AdmissionReview of %s",
			review.Kind, review.APIVersion, reviewType.APIVersion))
	case review.Request == nil || review.Request.UID == "":
		return nil, apierrors.NewBadRequest("the body holds no admission request")
	}
	return review.Request, nil
}

// unreadable denies a request whose review cannot be read. It is logged only on level 1, because every client that reaches the port could fill the
// log.
//
// Unless the gate only warns, the response has the UID, which API servers write before the object. They take a response without it for a failure of
// the webhook, and with failurePolicy Ignore they then admit the request. A tenant can write objects that are as deep as an API server accepts, and
// the review around them is deeper.
func (h *handler) unreadable(request *admissionv1.AdmissionRequest, err *apierrors.StatusError) *admissionv1.AdmissionResponse {
	admissions.WithLabelValues(h.gate.Name(), Denied.String(), "Unreadable").Inc()
	logger.V(1).Info("not a review", "gate", h.gate.Name(), "error", err.Error())
	response := &admissionv1.AdmissionResponse{Result: &err.ErrStatus}
	if request != nil && h.mode == v1beta1.Enforce {
		response.UID = request.UID
	}
	return response
}

// why describes an error of the decoder in terms of JSON, without names of Go types.
func why(err error) string {
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.As(err, &semantic):
		return fmt.Sprintf("wrong type of value at %q", semantic.JSONPointer)
	case errors.As(err, &syntactic):
		return fmt.Sprintf("%v at byte %d", syntactic.Err, syntactic.ByteOffset)
	default:
		return cmp.Or(errors.Unwrap(err), err).Error() // the body is incomplete
	}
}
