package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recorded is the AdmissionReview that kcp v0.32.3 sends to the owner rewrite when its scheduler places the workspace of a service
// account, recorded from a real server. Only the names of the field managers are different.
//
//go:embed review.json
var recorded []byte

// workspaceReviews returns the recorded review for one workspace after the other. With a single workspace, its Events would be
// aggregated into one, which is less work than in production.
func workspaceReviews(caller int) (*reviews, error) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(recorded, &review); err != nil {
		return nil, fmt.Errorf("read the recorded review: %w", err)
	}
	var workspace metav1.PartialObjectMetadata
	if err := json.Unmarshal(review.Request.Object.Raw, &workspace); err != nil {
		return nil, fmt.Errorf("read the recorded workspace: %w", err)
	}
	var wire bytes.Buffer
	if err := json.Compact(&wire, recorded); err != nil {
		return nil, fmt.Errorf("read the recorded review: %w", err)
	}
	return newReviews(wire.Bytes(), string(workspace.UID), caller)
}

// reviews returns encoded reviews of one UUID after the other.
type reviews struct {
	wire []byte
	// places are the offsets of the end of the UUID.
	places []int
	// first is the first number. cycle is the length of the cycle of numbers, 0 if there is none.
	first, made, cycle int64
}

const (
	// idDigits is the number of digits at the end of a UUID that differ.
	idDigits = 12
	// idsOfCaller is the number of UUIDs of each caller.
	idsOfCaller = int64(1) << 32
)

// newReviews returns those of one of several callers. Callers share no UUID. The id is the UUID in wire.
func newReviews(wire []byte, id string, caller int) (*reviews, error) {
	r := &reviews{wire: wire, first: int64(caller) * idsOfCaller}
	for from := 0; ; {
		at := bytes.Index(wire[from:], []byte(id))
		if at < 0 {
			break
		}
		from += at + len(id)
		r.places = append(r.places, from-idDigits)
	}
	if len(r.places) == 0 {
		return nil, errors.New("the review is not about " + id)
	}
	return r, nil
}

// next returns the review of the next UUID.
func (r *reviews) next() []byte {
	digits := digitsOf(r.first + r.made)
	r.made++
	if r.cycle > 0 {
		r.made %= r.cycle
	}
	body := bytes.Clone(r.wire)
	for _, place := range r.places {
		copy(body[place:], digits)
	}
	return body
}

// digitsOf are the last digits of the UUID of a number.
func digitsOf(number int64) string { return fmt.Sprintf("%0*x", idDigits, number) }
