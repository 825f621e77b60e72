package cloudhttptest

import (
	"crypto/x509"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Answers are the responses of an API by request, such as "GET /servers?limit=100".
type Answers map[string]http.HandlerFunc

// API is a fake API of a cloud. A request without an answer fails the test.
type API struct {
	// Server is the server of the API, or nil after Offline.
	Server *httptest.Server
	// Check is called for each request, if set.
	Check func(*http.Request)
	t     *testing.T

	mu       sync.Mutex
	answers  Answers
	requests []Request
}

// Request is a request to an API.
type Request struct {
	// Name is the key in Answers.
	Name   string
	Header http.Header
	Body   string
}

// Serve starts an API with TLS.
func Serve(t *testing.T, answers Answers) *API {
	t.Helper()
	api := Offline(t, answers)
	api.Server = httptest.NewUnstartedServer(api)
	api.Server.Config.ErrorLog = log.New(io.Discard, "", 0)
	api.Server.StartTLS()
	t.Cleanup(api.Server.Close)
	return api
}

// Offline returns an API that is a transport, for tests with a fake clock.
func Offline(t *testing.T, answers Answers) *API {
	t.Helper()
	return &API{t: t, answers: maps.Collect(maps.All(answers))}
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := Request{Name: r.Method + " " + r.URL.RequestURI(), Header: r.Header}
	if r.Body != nil {
		body, _ := io.ReadAll(r.Body)
		request.Body = string(body)
	}
	a.mu.Lock()
	a.requests = append(a.requests, request)
	answer := a.answers[request.Name]
	a.mu.Unlock()
	if a.Check != nil {
		a.Check(r)
	}
	if answer == nil {
		a.t.Errorf("%s was not expected", request.Name)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	answer(w, r)
}

// RoundTrip implements http.RoundTripper without a network.
func (a *API) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	r.Host = r.URL.Host
	a.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// Set replaces the response to a request.
func (a *API) Set(request string, answer http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers[request] = answer
}

// Requests returns the requests since the last call of Expect.
func (a *API) Requests() []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

// Count returns how many times a request was sent since the last call of Expect.
func (a *API) Count(request string) (count int) {
	for _, r := range a.Requests() {
		if r.Name == request {
			count++
		}
	}
	return count
}

// Expect checks the requests since its last call, in order.
func (a *API) Expect(want ...string) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	var got []string
	for _, r := range a.requests {
		got = append(got, r.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		a.t.Errorf("requests (-want +got):\n%s", diff)
	}
	a.requests = nil
}

// Roots returns the CA of the server.
func (a *API) Roots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(a.Server.Certificate())
	return roots
}

// RoundTripper is a transport for tests without a network.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
