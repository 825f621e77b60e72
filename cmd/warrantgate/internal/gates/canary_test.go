package gates

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const webhook = "policies.keystone.warrantgate.dev"

// apiServer sends the same response to every request, and accepts only dry runs.
type apiServer struct {
	t       *testing.T
	status  *metav1.Status
	warning string
	// admitted is the object in the response without a status. Default: newPolicy.
	admitted *corev1.ConfigMap
}

func (s apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/default/configmaps" || r.URL.Query().Get("dryRun") != "All" {
		s.t.Errorf("%s %s is not a dry run", r.Method, r.URL)
	}
	w.Header().Set("Content-Type", "application/json")
	if s.warning != "" {
		w.Header().Set("Warning", `299 - "`+s.warning+`"`)
	}
	var answer any = newPolicy()
	if s.admitted != nil {
		answer = s.admitted
	}
	if s.status != nil {
		s.status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		w.WriteHeader(int(s.status.Code))
		answer = s.status
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.t.Error(err)
	}
}

func newPolicy() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "canary"},
	}
}

// newClient returns a client with a RESTMapper for ConfigMaps, without discovery.
func newClient(config *rest.Config) (client.Client, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	return client.New(config, client.Options{Scheme: scheme.Scheme, Mapper: mapper})
}

func failure(code int32, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}
}

func TestSend(t *testing.T) {
	const warned = "KeystonePolicyBroken (mode Warn, nothing was changed or denied): it allows everybody"
	denied := failure(http.StatusForbidden, metav1.StatusReasonForbidden, `admission webhook "`+webhook+`" denied the request: it allows everybody`)
	for name, tc := range map[string]struct {
		server      apiServer
		warns       bool
		wantVerdict Verdict
		wantMessage string
		wantAdvice  string
	}{
		"denied by the gate": {
			server: apiServer{status: denied}, wantVerdict: Proven,
			wantMessage: `warrantgate denied the object: admission webhook "` + webhook + `" denied the request: it allows everybody`,
		},
		"denied by the gate as a malformed value": {
			server: apiServer{status: failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
				`admission webhook "`+webhook+`" denied the request: no provider ID`)},
			wantVerdict: Proven, wantMessage: `warrantgate denied the object: admission webhook "` + webhook + `" denied the request: no provider ID`,
		},
		"denied by a gate that should only warn": {
			server: apiServer{status: denied}, warns: true, wantVerdict: Proven,
			wantMessage: `warrantgate denied the object, although its configuration has mode Warn (was it restarted since?): admission webhook "` + webhook +
				`" denied the request: it allows everybody`,
		},
		"warning of a gate in mode Warn": {
			server: apiServer{warning: warned}, warns: true, wantVerdict: Proven,
			wantMessage: "the object was admitted with the warning of warrantgate, because the gate is in mode Warn: " + warned,
		},
		"warning with the reason of other credentials": {
			server: apiServer{warning: "InstanceNotFound (mode Warn, nothing was changed or denied): there is none"}, warns: true, wantVerdict: Proven,
			wantMessage: "the object was admitted with the warning of warrantgate, because the gate is in mode Warn: " +
				"InstanceNotFound (mode Warn, nothing was changed or denied): there is none",
		},
		"warning of another gate": {
			server: apiServer{warning: "Other (mode Warn, nothing was changed or denied): no"}, warns: true, wantVerdict: Missing,
			wantMessage: `the object was admitted, and webhook "` + webhook + `" neither denied it nor warned`, wantAdvice: "its failurePolicy",
		},
		"warning of a gate that should deny": {
			server: apiServer{warning: warned}, wantVerdict: Missing,
			wantMessage: "the object was admitted with the warning of warrantgate: " + warned, wantAdvice: "the gate is in mode Warn there",
		},
		"admitted without a warning": {
			wantVerdict: Missing, wantMessage: `the object was admitted, and webhook "` + webhook + `" neither denied it nor warned`,
			wantAdvice: "whether the webhook configuration is installed",
		},
		"warning of the API server": {
			server: apiServer{warning: "metadata.name: this is used in Pod names"}, warns: true, wantVerdict: Missing,
			wantMessage: `the object was admitted, and webhook "` + webhook + `" neither denied it nor warned`, wantAdvice: "its failurePolicy",
		},
		"webhook not reachable": {
			server: apiServer{status: failure(http.StatusInternalServerError, metav1.StatusReasonInternalError,
				`Internal error occurred: failed calling webhook "`+webhook+`": failed to call webhook: Post "https://warrantgate.system.svc:443/0123456789abcdef/machine/ownership?timeout=3s": connection refused`)},
			wantVerdict: Missing,
			wantMessage: `the API server cannot reach warrantgate: Internal error occurred: failed calling webhook "` + webhook + `": failed to call webhook: Post "https://warrantgate.system.svc:443/…": connection refused`,
			wantAdvice:  "whether its pods are ready",
		},
		"webhook that answers 404": {
			server: apiServer{status: failure(http.StatusInternalServerError, metav1.StatusReasonInternalError,
				`Internal error occurred: failed calling webhook "`+webhook+`": failed to call webhook: the server could not find the requested resource`)},
			wantVerdict: Missing,
			wantMessage: "the API server got the answer 404: warrantgate does not take it for an API server, or does not have this gate: Internal error " +
				`occurred: failed calling webhook "` + webhook + `": failed to call webhook: the server could not find the requested resource`,
			wantAdvice: "run install again, with --webhook-path-file and the same file",
		},
		"gate without a decision": {
			server: apiServer{status: failure(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
				`admission webhook "`+webhook+`" denied the request: try again`)},
			wantMessage: `warrantgate answered, but could not decide: admission webhook "` + webhook + `" denied the request: try again`,
			wantAdvice:  "the log of warrantgate",
		},
		"sender without permission": {
			server:      apiServer{status: failure(http.StatusForbidden, metav1.StatusReasonForbidden, `configmaps is forbidden: User "nobody" cannot create`)},
			wantMessage: `the request was denied before admission, or by an admission policy: configmaps is forbidden: User "nobody" cannot create`,
			wantAdvice:  "may create such an object",
		},
		"denied by another webhook": {
			server: apiServer{status: failure(http.StatusForbidden, metav1.StatusReasonForbidden,
				`admission webhook "other.example.com" denied the request: no`)},
			wantMessage: `the request failed before warrantgate decided: admission webhook "other.example.com" denied the request: no`,
			wantAdvice:  "the cause in this message",
		},
		"rejected by the API server": {
			server:      apiServer{status: failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "spec.cpu: Required value")},
			wantMessage: "the request failed before warrantgate decided: spec.cpu: Required value", wantAdvice: "the cause in this message",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.server.t = t
			server := httptest.NewServer(tc.server)
			defer server.Close()
			sender, err := NewSender(&rest.Config{Host: server.URL}, newClient)
			if err != nil {
				t.Fatal(err)
			}
			// Send twice: the second result does not contain the warnings of the first.
			sender.Send(t.Context(), Canary{Webhook: webhook, Reason: "KeystonePolicyBroken", OrReason: "InstanceNotFound", Warns: tc.warns, Object: newPolicy()})
			got := sender.Send(t.Context(), Canary{Webhook: webhook, Reason: "KeystonePolicyBroken", OrReason: "InstanceNotFound", Warns: tc.warns, Object: newPolicy()})
			if diff := cmp.Diff([]any{tc.wantVerdict, tc.wantMessage}, []any{got.Verdict, got.Message}); diff != "" {
				t.Errorf("Send() (-want +got):\n%s", diff)
			}
			if advice := strings.Join(got.Advice, "\n"); !strings.Contains(advice, tc.wantAdvice) || (tc.wantAdvice == "") != (advice == "") {
				t.Errorf("advice = %q, want some about %q", advice, tc.wantAdvice)
			}
		})
	}
}

// TestSendToAGateThatRewrites: the gate has to remove the annotation of the canary.
func TestSendToAGateThatRewrites(t *testing.T) {
	sent := newPolicy()
	sent.Annotations = map[string]string{"warrantgate.dev/canary": "rewrite-webhook"}
	const notRewritten = `webhook "` + webhook + `" did not rewrite the object`
	for name, tc := range map[string]struct {
		server      apiServer
		wantVerdict Verdict
		wantMessage string
	}{
		"rewritten": {server: apiServer{}, wantVerdict: Proven, wantMessage: "warrantgate rewrote the object"},
		"admitted":  {server: apiServer{admitted: sent}, wantVerdict: Missing, wantMessage: notRewritten},
		"denied by the policy that protects the annotation": {
			server: apiServer{status: failure(http.StatusForbidden, metav1.StatusReasonForbidden,
				"ValidatingAdmissionPolicy 'warrantgate-owner-integrity' with binding 'warrantgate-owner-integrity' denied request: it is guarded")},
			wantVerdict: Missing, wantMessage: notRewritten,
		},
		"not reached": {
			server: apiServer{status: failure(http.StatusInternalServerError, metav1.StatusReasonInternalError,
				`failed calling webhook "`+webhook+`": failed to call webhook: EOF`)},
			wantVerdict: Missing, wantMessage: `the API server cannot reach warrantgate: failed calling webhook "` + webhook + `": failed to call webhook: EOF`,
		},
		"denied by another policy": {
			server:      apiServer{status: failure(http.StatusForbidden, metav1.StatusReasonForbidden, "no more ConfigMaps")},
			wantMessage: "the request was denied before admission, or by an admission policy: no more ConfigMaps",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.server.t = t
			server := httptest.NewServer(tc.server)
			defer server.Close()
			sender, err := NewSender(&rest.Config{Host: server.URL}, newClient)
			if err != nil {
				t.Fatal(err)
			}
			got := sender.Send(t.Context(), Canary{Webhook: webhook, Rewrites: true, Object: sent})
			if diff := cmp.Diff([]any{tc.wantVerdict, tc.wantMessage}, []any{got.Verdict, got.Message}); diff != "" {
				t.Errorf("Send() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSendWithoutTheKindInTheAPIServer(t *testing.T) {
	sender, err := NewSender(&rest.Config{Host: "http://127.0.0.1:1"}, func(config *rest.Config) (client.Client, error) {
		return client.New(config, client.Options{Scheme: scheme.Scheme, Mapper: meta.NewDefaultRESTMapper(nil)})
	})
	if err != nil {
		t.Fatal(err)
	}
	got := sender.Send(t.Context(), Canary{Webhook: webhook, Object: newPolicy()})
	if got.Verdict != Unknown || !strings.HasPrefix(got.Message, "the API server has no such kind: ") {
		t.Errorf("Send() = %+v", got)
	}
}

func TestNewSenderReturnsTheErrorOfTheClient(t *testing.T) {
	_, err := NewSender(&rest.Config{}, func(*rest.Config) (client.Client, error) { return nil, errors.New("no client") })
	if err == nil {
		t.Error("NewSender() without a client: no error")
	}
}
