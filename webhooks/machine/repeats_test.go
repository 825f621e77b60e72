package machine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/ownership"
)

var enforce = v1beta1.Machine{Mode: v1beta1.Enforce, Unknown: v1beta1.Deny}

// foreignCloud responds that every instance belongs to another user, with another request ID each time.
func foreignCloud() *fakeCloud {
	return &fakeCloud{answer: func(_ context.Context, requested int) (ownership.Answer, error) {
		return ownership.Answer{Verdict: ownership.Foreign, UserID: userID, Response: "403 permission", RequestID: fmt.Sprintf("r-%d", requested)}, nil
	}}
}

// numbered gives a request a number.
func numbered(i int) func(*admissionv1.AdmissionRequest) {
	return func(r *admissionv1.AdmissionRequest) { r.UID = types.UID(fmt.Sprintf("d%d", i)) }
}

// writer counts the writes of Events, and the Events that are created and not an update of another.
type writer struct{ written, objects atomic.Int32 }

var _ events.Writer = &writer{}

func (w *writer) Create(_ context.Context, _ logicalcluster.Name, event *corev1.Event) (*corev1.Event, error) {
	w.written.Add(1)
	w.objects.Add(1)
	return event, nil
}

func (w *writer) Patch(_ context.Context, _ logicalcluster.Name, event *corev1.Event, _ []byte) (*corev1.Event, error) {
	w.written.Add(1)
	return event, nil
}

func (*writer) Permitted(context.Context) (permitted bool, reason string, err error) {
	return true, "", nil
}

// A controller that is denied in a hot loop causes at most two requests to the cloud, and one Event. Its first claim is sent twice until the
// deadline.
func TestRepeatedDenials(t *testing.T) {
	for name, old := range map[string]object{"an update": newMachine(), "a create, with another UID each time": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				written := &writer{}
				recorder := events.NewRecorder(written)
				done := make(chan error)
				go func() { done <- recorder.Start(ctx) }()
				synctest.Wait()

				cloud := foreignCloud()
				handler := newWorld().handlerOf(t, cloud, enforce, recorder)
				for i := range 1000 {
					changed := newMachine(instanceID(foreignID), with("metadata.resourceVersion", fmt.Sprint(i)))
					if old == nil {
						with("metadata.uid", fmt.Sprintf("uid-%d", i))(changed)
					}
					if got := send(t, handler, review(t, old, changed, numbered(i))); got.Allowed || got.AuditAnnotations["reason"] != "InstanceNotOwned" {
						t.Fatalf("repeat %d: %v", i, got)
					}
					<-time.After(5 * time.Millisecond) // 1,000 in 5 seconds
				}
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
				if requested := cloud.count(); requested > 2 {
					t.Errorf("the cloud got %d requests, want at most 2", requested)
				}
				if written.written.Load() > 25 || written.objects.Load() != 1 {
					t.Errorf("%d writes for %d Events, want at most 25 for one", written.written.Load(), written.objects.Load())
				}
			})
		})
	}
}

// The text of an Event contains no request ID of the cloud, so that Events are aggregated.
func TestTheTextOfAnEventIsStable(t *testing.T) {
	for name, cloud := range map[string]*fakeCloud{
		"a denial": foreignCloud(),
		"no verdict": {answer: func(_ context.Context, requested int) (ownership.Answer, error) {
			return ownership.Answer{}, &ownership.UnknownError{
				Cause: ownership.CauseCloud, RequestID: fmt.Sprintf("r-%d", requested), RetryAfter: time.Duration(requested), Err: fmt.Errorf("attempt %d", requested),
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				handler := w.handlerOf(t, cloud, enforce, w)
				messages := map[string]bool{}
				for i := range 20 {
					got := send(t, handler, review(t, newMachine(instanceID(ownID)), newMachine(instanceID(foreignID), with("metadata.resourceVersion", fmt.Sprint(i))), numbered(i)))
					messages[got.Result.Message] = true
					<-time.After(time.Minute) // longer than answers are cached
				}
				if cloud.count() != 20 || len(messages) != 20 {
					t.Errorf("%d messages of %d requests, want 20 of 20, each with its request ID", len(messages), cloud.count())
				}
				texts := map[string]bool{}
				for _, event := range w.events() {
					texts[event.Message] = true
				}
				if len(texts) != 1 || len(w.events()) != 20 {
					t.Errorf("%d Events with the texts %v, want 20 with one", len(w.events()), texts)
				}
			})
		})
	}
}

// If the cloud does not respond, the gate answers before the timeout of the API server, by the configured policy and with the reason.
func TestACloudThatDoesNotRespond(t *testing.T) {
	for _, mode := range []v1beta1.Mode{v1beta1.Enforce, v1beta1.Warn} {
		for _, policy := range []v1beta1.UnknownPolicy{v1beta1.Deny, v1beta1.Admit, v1beta1.AdmitFirstClaims} {
			t.Run(fmt.Sprintf("%s/%s", mode, policy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cloud := &fakeCloud{answer: func(ctx context.Context, _ int) (ownership.Answer, error) {
						<-ctx.Done()
						return ownership.Answer{}, ctx.Err()
					}}
					w := newWorld()
					handler := w.handlerOf(t, cloud, v1beta1.Machine{Mode: mode, Unknown: policy}, w)
					begin := time.Now()
					got := send(t, handler, review(t, newMachine(), newMachine(instanceID(ownID))))
					if took := time.Since(begin); took != 2400*time.Millisecond {
						t.Errorf("it took %s, want 80 %% of the 3 s that the API server waits", took)
					}
					want := unknownOwner(ownership.CauseTimeout, "")
					want.first = true
					if diff := cmp.Diff(want.response(mode, policy), got); diff != "" {
						t.Errorf("response (-want +got):\n%s", diff)
					}
					if diff := cmp.Diff(want.events(mode, policy, false), w.events()); diff != "" {
						t.Errorf("Events (-want +got):\n%s", diff)
					}
					<-time.After(time.Minute) // the request to the cloud ends as well
				})
			})
		}
	}
}

// Texts for a tenant contain nothing about other tenants.
func TestTextsDiscloseNoOtherTenants(t *testing.T) {
	secrets := []string{"bob@example.com", "team-b", "victim", "eyJhbGciOi", "client_secret", "User 99"}
	cause := errors.New(`403: {"error_message":"User 99 (bob@example.com) has it"}, token eyJhbGciOi, client_secret=x`)
	for name, modify := range map[string]func(*world){
		"a machine of another namespace": func(w *world) { held("team-b", "victim")(w) },
		"no verdict": func(w *world) {
			w.answers, w.err = nil, &ownership.UnknownError{Cause: ownership.CauseCredentials, RequestID: "r1", Err: cause}
		},
		"an error of another kind":      func(w *world) { w.answers, w.err = nil, cause },
		"objects that cannot be read":   func(w *world) { w.holderErr = cause },
		"a cluster that cannot be read": func(w *world) { w.accountErr = cause },
		"a cluster that cannot be found": func(w *world) {
			w.accountErr = &clusterapi.AccountError{Reason: clusterapi.ClusterMissing, Message: "there is none"}
		},
		"an instance of another user": func(w *world) {
			w.answers[ownID] = ownership.Answer{Verdict: ownership.Foreign, Response: "403 permission", UserID: userID}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []v1beta1.Mode{v1beta1.Enforce, v1beta1.Warn} {
				w := newWorld(modify)
				got := send(t, w.handler(mode, v1beta1.Admit), review(t, newMachine(), newMachine(instanceID(ownID))))
				if got.AuditAnnotations["decision"] == "allowed" {
					t.Errorf("there is no text: %v", got)
				}
				texts := string(encode(t, got)) + string(encode(t, w.events()))
				for _, secret := range secrets {
					if strings.Contains(texts, secret) {
						t.Errorf("%s: %q is in %s", mode, secret, texts)
					}
				}
			}
		})
	}
}
