package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recorded is the AdmissionReview that kcp v0.32.3 sends to the owner rewrite when its scheduler places the workspace
// of a service account, as it was recorded from a real one. Only the names of the field managers were changed.
//
//go:embed review.json
var recorded []byte

// scheduled is a Workspace as it is recorded, as far as it is looked at here.
func scheduled() (metav1.PartialObjectMetadata, error) {
	var review admissionv1.AdmissionReview
	var workspace metav1.PartialObjectMetadata
	if err := json.Unmarshal(recorded, &review); err != nil {
		return workspace, fmt.Errorf("read the recorded review: %w", err)
	}
	if err := json.Unmarshal(review.Request.Object.Raw, &workspace); err != nil {
		return workspace, fmt.Errorf("read the recorded workspace: %w", err)
	}
	return workspace, nil
}

// reviews makes the recorded review, as it is on the wire, for one workspace after the other. If all were about one, its
// Events would fold into one, which is other work than there is in life.
type reviews struct {
	wire []byte
	// places are where the end of the workspace's UID stands.
	places []int
	made   int64
}

// uidDigits is how many digits at the end of the UID tell workspaces apart.
const uidDigits = 12

// newReviews begins with the workspace of a number.
func newReviews(first int64) (*reviews, error) {
	workspace, err := scheduled()
	if err != nil {
		return nil, err
	}
	var wire bytes.Buffer
	if err := json.Compact(&wire, recorded); err != nil {
		return nil, fmt.Errorf("read the recorded review: %w", err)
	}
	r := &reviews{wire: wire.Bytes(), made: first}
	uid := []byte(workspace.UID)
	for from := 0; ; {
		at := bytes.Index(r.wire[from:], uid)
		if at < 0 {
			return r, nil
		}
		from += at + len(uid)
		r.places = append(r.places, from-uidDigits)
	}
}

// next returns the review for the next workspace.
func (r *reviews) next() []byte {
	r.made++
	body := bytes.Clone(r.wire)
	digits := fmt.Appendf(nil, "%0*x", uidDigits, r.made)
	for _, place := range r.places {
		copy(body[place:], digits)
	}
	return body
}
