//go:build e2e

package machine_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/volume"
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

	It("is also a cloud that rejects all tokens of a user because they have expired", func(ctx SpecContext) {
		s := begin(ctx)
		machine := s.createMachine(ctx, "node")
		own := s.cloud.AddServer(region, s.user, "node").UUID
		s.cloud.SetOpaque(true) // only the cloud can see it
		DeferCleanup(s.cloud.SetOpaque, false)
		failure := s.cloud.Fail(cloudsigmatest.ExpiredToken(), 0, cloudsigmatest.Impersonate)
		DeferCleanup(failure.Release)
		s.forgetTokens(s.user)
		expectUnknown(s.setInstanceID(ctx, machine, own), own, s.user, "CredentialsDenied", renewCredentials)
		Expect(s.cloud.Count(cloudsigmatest.GetServer, s.user.Email)).To(Equal(2), "one retry with another token")
		failure.Release()
		Eventually(s.setInstanceID).WithContext(ctx).WithArguments(machine, own).Should(Succeed())
	}, SpecTimeout(timeout))

	It("is not a revoked token: another one is requested", func(ctx SpecContext) {
		s := begin(ctx)
		Expect(s.setInstanceID(ctx, s.createMachine(ctx, "one"), s.cloud.AddServer(region, s.user, "one").UUID)).To(Succeed())
		s.forgetTokens(s.user)
		Expect(s.setInstanceID(ctx, s.createMachine(ctx, "two"), s.cloud.AddServer(region, s.user, "two").UUID)).To(Succeed())
		Expect(s.cloud.Count(cloudsigmatest.Impersonate, s.user.Email)).To(BeNumerically(">", 1))
	}, SpecTimeout(timeout))

	It("for one user affects no other", func(ctx SpecContext) {
		s, bystander := begin(ctx), begin(ctx)
		Expect(s.cloud.DenyImpersonation(serviceAccount, s.user.Email)).To(Succeed())
		s.forgetTokens(s.user)
		machine := s.createMachine(ctx, "node")
		own := s.cloud.AddServer(region, s.user, "node").UUID
		for i := range 10 {
			expectUnknown(s.setInstanceID(ctx, machine, own), own, s.user, "UserNotImpersonable", allowUser)
			name := fmt.Sprintf("node-%d", i)
			theirs := bystander.cloud.AddServer(region, bystander.user, name).UUID
			Expect(bystander.setInstanceID(ctx, bystander.createMachine(ctx, name), theirs)).To(Succeed())
		}
		Expect(s.cloud.Count(cloudsigmatest.Impersonate, s.user.Email)).To(BeNumerically("<=", 4), "the denial is cached")

		Expect(s.cloud.AllowImpersonation(serviceAccount, s.user.Email)).To(Succeed())
		Eventually(s.setInstanceID).WithContext(ctx).WithArguments(machine, own).Should(Succeed())
	}, SpecTimeout(timeout))

	It("for some servers does not delay requests for others", func(ctx SpecContext) {
		const slow, waiters = "0badc10d-", 10
		s, bystander := begin(ctx), begin(ctx)
		failure := s.cloud.Fail(func(w http.ResponseWriter, r *http.Request, released <-chan struct{}, answer http.HandlerFunc) {
			if !strings.Contains(r.URL.Path, slow) {
				answer(w, r)
				return
			}
			cloudsigmatest.Hang()(w, r, released, answer)
		}, 0, cloudsigmatest.GetServer)
		DeferCleanup(failure.Release)
		denied := make(chan error, waiters)
		for i := range waiters {
			name := fmt.Sprintf("node-%d", i)
			machine := s.createMachine(ctx, name)
			id := s.cloud.AddServer(region, s.user, name, cloudsigmatest.WithUUID(slow+uuid.NewString()[len(slow):])).UUID
			go func() { denied <- s.setInstanceID(ctx, machine, id) }()
		}
		Expect(failure.WaitMet(ctx, waiters)).To(Succeed())
		theirs := bystander.cloud.AddServer(region, bystander.user, "node").UUID
		Expect(bystander.setInstanceID(ctx, bystander.createMachine(ctx, "node"), theirs)).To(Succeed())
		for range waiters {
			var err error
			Eventually(denied).WithContext(ctx).Should(Receive(&err))
			Expect(apierrors.HasStatusCause(err, "Timeout")).To(BeTrue(), "%v", err)
		}
	}, SpecTimeout(timeout))
})

// An overloaded identity provider gets no more requests, whatever controllers do meanwhile.
var _ = Describe("an identity provider that fails", sharing, func() {
	It("gets one request a second while many writers retry, and is used again without a restart", func(ctx SpecContext) {
		writers, attempts := volume.Of(10, 50), volume.Of(10, 100)
		w := shared(ctx)
		stories := make([]story, writers)
		machines, ids := make([]*unstructured.Unstructured, writers), make([]string, writers)
		for i := range stories {
			stories[i] = w.begin(ctx)
			machines[i] = stories[i].createMachine(ctx, "node")
			ids[i] = w.cloud.AddServer(region, stories[i].user, "node").UUID
		}
		failure := w.cloud.Fail(cloudsigmatest.Status(http.StatusInternalServerError), 0,
			cloudsigmatest.ClientCredentials, cloudsigmatest.UMATicket, cloudsigmatest.Impersonate)
		DeferCleanup(failure.Release)
		for i := range stories {
			w.forgetTokens(stories[i].user) // the audit may have had some
		}
		expectUnknown(stories[0].setInstanceID(ctx, machines[0], ids[0]), ids[0], stories[0].user, "IdentityProviderUnavailable", providerFails)

		requested, began := w.tokenRequests(), time.Now()
		var hammering errgroup.Group
		for i := range stories {
			hammering.Go(func() error {
				// The provider gets further requests after a second, so the writers continue for longer.
				for n := 0; n < attempts || time.Since(began) < 3*time.Second; n++ {
					if err := w.setInstanceID(ctx, machines[i], ids[i]); !apierrors.HasStatusCause(err, "IdentityProviderUnavailable") {
						return fmt.Errorf("writer %d: want a denial as IdentityProviderUnavailable, got %w", i, err)
					}
				}
				return nil
			})
		}
		Expect(hammering.Wait()).To(Succeed())
		Expect(w.tokenRequests() - requested).To(BeNumerically("<=", int(time.Since(began).Seconds())+2))

		failure.Release()
		for i := range stories {
			Eventually(w.setInstanceID).WithContext(ctx).WithArguments(machines[i], ids[i]).Should(Succeed())
		}
	}, SpecTimeout(2*timeout))

	It("gets no request before its Retry-After has passed", func(ctx SpecContext) {
		const rest = 3 * time.Second
		s := begin(ctx)
		machine, id := s.createMachine(ctx, "node"), s.cloud.AddServer(region, s.user, "node").UUID
		failure := s.cloud.Fail(cloudsigmatest.TooManyRequests(rest), 2, cloudsigmatest.ClientCredentials)
		DeferCleanup(failure.Release)
		s.forgetTokens(s.user)
		began := time.Now()
		expectUnknown(s.setInstanceID(ctx, machine, id), id, s.user, "RateLimited", fewerRequests)
		Eventually(s.setInstanceID).WithContext(ctx).WithArguments(machine, id).Should(Succeed())
		var times []time.Time
		for _, request := range s.cloud.Requests() {
			if request.Operation == cloudsigmatest.ClientCredentials && request.Time.After(began) {
				times = append(times, request.Time)
			}
		}
		Expect(len(times)).To(BeNumerically(">=", 3))
		Expect(times[1].Sub(times[0])).To(BeNumerically(">=", rest))
		Expect(times[2].Sub(times[1])).To(BeNumerically(">=", rest))
	}, SpecTimeout(timeout))
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
