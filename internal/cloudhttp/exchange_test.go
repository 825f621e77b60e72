package cloudhttp_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

// serve starts a server that sends the same status and body to every request, and returns a transport for it.
func serve(t *testing.T, status int, body string) (url string, transport *http.Transport) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			t.Errorf("%s was requested, want only /", r.URL.Path)
		}
		w.Header().Set("X-Request-Id", "req")
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	transport = cloudhttp.NewTransport(server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs) //nolint:errcheck // the type is httptest's
	t.Cleanup(transport.CloseIdleConnections)
	return server.URL + "/", transport
}

func TestResponseBodies(t *testing.T) {
	for name, tc := range map[string]struct {
		status          int
		body            string
		want, rejection string
		ok              bool
	}{
		"success":               {status: http.StatusOK, body: "own", want: "own", ok: true},
		"as large as the limit": {status: http.StatusCreated, body: strings.Repeat("x", 100), want: strings.Repeat("x", 100), ok: true},
		"error":                 {status: http.StatusForbidden, body: canary, rejection: canary},
		"redirect":              {status: http.StatusFound, body: canary, rejection: canary},
		"nothing":               {status: http.StatusBadGateway},
	} {
		t.Run(name, func(t *testing.T) {
			url, transport := serve(t, tc.status, tc.body)
			x := newExchange(transport)
			response, err := x.get(t, url)
			if err != nil {
				t.Fatalf("error = %v", err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatalf("ReadAll() error = %v", err)
			}
			if diff := cmp.Diff([]any{tc.want, tc.rejection, tc.status, tc.ok, "req"}, []any{string(body), string(x.rejection), x.Status, x.OK(), x.RequestID()}); diff != "" {
				t.Errorf("body, rejection, status, whether it is OK, and request ID (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResponseOverTheLimit(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusBadGateway} {
		url, transport := serve(t, status, strings.Repeat("x", 101))
		x := newExchange(transport)
		response, err := x.get(t, url)
		if err == nil {
			_ = response.Body.Close()
			t.Fatalf("status %d: no error", status)
		}
		u := x.Unknown(ownership.CauseCloud, err)
		if got, want := u.Error(), "CloudUnavailable: server request: the answer is larger than 100 bytes"; got != want {
			t.Errorf("status %d: error = %q, want %q", status, got, want)
		}
	}
}

func TestResponse(t *testing.T) {
	for kind, want := range map[string]string{"permission": "403 permission", "": "403 unspecified"} {
		x := cloudhttp.Exchange{Status: http.StatusForbidden, Kind: kind}
		if got := x.Response(); got != want {
			t.Errorf("Response(%q) = %q, want %q", kind, got, want)
		}
	}
}

func TestUnknown(t *testing.T) {
	rejecting := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	for name, tc := range map[string]struct {
		status int
		err    error
		want   ownership.UnknownError
		text   string
	}{
		"an error of the cloud": {
			status: http.StatusTooManyRequests, err: errors.New(canary),
			want: ownership.UnknownError{Cause: ownership.CauseRateLimited, RequestID: "req", RetryAfter: time.Minute},
			text: "server request: the answer was 429 overLimit",
		},
		"an error of the cloud, and a timeout": {
			status: http.StatusBadGateway, err: context.Canceled,
			want: ownership.UnknownError{Cause: ownership.CauseRateLimited, RequestID: "req", RetryAfter: time.Minute},
			text: "server request: the answer was 502 overLimit",
		},
		"a response that cannot be parsed": {
			status: http.StatusOK, err: errors.New(canary),
			want: ownership.UnknownError{Cause: ownership.CauseRateLimited, RequestID: "req"}, text: "server request: the response cannot be parsed",
		},
		"canceled":                 {err: context.Canceled, want: ownership.UnknownError{Cause: ownership.CauseTimeout}, text: "server request: no answer in time"},
		"a deadline":               {err: context.DeadlineExceeded, want: ownership.UnknownError{Cause: ownership.CauseTimeout}, text: "server request: no answer in time"},
		"a timeout of the network": {err: &net.DNSError{IsTimeout: true}, want: ownership.UnknownError{Cause: ownership.CauseTimeout}, text: "server request: no answer in time"},
		"no connection": {
			err: rejecting, want: ownership.UnknownError{Cause: ownership.CauseRateLimited}, text: "server request: dial tcp: connection refused",
		},
		"a certificate": {
			err:  &tls.CertificateVerificationError{Err: errors.New("unknown authority")},
			want: ownership.UnknownError{Cause: ownership.CauseRateLimited}, text: "server request: tls: failed to verify certificate: unknown authority",
		},
		"an incomplete response": {
			err: errors.New(canary), want: ownership.UnknownError{Cause: ownership.CauseRateLimited},
			text: "server request: the connection broke before the end of the answer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newExchange(roundTripper(func(*http.Request) (*http.Response, error) {
				if tc.status == 0 {
					return nil, tc.err
				}
				return &http.Response{
					StatusCode: tc.status, Body: http.NoBody, Header: http.Header{"X-Request-Id": {"req"}, "Retry-After": {"60"}},
				}, nil
			}))
			if response, err := x.get(t, "https://cloud.example/"); err == nil {
				_ = response.Body.Close()
			}
			got := x.Unknown(ownership.CauseRateLimited, tc.err)
			text := got.Err.Error()
			got.Err = nil
			if diff := cmp.Diff(tc.want, *got); diff != "" {
				t.Errorf("Unknown() (-want +got):\n%s", diff)
			}
			if text != tc.text {
				t.Errorf("Unknown() error = %q, want %q", text, tc.text)
			}
		})
	}
}

func TestConnectionFailures(t *testing.T) {
	var ours http.HandlerFunc = func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was sent", r.URL) }
	serving := func(minimum, maximum uint16) *httptest.Server {
		server := httptest.NewUnstartedServer(ours)
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.TLS = &tls.Config{MinVersion: minimum, MaxVersion: maximum}
		server.StartTLS()
		t.Cleanup(server.Close)
		return server
	}
	trusted, plain := serving(tls.VersionTLS12, 0), httptest.NewServer(ours)
	t.Cleanup(plain.Close)
	closed := httptest.NewServer(nil)
	closed.Close()
	roots := trusted.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs //nolint:errcheck,forcetypeassert // the type is httptest's
	for name, tc := range map[string]struct {
		url, want string
		roots     *x509.CertPool
	}{
		"an old version of TLS":  {url: serving(tls.VersionTLS10, tls.VersionTLS11).URL, roots: roots, want: "protocol version"},
		"no TLS":                 {url: strings.Replace(plain.URL, "http:", "https:", 1), roots: roots, want: "the connection broke before the end of the answer"},
		"an untrusted CA":        {url: trusted.URL, want: "certificate signed by unknown authority"},
		"no listener":            {url: closed.URL, want: "connection refused"},
		"an incomplete response": {url: broken(t, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{canary"), roots: roots, want: "the connection broke before the end of the answer"},
		"not HTTP":               {url: broken(t, canary+"\r\n\r\n"), roots: roots, want: "the connection broke before the end of the answer"},
	} {
		t.Run(name, func(t *testing.T) {
			transport := cloudhttp.NewTransport(tc.roots)
			defer transport.CloseIdleConnections()
			x := newExchange(transport)
			response, err := x.get(t, tc.url)
			if err == nil {
				_ = response.Body.Close()
				t.Fatal("no error")
			}
			if got := x.Unknown(ownership.CauseCloud, err); got.Cause != ownership.CauseCloud || !strings.Contains(got.Error(), tc.want) || strings.Contains(got.Error(), canary) {
				t.Errorf("error = %v, want %q", got, tc.want)
			}
		})
	}
}

// broken returns the URL of a server that sends these bytes to every request and closes the connection.
func broken(t *testing.T, answer string) string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("hijack the connection: %v", err)
			return
		}
		_, _ = connection.Write([]byte(answer))
		_ = connection.Close()
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestRequestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newExchange(roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}))
		began := time.Now()
		response, err := x.get(t, "https://cloud.example/")
		if err == nil {
			_ = response.Body.Close()
			t.Fatal("no error")
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it took %s, want 30s", took)
		}
		if got := x.Unknown(ownership.CauseCloud, err).Cause; got != ownership.CauseTimeout {
			t.Errorf("cause = %s, want %s", got, ownership.CauseTimeout)
		}
	})
}

func TestHalf(t *testing.T) {
	for name, tc := range map[string]struct{ left, want time.Duration }{
		"10s left":           {left: 10 * time.Second, want: 5 * time.Second},
		"no deadline":        {want: 15 * time.Second},
		"after the deadline": {left: -time.Second},
		"an hour left":       {left: time.Hour, want: 30 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				if tc.left != 0 {
					ctx, cancel = context.WithTimeout(t.Context(), tc.left)
				}
				defer cancel()
				began := time.Now()
				half, stop := cloudhttp.Half(ctx)
				defer stop()
				<-half.Done()
				if took := time.Since(began); took != tc.want {
					t.Errorf("it ended after %s, want %s", took, tc.want)
				}
			})
		})
	}
}
