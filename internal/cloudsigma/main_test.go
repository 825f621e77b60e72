package cloudsigma_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

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

// Requests of the tests.
const (
	getServer     = "GET /api/next/servers/" + serverID + "/"
	getProfile    = "GET /api/next/profile/"
	getCandidates = "GET /api/next/servers/detail/?limit=100&name=" + machineName
	getPage1      = "GET /api/next/servers/detail/?limit=100"
)

// atLegacy returns a request at the API for the legacy credentials.
func atLegacy(request string) string { return strings.Replace(request, "/next/", "/legacy.next/", 1) }

const canary = cloudhttptest.Canary

type (
	object  = cloudhttptest.Object
	answers = cloudhttptest.Answers
	failure = cloudhttptest.Failure
)

var (
	inJSON        = cloudhttptest.JSON
	expectFailure = cloudhttptest.ExpectFailure
)

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

// ofUser changes the user of a claim.
func ofUser(user string) func(*ownership.Claim) {
	return func(c *ownership.Claim) { c.User = user }
}

// newCloud returns a client of an API.
func newCloud(t *testing.T, api *cloudhttptest.API, tokens cloudsigma.Tokens, modify ...func(*cloudsigma.Options)) *cloudsigma.Cloud {
	t.Helper()
	at := api.Server.URL
	options := cloudsigma.Options{Tokens: tokens, API: at + "/api/{region}", LegacyAPI: at + "/api/legacy.{region}", RootCAs: api.Roots()}
	for _, m := range modify {
		m(&options)
	}
	cloud := cloudsigma.New(options)
	t.Cleanup(cloud.Stop)
	return cloud
}

// ask asks about a claim at an API with these answers.
func ask(t *testing.T, a answers, c ownership.Claim) (ownership.Answer, error) {
	t.Helper()
	return newCloud(t, cloudhttptest.Serve(t, a), &fakeTokens{}).Ask(t.Context(), c)
}

// expectOwned asks about the claim and expects that the server is the user's.
func expectOwned(t *testing.T, cloud *cloudsigma.Cloud) {
	t.Helper()
	if got, err := cloud.Ask(t.Context(), claim()); err != nil || got.Verdict != ownership.Owned {
		t.Errorf("Ask() = %v, %v, want Owned", got, err)
	}
}

// legacyAccount sets the legacy credentials of the user, with a password.
func legacyAccount(password string) func(*cloudsigma.Options) {
	return func(o *cloudsigma.Options) {
		o.Legacy = func() (cloudsigma.LegacyCredentials, error) {
			return cloudsigma.LegacyCredentials{Username: userEmail, Password: password}, nil
		}
	}
}

// reply returns a handler that sends a status, a body, and headers as pairs. The request ID is "req-" and the status.
func reply(status int, body string, header ...string) http.HandlerFunc {
	return cloudhttptest.Reply(status, body, append([]string{"X-REQUEST-ID", fmt.Sprintf("req-%d", status)}, header...)...)
}

func ok(body string) http.HandlerFunc { return reply(http.StatusOK, body) }

// aServer returns the response for a server, with fields that the client must ignore.
func aServer(id, name, owner, machineUID string) object {
	return object{
		"uuid": id, "name": name, "status": "running", "vnc_password": canary, "mem": 1 << 30,
		"owner": object{"uuid": owner, "email": canary + "@example.com", "resource_uri": "/api/2.0/user/" + owner + "/"},
		"meta":  object{"machine-uid": machineUID, "description": canary},
	}
}

// theServer returns the claimed server.
func theServer(owner string) http.HandlerFunc {
	return ok(inJSON(aServer(serverID, machineName, owner, machineUID)))
}

// aPage returns the response of a list request.
func aPage(total int, servers ...object) http.HandlerFunc {
	return ok(inJSON(object{"meta": object{"limit": 100, "offset": 0, "total_count": total}, "objects": append([]object{}, servers...)}))
}

func aProfile(id, email string) http.HandlerFunc {
	return ok(inJSON(object{"uuid": id, "email": email, "first_name": canary}))
}

func theProfile() http.HandlerFunc { return aProfile(userID, userEmail) }

// forbidden denies a user access to the server.
func forbidden(user string) http.HandlerFunc {
	return reply(http.StatusForbidden, `[{"error_type":"permission","error_message":"User `+user+
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

// offline returns a cloud whose responses come from functions, without network connections. Stop it at the end.
func offline(t *testing.T, a answers) *cloudsigma.Cloud {
	t.Helper()
	return cloudsigma.NewWith(cloudsigma.Options{Tokens: &fakeTokens{}, API: "https://cloud.example/api/{region}/"}, cloudhttptest.Offline(t, a))
}

// hang blocks until the client closes the connection.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
