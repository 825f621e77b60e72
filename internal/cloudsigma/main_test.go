package cloudsigma_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"warrantgate.dev/internal/cloudhttp/cloudhttptest"
	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/ownership"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// Identities of all tests. The server and the user are those of the incident.
const (
	region      = "next"
	userEmail   = "tenant@example.com"
	userID      = "2f6b80d3-1c4e-4d7a-b5f9-3a8e6c0d7b12"
	strangerID  = "0f9d5f5e-8c0d-4b7e-9d37-5b0a3c1e2d11"
	machineName = "metal-worker-pool-1-hl9tl-qbrcf"
	machineUID  = "a7d7c1f2-33a4-4b5c-8d6e-7f8091a2b3c4"
	serverID    = "b1f2a9c4-7d3e-4a58-9c06-2e5d8f7a1b34"
	otherID     = "5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b"
)

// Requests, in the notation of the tests.
const (
	getServer     = "next/servers/" + serverID + "/"
	getProfile    = "next/profile/"
	getCandidates = "next/servers/detail/?limit=100&name=" + machineName
	getPage1      = "next/servers/detail/?limit=100"
)

// canary is a text in data that must not reach the caller.
const canary = "canary"

func account() ownership.Account {
	return ownership.Account{Cloud: "cloudsigma", User: userEmail, Region: region}
}

func claim(modify ...func(*ownership.Claim)) ownership.Claim {
	c := ownership.Claim{Account: account(), ID: serverID, Name: machineName, MachineUID: machineUID}
	for _, m := range modify {
		m(&c)
	}
	return c
}

// answers are the responses of an API, by request.
type answers map[string]http.HandlerFunc

// fakeAPI is an API of CloudSigma. An unexpected request fails the test.
type fakeAPI struct {
	t      *testing.T
	server *httptest.Server

	mu       sync.Mutex
	answers  answers
	requests []string
	headers  []http.Header
}

func newAPI(t *testing.T, a answers) *fakeAPI {
	t.Helper()
	api := &fakeAPI{t: t, answers: a}
	api.server = httptest.NewTLSServer(api)
	t.Cleanup(api.server.Close)
	return api
}

// ServeHTTP implements http.Handler.
func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := strings.TrimPrefix(r.URL.RequestURI(), "/api/")
	a.mu.Lock()
	a.requests = append(a.requests, request)
	a.headers = append(a.headers, r.Header)
	answer := a.answers[request]
	a.mu.Unlock()
	if answer == nil || r.Method != http.MethodGet {
		a.t.Errorf("%s %s was not expected", r.Method, request)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	answer(w, r)
}

// change replaces the responses.
func (a *fakeAPI) change(to answers) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers = to
}

// expect checks the requests since the last call, in order.
func (a *fakeAPI) expect(want ...string) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if diff := cmp.Diff(want, a.requests); diff != "" {
		a.t.Errorf("requests (-want +got):\n%s", diff)
	}
	a.requests, a.headers = nil, nil
}

// expectCount checks how many times a request was sent since the last call of expect.
func (a *fakeAPI) expectCount(request string, want int) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	got := 0
	for _, r := range a.requests {
		if r == request {
			got++
		}
	}
	if got != want {
		a.t.Errorf("%s was requested %d times, want %d", request, got, want)
	}
}

// cloud returns a client of this API.
func (a *fakeAPI) cloud(tokens cloudsigma.Tokens, modify ...func(*cloudsigma.Options)) *cloudsigma.Cloud {
	a.t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(a.server.Certificate())
	options := cloudsigma.Options{Tokens: tokens, API: a.server.URL + "/api/{region}", LegacyAPI: a.server.URL + "/api/legacy.{region}", RootCAs: roots}
	for _, m := range modify {
		m(&options)
	}
	cloud := cloudsigma.New(options)
	a.t.Cleanup(cloud.Stop)
	return cloud
}

// reply returns a handler that sends a status, a body, and headers as pairs. The request ID is "req-" and the status.
func reply(status int, body string, header ...string) http.HandlerFunc {
	return cloudhttptest.Reply(status, body, append([]string{"X-REQUEST-ID", fmt.Sprintf("req-%d", status)}, header...)...)
}

// inJSON returns v as JSON.
func inJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// object is a JSON object.
type object = map[string]any

// aServer returns the response for a server, with fields that the client must ignore.
func aServer(id, name, owner, machineUID string) object {
	return object{
		"uuid": id, "name": name, "status": "running", "vnc_password": canary, "mem": 1 << 30,
		"owner": object{"uuid": owner, "email": canary + "@example.com", "resource_uri": "/api/2.0/user/" + owner + "/"},
		"meta":  object{"machine-uid": machineUID, "description": canary},
	}
}

// aPage returns the response of a list request.
func aPage(total int, servers ...object) string {
	return inJSON(object{"meta": object{"limit": 100, "offset": 0, "total_count": total}, "objects": append([]object{}, servers...)})
}

func theProfile() http.HandlerFunc {
	return reply(http.StatusOK, inJSON(object{"uuid": userID, "email": userEmail, "first_name": canary}))
}

func forbidden() http.HandlerFunc {
	return reply(http.StatusForbidden, `[{"error_type":"permission","error_message":"User `+userID+
		` does not have all of the permissions [LIST] in order to complete the operation on resources [canary]","error_point":null}]`)
}

func notFound() http.HandlerFunc {
	return reply(http.StatusNotFound, `[{"error_type":"notexist","error_message":"canary does not exist","error_point":null}]`)
}

// fakeTokens returns tokens with the number of dropped tokens in them.
type fakeTokens struct {
	err  error
	errs int // number of tokens to return before err, if err is set

	mu        sync.Mutex
	given     int
	dropped   []string
	requested []time.Time
}

func (f *fakeTokens) Token(_ context.Context, user, region string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil && f.given >= f.errs {
		return "", f.err
	}
	f.given++
	return fmt.Sprintf("%s-%d-of-%s-in-%s", canary, len(f.dropped), user, region), nil
}

func (f *fakeTokens) Drop(user, region string, requested time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropped = append(f.dropped, user+" in "+region)
	f.requested = append(f.requested, requested)
}

// roundTripper is a transport for tests with a fake clock.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// offline returns a cloud whose responses come from functions, without network connections. Call stop at the end.
func offline(t *testing.T, a answers) (cloud *cloudsigma.Cloud, stop func()) {
	t.Helper()
	cloud = cloudsigma.NewWith(cloudsigma.Options{Tokens: &fakeTokens{}, API: "https://cloud.example/api/{region}/"},
		roundTripper(func(r *http.Request) (*http.Response, error) {
			request := strings.TrimPrefix(r.URL.RequestURI(), "/api/")
			answer := a[request]
			if answer == nil {
				t.Errorf("%s was not expected", request)
				return nil, http.ErrNotSupported
			}
			w := httptest.NewRecorder()
			answer(w, r)
			if err := r.Context().Err(); err != nil {
				return nil, err
			}
			return w.Result(), nil
		}))
	return cloud, cloud.Stop
}

// discard returns a logger that discards the logs of test servers.
func discard() *log.Logger { return log.New(io.Discard, "", 0) }

// hang blocks until the client closes the connection.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// failure contains the compared fields of an *ownership.UnknownError.
type failure struct {
	Cause      ownership.Cause
	RequestID  string
	RetryAfter time.Duration
	Text       string
}
