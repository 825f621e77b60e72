package machine_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// from gives a request a namespace.
func from(namespace string) func(*admissionv1.AdmissionRequest) {
	return func(r *admissionv1.AdmissionRequest) { r.Namespace = namespace }
}

// The author of a machine may not be allowed to read a Secret of another namespace with the user of the cluster. The response and the Event
// name the Secret, and not what is in it.
func TestAMessageDoesNotNameTheUserInASecretOfAnotherNamespace(t *testing.T) {
	unknown := func(w *world) {
		w.answers, w.err = nil, &ownership.UnknownError{Cause: ownership.CauseCloud, Err: errors.New("503")}
	}
	for name, tc := range map[string]struct {
		id     string
		modify []func(*world)
		policy v1beta1.UnknownPolicy
	}{
		"another user's instance":   {id: foreignID},
		"no instance":               {id: absentID},
		"no answer":                 {id: ownID, modify: worldOf(unknown)},
		"no answer, with a warning": {id: ownID, modify: worldOf(unknown), policy: v1beta1.Admit},
		"a first claim":             {id: ownID, modify: worldOf(unknown), policy: v1beta1.AdmitFirstClaims},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(append(tc.modify, func(w *world) {
				w.account.UserSecret = types.NamespacedName{Namespace: "team-b", Name: "their-user"}
			})...)
			gate := w.gate(v1beta1.Machine{Mode: v1beta1.Enforce, Unknown: tc.policy})
			response := send(t, webhooks.Handler(gate, v1beta1.Enforce, w), review(t, newMachine(), newMachine(instanceID(tc.id)), ofStatus))
			texts := string(encode(t, []any{response, w.events()}))
			for _, secret := range []string{account.User, userID} {
				if strings.Contains(texts, secret) {
					t.Errorf("%s is shown: %s", secret, texts)
				}
			}
			if !strings.Contains(texts, `the user that Secret \"their-user\" of namespace \"team-b\" names`) {
				t.Errorf("the Secret is not named: %s", texts)
			}
		})
	}
}

// A tenant that sends too many requests is denied even if requests without a decision are admitted: otherwise it could bypass the gate. First
// claims are admitted, because their provider would create another server; the audit checks them.
func TestATenantThatSendsTooManyRequests(t *testing.T) {
	const requests, asked = 100, 2 // of the 4 requests to the cloud, the tenant leaves two free
	denied := map[int32]int{http.StatusForbidden: asked, http.StatusTooManyRequests: requests - asked}
	for policy, want := range map[v1beta1.UnknownPolicy]map[int32]int{
		v1beta1.Deny: denied, v1beta1.Admit: denied,
		v1beta1.AdmitFirstClaims: {http.StatusForbidden: asked, http.StatusOK: requests - asked},
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answers := make(chan struct{})
				cloud := &fakeCloud{answer: func(context.Context, int) (ownership.Answer, error) {
					<-answers
					return ownership.Answer{Verdict: ownership.Absent}, nil
				}}
				w := newWorld()
				handler := w.handlerOf(t, cloud, v1beta1.Machine{Mode: v1beta1.Enforce, Unknown: policy}, w)
				var callers sync.WaitGroup
				var mu sync.Mutex
				codes := map[int32]int{}
				var rejected *metav1.Status
				for i := range requests {
					callers.Go(func() {
						id := fmt.Sprintf("5d0c3e1f-9a47-4b6e-8f21-%012d", i)
						got := send(t, handler, review(t, newMachine(), newMachine(instanceID(id)), numbered(i), from("team-a")))
						mu.Lock()
						defer mu.Unlock()
						codes[got.Result.Code]++
						if got.Result.Code == http.StatusTooManyRequests {
							rejected = got.Result
						}
					})
				}
				synctest.Wait()
				callers.Go(func() {
					if got := send(t, handler, review(t, newMachine(), newMachine(instanceID(foreignID)), from("team-b"))); got.Result.Code != http.StatusForbidden {
						t.Errorf("another namespace: %v", got.Result)
					}
				})
				<-time.After(2*time.Second + time.Millisecond) // first claims wait for two seconds
				close(answers)
				callers.Wait()
				if diff := cmp.Diff(want, codes); diff != "" {
					t.Errorf("codes (-want +got):\n%s", diff)
				}
				if rejected == nil {
					return
				}
				if rejected.Reason != metav1.StatusReasonTooManyRequests || rejected.Details.RetryAfterSeconds != 2 {
					t.Errorf("reason %s, again after %d seconds, want TooManyRequests and 2", rejected.Reason, rejected.Details.RetryAfterSeconds)
				}
				const wantCause = "too many machines of this namespace (on kcp: of this workspace) are being checked already; " +
					"send fewer at the same time, and try again in a few seconds"
				want := metav1.StatusCause{Type: metav1.CauseType(ownership.CauseTenantBusy), Message: wantCause}
				if diff := cmp.Diff(want, rejected.Details.Causes[len(rejected.Details.Causes)-1]); diff != "" {
					t.Errorf("cause (-want +got):\n%s", diff)
				}
			})
		})
	}
}
