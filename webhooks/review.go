package webhooks

import (
	"cmp"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// maxReviewBytes is the most that is read of a review: an object before and after the request, of which API servers take 3 MiB
// each, and what is said about it.
const maxReviewBytes = 7 << 20

// reviewType is what API servers ask with, and are answered in. Registrations name no other version.
var reviewType = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}

// leniently reads what API servers may send: fields of versions to come, and text of a tenant's that is not UTF-8. Of names that
// are repeated the last holds, as in API servers; to look for them costs most with the objects, which gates read by themselves.
var leniently = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// ServeHTTP answers a review. What is none is refused in a review, too, without asking the gate.
//
// controller-runtime's admission.Webhook does the same for more kinds of bodies. It goes through each four times, which takes
// longer than all that a gate does, and anybody who reaches the port can have it read YAML, a few megabytes of which take
// seconds and most of a gigabyte.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var response *admissionv1.AdmissionResponse
	if request, err := readRequest(r); err != nil {
		response = h.unreadable(err)
	} else {
		response = h.respond(r.Context(), admission.Request{AdmissionRequest: *request})
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

// readRequest reads the request that a review is about (KEP-492, admission.k8s.io/v1). The error is for the API server.
func readRequest(r *http.Request) (*admissionv1.AdmissionRequest, *apierrors.StatusError) {
	if contentType := r.Header.Get("Content-Type"); contentType != "application/json" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the content type is %.64q, not application/json", contentType))
	}
	var review admissionv1.AdmissionReview
	// Without the ResponseWriter, with which MaxBytesReader would close the connection.
	err := json.UnmarshalRead(http.MaxBytesReader(nil, r.Body, maxReviewBytes), &review, leniently)
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		discard(r)
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d bytes", maxReviewBytes))
	case err != nil:
		return nil, apierrors.NewBadRequest(shortLine("the body cannot be read: "+why(err), maxMessageBytes))
	case review.TypeMeta != reviewType:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %.64q of %.64q, not an AdmissionReview of %s",
			review.Kind, review.APIVersion, reviewType.APIVersion))
	case review.Request == nil || review.Request.UID == "":
		return nil, apierrors.NewBadRequest("the body holds no admission request")
	}
	return review.Request, nil
}

// unreadable refuses what no API server sends. It is counted, and told only to those who ask for it: whoever reaches the port
// could fill the log.
func (h *handler) unreadable(err *apierrors.StatusError) *admissionv1.AdmissionResponse {
	admissions.WithLabelValues(h.gate.Name(), Denied.String(), "Unreadable").Inc()
	logger.V(1).Info("not a review", "gate", h.gate.Name(), "error", err.Error())
	return &admissionv1.AdmissionResponse{Result: &err.ErrStatus}
}

// why says what is wrong with a body in the words of JSON, and not of Go.
func why(err error) string {
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.As(err, &semantic):
		return fmt.Sprintf("wrong type of value at %q", semantic.JSONPointer)
	case errors.As(err, &syntactic):
		return fmt.Sprintf("%v at byte %d", syntactic.Err, syntactic.ByteOffset)
	default:
		return cmp.Or(errors.Unwrap(err), err).Error() // it did not come in whole
	}
}
