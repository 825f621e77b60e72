//go:build e2e

package machine_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// Advice, by the cause of a failure.
const (
	cloudFails       = "the cloud is unavailable or its response is invalid; try again"
	providerFails    = "the identity provider is unavailable or its response is invalid; try again"
	noResponse       = "the cloud or its identity provider did not answer in time; try again"
	fewerRequests    = "the cloud or its identity provider limits the rate of requests; try again later"
	renewCredentials = "the credentials of warrantgate are rejected; its operator has to renew them"
	allowUser        = "the identity provider does not permit warrantgate to impersonate this user; allow it there, or correct the user of the cluster"
)

// failureEntries are failures with each cause, and of each request that a verdict needs. The unit tests TestNoVerdict, TestTokenErrors and
// TestFailuresOfEachStep have all failures of each request.
func failureEntries() []TableEntry {
	entry := func(operation cloudsigmatest.Operation, what string, fault cloudsigmatest.Fault, cause, advice string) TableEntry {
		return Entry(fmt.Sprintf("when %q %s", operation, what), operation, fault, cause, advice, SpecTimeout(timeout))
	}
	return []TableEntry{
		// It must not be treated as the response that the server belongs to another user, which has the same status code.
		entry(cloudsigmatest.GetServer, "answers 403 for another reason", cloudsigmatest.Status(http.StatusForbidden), "CloudUnavailable", cloudFails),
		entry(cloudsigmatest.GetProfile, "takes no token", cloudsigmatest.Status(http.StatusUnauthorized), "CredentialsDenied", renewCredentials),
		// Longer than any caller waits: if the retry were delayed until then, the caller would not get the reason.
		entry(cloudsigmatest.UMATicket, "answers 429", cloudsigmatest.TooManyRequests(3*time.Second), "RateLimited", fewerRequests),
		entry(cloudsigmatest.ClientCredentials, "hangs", cloudsigmatest.Hang(), "Timeout", noResponse),
		entry(cloudsigmatest.Impersonate, "denies access to the user", oauthError(http.StatusForbidden, "access_denied"),
			"UserNotImpersonable", allowUser),
		entry(cloudsigmatest.Impersonate, "returns the token of another user", cloudsigmatest.TokenOf("someone-else@example.com"),
			"IdentityProviderUnavailable", providerFails),
	}
}

// oauthError responds with an error of RFC 6749, section 5.2.
func oauthError(status int, code string) cloudsigmatest.Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ <-chan struct{}, _ http.HandlerFunc) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error": %q}`, code)
	}
}

// While the cloud or the identity provider fails, the owner of a server cannot be checked. Requests that name a server are then denied,
// with a message that says to try again.
var _ = Describe("a failure of the cloud or the identity provider", sharing, func() {
	DescribeTable("denies with advice, and stores nothing",
		func(ctx SpecContext, operation cloudsigmatest.Operation, fault cloudsigmatest.Fault, cause, advice string) {
			bystander := begin(ctx)
			settled := bystander.createMachine(ctx, "settled")
			settledID := bystander.cloud.AddServer(region, bystander.user, "settled").UUID
			Expect(bystander.setInstanceID(ctx, settled, settledID)).To(Succeed())
			s := begin(ctx)
			machine := s.createMachine(ctx, "node")
			own := s.cloud.AddServer(region, s.user, "node").UUID
			foreign := s.cloud.AddServer(region, bystander.user, "node").UUID

			failure := s.cloud.Fail(fault, 0, operation)
			DeferCleanup(failure.Release)
			s.forgetTokens(s.user) // so that a failure of the identity provider matters; the audit may have had some
			for _, id := range []string{own, foreign} {
				expectUnknown(s.setInstanceID(ctx, machine, id), id, s.user, cause, advice)
			}
			Expect(failure.Met()).To(BeNumerically(">", 0))
			Expect(s.instanceID(ctx, machine)).To(BeEmpty())
			Eventually(s.eventsAbout).WithContext(ctx).WithArguments(machine).Should(ContainElement(And(
				HavePrefix("OwnershipUnknown: Denied: "), ContainSubstring(own), ContainSubstring(s.user.Email), HaveSuffix(advice))))

			By("cached verdicts stay valid, and clearing needs no verdict")
			Expect(bystander.setInstanceID(ctx, settled, "")).To(Succeed())
			Expect(bystander.setInstanceID(ctx, settled, settledID)).To(Succeed())

			By("recovering without a restart")
			failure.Release()
			Eventually(s.setInstanceID).WithContext(ctx).WithArguments(machine, own).Should(Succeed())
			Expect(s.setInstanceID(ctx, machine, "")).To(Succeed())
			expectNotOwned(s.setInstanceID(ctx, machine, foreign))
		}, failureEntries())

})

// tokenRequests is the number of all token requests.
func (w *world) tokenRequests() int {
	return w.cloud.Count(cloudsigmatest.ClientCredentials) + w.cloud.Count(cloudsigmatest.UMATicket) + w.cloud.Count(cloudsigmatest.Impersonate)
}

// expectUnknown checks the denial of an undecided request: it must come from warrantgate, and not from an API server that got no response.
func expectUnknown(err error, id string, user cloudsigmatest.User, cause, advice string) {
	GinkgoHelper()
	Expect(err).To(MatchError(And(
		ContainSubstring(fmt.Sprintf(`denied the request: status.instanceID %q of CloudSigmaMachine`, id)),
		ContainSubstring(fmt.Sprintf("it cannot be checked now whether the instance belongs to user %q", user.Email)),
		ContainSubstring(advice),
		Not(ContainSubstring("deadline exceeded")), Not(ContainSubstring("failed calling webhook")),
	)))
	Expect(apierrors.IsServiceUnavailable(err)).To(BeTrue(), "%v", err)
	var status apierrors.APIStatus
	Expect(errors.As(err, &status)).To(BeTrue())
	Expect(status.Status().Code).To(BeEquivalentTo(http.StatusServiceUnavailable))
	Expect(apierrors.HasStatusCause(err, "OwnershipUnknown")).To(BeTrue(), "%v", status.Status().Details)
	Expect(apierrors.HasStatusCause(err, metav1.CauseType(cause))).To(BeTrue(), "%v", status.Status().Details)
}

func expectNotOwned(err error) {
	GinkgoHelper()
	Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	Expect(apierrors.HasStatusCause(err, "InstanceNotOwned")).To(BeTrue(), "%v", err)
}

// eventsAbout returns the messages of the Events about an object, with their reasons.
func (w *world) eventsAbout(ctx context.Context, object *unstructured.Unstructured) ([]string, error) {
	var events corev1.EventList
	if err := w.client.List(ctx, &events, client.InNamespace(object.GetNamespace())); err != nil {
		return nil, err
	}
	texts := []string{}
	for i := range events.Items {
		if events.Items[i].InvolvedObject.Name == object.GetName() && events.Items[i].InvolvedObject.Kind == object.GetKind() {
			texts = append(texts, events.Items[i].Reason+": "+events.Items[i].Message)
		}
	}
	return texts, nil
}
