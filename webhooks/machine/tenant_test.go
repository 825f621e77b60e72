package machine_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/share"
	"warrantgate.dev/webhooks"
)

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

// A tenant that sends too many requests is denied even if requests without a decision are admitted: otherwise it could bypass the gate. First claims
// are admitted, as TestFirstClaimsWithoutAnAnswer shows. TestOneTenantDoesNotDelayAnother of package ownership has the limit.
func TestATenantThatSendsTooManyRequests(t *testing.T) {
	const message = "too many machines of this namespace (on kcp: of this workspace) are being checked already; " +
		"send fewer at the same time, and try again in a few seconds"
	for _, policy := range []v1beta1.UnknownPolicy{v1beta1.Deny, v1beta1.Admit} {
		w := newWorld(func(w *world) {
			w.answers, w.err = nil, &ownership.UnknownError{Cause: ownership.CauseTenantBusy, RetryAfter: 2 * time.Second, Err: share.ErrExceeded}
		})
		got := send(t, w.handler(v1beta1.Enforce, policy), review(t, newMachine(), newMachine(instanceID(ownID))))
		if diff := cmp.Diff(audit("denied", "OwnershipUnknown"), got.AuditAnnotations); diff != "" || w.tenant != (share.Tenant{Namespace: "team-a"}) {
			t.Errorf("%s: tenant %v, annotations (-want +got):\n%s", policy, w.tenant, diff)
		}
		if r := got.Result; r.Code != http.StatusTooManyRequests || r.Reason != metav1.StatusReasonTooManyRequests || r.Details.RetryAfterSeconds != 2 {
			t.Errorf("%s: %v, want 429 and again after 2 seconds", policy, r)
		}
		want := metav1.StatusCause{Type: metav1.CauseType(ownership.CauseTenantBusy), Message: message}
		if diff := cmp.Diff(want, got.Result.Details.Causes[1]); diff != "" {
			t.Errorf("%s: cause (-want +got):\n%s", policy, diff)
		}
	}
}
