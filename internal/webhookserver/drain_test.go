package webhookserver

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDrainPeriod(t *testing.T) {
	for name, tc := range map[string]struct {
		period time.Duration
	}{
		"at once":       {period: 0},
		"after 10 s":    {period: 10 * time.Second},
		"after an hour": {period: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, signal := context.WithCancel(t.Context())
				server := New("", nil, nil, tokens(t))
				serving := server.Drain(ctx, tc.period)
				synctest.Wait()
				if server.leaving.Load() || serving.Err() != nil {
					t.Fatal("the server drains without a signal")
				}
				signaled := time.Now()
				signal()
				<-serving.Done()
				if took := time.Since(signaled); took != tc.period {
					t.Errorf("the context ended after %s, want %s", took, tc.period)
				}
				if !server.leaving.Load() {
					t.Error("the server did not drain")
				}
			})
		})
	}
}

func TestReadiness(t *testing.T) {
	for name, tc := range map[string]struct {
		listening, leaving bool
		want               string
	}{
		"listening":                 {listening: true, want: ""},
		"not listening yet":         {want: "the webhook server does not listen yet"},
		"listening and draining":    {listening: true, leaving: true, want: "draining"},
		"draining before listening": {leaving: true, want: "draining"},
	} {
		t.Run(name, func(t *testing.T) {
			server := New("", nil, nil, tokens(t))
			server.listening.Store(tc.listening)
			server.leaving.Store(tc.leaving)
			got := ""
			if err := server.StartedChecker()(nil); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("check (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConnectionsAreClosedAfterAResponseDuringTheDrain(t *testing.T) {
	for name, tc := range map[string]struct {
		http2 bool
		want  string
	}{
		"HTTP/1.1": {want: "HTTP/1.1"},
		"HTTP/2":   {http2: true, want: "HTTP/2.0"},
	} {
		t.Run(name, func(t *testing.T) {
			hooks := New("", nil, nil, tokens(t))
			hooks.Register("/gate", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.Proto)
			}))
			server := httptest.NewUnstartedServer(hooks.callers)
			server.EnableHTTP2 = tc.http2
			server.StartTLS()
			t.Cleanup(server.Close)

			var got []bool
			for i := range 5 {
				hooks.leaving.Store(i >= 2)
				proto, reused := callGate(t, server)
				if proto != tc.want {
					t.Fatalf("the protocol is %s, want %s", proto, tc.want)
				}
				got = append(got, reused)
			}
			// The third request still uses the connection of the first two, and is the last one on it.
			if diff := cmp.Diff([]bool{false, true, true, false, false}, got); diff != "" {
				t.Errorf("connections that were used again (-want +got):\n%s", diff)
			}
		})
	}
}

// callGate sends a request to the gate. reused reports whether it used an existing connection.
func callGate(t *testing.T, server *httptest.Server) (answer string, reused bool) {
	t.Helper()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/"+token+"/gate", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body), reused
}
