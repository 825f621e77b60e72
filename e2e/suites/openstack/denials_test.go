//go:build e2e

package openstack_test

import (
	"errors"
	"net/http"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// undecided are the reasons of denials that may be retried.
var undecided = []string{"DelegationUnknown", "OwnershipUnknown", "ObjectsUnknown"}

// reasonOf is the reason of a gate's denial, "" if there is none.
func reasonOf(err error) string {
	var denial *apierrors.StatusError
	if !errors.As(err, &denial) || denial.Status().Details == nil || len(denial.Status().Details.Causes) == 0 {
		return ""
	}
	return string(denial.Status().Details.Causes[0].Type)
}

// expectDenial checks the fields that a controller uses, code, reason and cause, and texts for users.
func expectDenial(err error, reason, field string, texts ...string) {
	GinkgoHelper()
	var denial *apierrors.StatusError
	Expect(errors.As(err, &denial)).To(BeTrue(), "%v", err)
	code, word := http.StatusForbidden, metav1.StatusReasonForbidden
	switch {
	case slices.Contains(undecided, reason):
		code, word = http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable
	case slices.Contains([]string{"InstanceIDInvalid", "ProviderIDInvalid"}, reason):
		code, word = http.StatusUnprocessableEntity, metav1.StatusReasonInvalid
	}
	cause, found := apierrors.StatusCause(err, metav1.CauseType(reason))
	Expect(found).To(BeTrue(), "no cause %q in: %v", reason, err)
	Expect(cause.Field).To(Equal(field))
	Expect(denial.Status().Code).To(BeEquivalentTo(code))
	Expect(denial.Status().Reason).To(Equal(word))
	for _, text := range texts {
		Expect(err).To(MatchError(ContainSubstring("%s", text)))
	}
}

// denied matches an Event about a denial.
func denied(reason string, texts ...string) OmegaMatcher {
	matchers := []OmegaMatcher{HavePrefix("Denied: ")}
	for _, text := range texts {
		matchers = append(matchers, ContainSubstring("%s", text))
	}
	return And(HaveField("Type", "Warning"), HaveField("Reason", reason), HaveField("Message", And(matchers...)))
}
