package webhooks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

// blocks is the review of a gate whose cloud does not respond. It returns at the deadline.
func blocks(answer webhooks.Answer) func(context.Context, admission.Request) webhooks.Answer {
	return func(ctx context.Context, _ admission.Request) webhooks.Answer {
		<-ctx.Done()
		return answer
	}
}

func TestBlockedGateIsAnsweredBeforeTheTimeout(t *testing.T) {
	block := blocks(webhooks.Answer{Decision: webhooks.Allowed, Reason: "Fine", Message: "too late"})
	var budget time.Duration
	gate := &fakeGate{t: t, review: func(ctx context.Context, request admission.Request) webhooks.Answer {
		if deadline, ok := ctx.Deadline(); ok {
			budget = time.Until(deadline)
		}
		return block(ctx, request)
	}}
	server := serve(t, webhooks.Handler(gate, v1beta1.Enforce, &fakeRecorder{}))

	counted := newAdmissions(t)
	got := send(t, server, "?timeout=2s", review())

	want := answered(deniedWith("error", 503, "ServiceUnavailable", "Deadline", "no verdict was found in time; try again"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	// The gate gets 80 % of the API server's timeout, minus the time of the request on the network.
	if budget <= 0 || budget > 1600*time.Millisecond {
		t.Errorf("the gate had %s, want at most 1.6 s of 2 s", budget)
	}
	if diff := cmp.Diff(map[string]float64{"error/Deadline": 1}, counted()); diff != "" {
		t.Errorf("warrantgate_admissions_total (-want +got):\n%s", diff)
	}
}

func TestLateAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		answer webhooks.Answer
		mode   v1beta1.Mode
		want   admissionv1.AdmissionReview
	}{
		"a denial is still a denial": {
			answer: webhooks.Answer{Reason: "OwnerChangeDenied", Message: "not yours"}, mode: v1beta1.Enforce,
			want: answered(deniedWith("denied", 403, "Forbidden", "OwnerChangeDenied", "not yours")),
		},
		"an approval is undecided, because the deadline may have interrupted its checks": {
			answer: webhooks.Answer{Decision: webhooks.Allowed, Reason: "Fine"}, mode: v1beta1.Enforce,
			want: answered(deniedWith("error", 503, "ServiceUnavailable", "Deadline", "no verdict was found in time; try again")),
		},
		"an undecided answer reports the deadline and its reason": {
			answer: webhooks.Answer{Decision: webhooks.Undecided, Reason: "CloudSilent", Message: "m"}, mode: v1beta1.Enforce,
			want: answered(deniedWith("error", 503, "ServiceUnavailable", "CloudSilent", "m")),
		},
		"a gate with unknown: Admit still admits undecided requests": {
			answer: webhooks.Answer{Decision: webhooks.Warned, Reason: "CloudSilent", Message: "m"}, mode: v1beta1.Enforce,
			want: answered(admitted("warned", "CloudSilent"), withWarning("CloudSilent: m")),
		},
		"the mode Warn does not deny at the deadline either": {
			answer: webhooks.Answer{Decision: webhooks.Allowed, Reason: "Fine"}, mode: v1beta1.Warn,
			want: answered(admitted("warned", "Deadline"),
				withWarning("Deadline (mode Warn, nothing was changed or denied): no verdict was found in time; try again")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			gate := &fakeGate{t: t, review: blocks(tc.answer)}
			server := serve(t, webhooks.Handler(gate, tc.mode, &fakeRecorder{}))
			if diff := cmp.Diff(tc.want, send(t, server, "?timeout=10ms", review())); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBudgetIsFourFifthsOfTheTimeout(t *testing.T) {
	for query, want := range map[string]time.Duration{
		"?timeout=1s":             800 * time.Millisecond,
		"?timeout=3s":             2400 * time.Millisecond,
		"?timeout=30s":            24 * time.Second,
		"?timeout=500ms":          400 * time.Millisecond,
		"?other=1&timeout=2s":     1600 * time.Millisecond,
		"":                        8 * time.Second, // of the API server's default
		"?timeout=":               8 * time.Second,
		"?timeout=soon":           8 * time.Second,
		"?timeout=3":              8 * time.Second,
		"?timeout=0s":             8 * time.Second,
		"?timeout=-3s":            8 * time.Second,
		"?timeout=31s":            8 * time.Second, // more than an API server ever waits
		"?timeout=9999999h":       8 * time.Second,
		"?timeout=1s&timeout=30s": 800 * time.Millisecond,
	} {
		t.Run(query, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body, err := json.Marshal(review())
				if err != nil {
					t.Fatal(err)
				}
				begin, got := time.Now(), time.Duration(0)
				gate := &fakeGate{t: t, review: func(ctx context.Context, _ admission.Request) webhooks.Answer {
					<-ctx.Done()
					got = time.Since(begin)
					return webhooks.Answer{}
				}}
				handler := webhooks.Handler(gate, v1beta1.Enforce, &fakeRecorder{})
				handler.ServeHTTP(httptest.NewRecorder(), newRequest(t, query, string(body)))
				if got != want {
					t.Errorf("the gate had %s, want %s", got, want)
				}
			})
		})
	}
}

// newRequest returns a request as a server passes it to a handler.
func newRequest(t *testing.T, query, body string) *http.Request {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/gate"+query, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	return request
}

func TestRunningAdmissionIsCompletedAtShutdown(t *testing.T) {
	type key struct{}
	base, shutdown := context.WithCancel(context.WithValue(t.Context(), key{}, "kept"))
	defer shutdown()
	reviewing, down := make(chan struct{}), make(chan struct{})
	gate := &fakeGate{t: t, review: func(ctx context.Context, _ admission.Request) webhooks.Answer {
		close(reviewing)
		<-down
		if ctx.Err() != nil || ctx.Value(key{}) != "kept" {
			return webhooks.Answer{Reason: "Cut", Message: fmt.Sprint(ctx.Err(), ctx.Value(key{}))}
		}
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "Fine"}
	}}
	server := httptest.NewUnstartedServer(webhooks.Handler(gate, v1beta1.Enforce, &fakeRecorder{}))
	server.EnableHTTP2 = true
	server.Config.BaseContext = func(net.Listener) context.Context { return base }
	server.StartTLS()
	t.Cleanup(server.Close)

	go func() {
		<-reviewing
		shutdown()
		close(down)
	}()
	if diff := cmp.Diff(answered(admitted("allowed", "Fine")), send(t, server, "", review())); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

// A client that does not finish its body gets a response, and the server closes the connection after five seconds. Here they pass at once:
// the connection is a pipe in a bubble of testing/synctest. It has no TLS, because the two sides of a pipe block each other when both send
// close_notify.
func TestIncompleteBodyTimesOut(t *testing.T) {
	for protocol, tc := range map[string]struct {
		use  func(protocols *http.Protocols, yes bool)
		want string
	}{
		"HTTP/1.1": {use: (*http.Protocols).SetHTTP1, want: "read pipe: i/o timeout"},
		"HTTP/2.0": {use: (*http.Protocols).SetUnencryptedHTTP2, want: "i/o timeout"},
	} {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				protocols := &http.Protocols{}
				tc.use(protocols, true)
				listener := newPipeListener()
				server := &http.Server{ // as controller-runtime's
					Handler:           webhooks.Handler(&fakeGate{t: t}, v1beta1.Enforce, &fakeRecorder{}),
					ReadHeaderTimeout: 32 * time.Second, IdleTimeout: 90 * time.Second, Protocols: protocols,
				}
				served := make(chan error, 1)
				go func() { served <- server.Serve(listener) }()
				transport := &http.Transport{
					DialContext: func(context.Context, string, string) (net.Conn, error) { return listener.dial(), nil },
					Protocols:   protocols,
				}

				body, rest := io.Pipe()
				go func() { _, _ = io.WriteString(rest, `{"apiVersion":`) }() // and no more
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://pipe/gate?timeout=30s", body)
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("Content-Type", "application/json")
				begin := time.Now()
				response, err := transport.RoundTrip(request)
				if err != nil {
					t.Fatalf("call the gate: %v", err)
				}
				if took := time.Since(begin); took != 5*time.Second {
					t.Errorf("responded after %s, want 5s", took)
				}
				if response.Proto != protocol {
					t.Errorf("protocol = %s, want %s", response.Proto, protocol)
				}
				var got admissionv1.AdmissionReview
				if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
					t.Fatalf("decode the answer: %v", err)
				}
				if diff := cmp.Diff(badRequest("the body cannot be read: "+tc.want), got); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
				_ = response.Body.Close()
				_ = rest.Close()
				transport.CloseIdleConnections()
				if err := server.Close(); err != nil {
					t.Errorf("close the server: %v", err)
				}
				if err := <-served; !errors.Is(err, http.ErrServerClosed) {
					t.Errorf("Serve() error = %v", err)
				}
			})
		})
	}
}

// pipeListener is a listener whose connections are pipes within the process.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (*pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
