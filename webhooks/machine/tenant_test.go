package machine_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

// from gives a request a namespace.
func from(namespace string) func(*admissionv1.AdmissionRequest) {
	return func(r *admissionv1.AdmissionRequest) { r.Namespace = namespace }
}

// A tenant that sends too many requests is denied even if requests without a decision are admitted: otherwise it could bypass the gate.
func TestATenantThatSendsTooManyRequestsIsDenied(t *testing.T) {
	for _, policy := range []v1beta1.UnknownPolicy{v1beta1.Deny, v1beta1.Admit} {
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
				for i := range 100 {
					callers.Go(func() {
						id := fmt.Sprintf("63dd227a-9502-4311-919e-%012d", i)
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
				synctest.Wait()
				close(answers)
				callers.Wait()
				// 3 of 4 are evaluated at once, and 32 wait.
				if diff := cmp.Diff(map[int32]int{http.StatusForbidden: 35, http.StatusTooManyRequests: 65}, codes); diff != "" {
					t.Errorf("codes (-want +got):\n%s", diff)
				}
				if rejected == nil {
					t.Fatal("nothing was rejected")
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

// TestATenantThatQueuesRequestsIsDenied checks that a tenant cannot make a request wait for so long that it is admitted as in an outage, neither
// before the cloud is asked nor shortly before its answer.
func TestATenantThatQueuesRequestsIsDenied(t *testing.T) {
	const requests = 35 // 3 of 4 are evaluated at once, and 32 wait
	synctest.Test(t, func(t *testing.T) {
		cloud := &fakeCloud{answer: func(context.Context, int) (ownership.Answer, error) {
			<-time.After(time.Second)
			return ownership.Answer{Verdict: ownership.Absent}, nil
		}}
		w := newWorld()
		handler := w.handlerOf(t, cloud, v1beta1.Machine{Mode: v1beta1.Enforce, Unknown: v1beta1.Admit}, w)
		var callers sync.WaitGroup
		for i := range requests {
			callers.Go(func() {
				id := fmt.Sprintf("63dd227a-9502-4311-919e-%012d", i)
				if got := send(t, handler, review(t, newMachine(), newMachine(instanceID(id)), numbered(i), from("team-a"))); got.Allowed {
					t.Errorf("request %d is admitted: %v", i, got.Warnings)
				}
			})
		}
		callers.Wait()
		<-time.After(time.Minute) // lookups whose callers have left
	})
}
