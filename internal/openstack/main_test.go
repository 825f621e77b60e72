package openstack_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"warrantgate.dev/internal/cloudhttp/cloudhttptest"
	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// Identities of all tests.
const (
	userID      = "2f6b80d31c4e4d7ab5f93a8e6c0d7b12"
	projectID   = "0f9d5f5e8c0d4b7e9d375b0a3c1e2d11"
	strangerID  = "9e107d9d372bb6826bd81d3542a419d6"
	machineName = "worker-pool-1.hl9tl"
	serverID    = "b1f2a9c4-7d3e-4a58-9c06-2e5d8f7a1b34"
	otherID     = "5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b"
	region      = "RegionOne"
)

// Requests, in the notation of the tests.
const (
	authenticate  = "POST /identity/v3/auth/tokens"
	getServer     = "GET /compute/v2.1/servers/" + serverID
	getCandidates = `GET /compute/v2.1/servers/detail?limit=100&name=%5Eworker-pool-1%5C.hl9tl%24`
	getPage1      = "GET /compute/v2.1/servers/detail?limit=100"
)

const canary = cloudhttptest.Canary

var identity = ownership.Identity{Namespace: "team-a", Secret: "cloud-config", Entry: "openstack"}

func account() ownership.Account {
	return ownership.Account{Cloud: "openstack", Identity: identity}
}

func claim(modify ...func(*ownership.Claim)) ownership.Claim {
	c := ownership.Claim{Account: account(), ID: serverID, Name: machineName, MachineUID: "a7d7c1f2-33a4-4b5c-8d6e-7f8091a2b3c4"}
	for _, m := range modify {
		m(&c)
	}
	return c
}

type (
	object  = cloudhttptest.Object
	answers = cloudhttptest.Answers
	failure = cloudhttptest.Failure
)

var (
	inJSON        = cloudhttptest.JSON
	failureOf     = cloudhttptest.FailureOf
	expectFailure = cloudhttptest.ExpectFailure
)

// fakeAPI is a Keystone and a Nova.
type fakeAPI struct {
	*cloudhttptest.API
	t *testing.T
}

// newAPI starts a server that returns tokens, unless answers contains another response.
func newAPI(t *testing.T, a answers) fakeAPI {
	t.Helper()
	all := answers{authenticate: aToken()}
	maps.Copy(all, a)
	api := fakeAPI{API: cloudhttptest.Serve(t, all), t: t}
	api.Check = func(r *http.Request) {
		for _, unwanted := range []string{"Openstack-Api-Version", "X-Openstack-Nova-Api-Version", "Authorization"} {
			if r.Header.Get(unwanted) != "" {
				t.Errorf("%s has the header %s", r.URL, unwanted)
			}
		}
		if (r.Method == http.MethodPost) == (r.Header.Get("X-Auth-Token") != "") {
			t.Errorf("%s: a token was sent to Keystone, or none to Nova", r.URL)
		}
		if !strings.HasPrefix(r.Header.Get("User-Agent"), "warrantgate ") {
			t.Errorf("%s comes from %q", r.URL, r.Header.Get("User-Agent"))
		}
	}
	return api
}

// cloud returns a client of this API with the given Secret.
func (a fakeAPI) cloud(secrets *fakeSecrets) *openstack.Cloud {
	a.t.Helper()
	return newCloud(a.t, openstack.Options{AuthURLs: []string{a.authURL()}, RootCAs: a.Roots(), Secrets: secrets.get})
}

func (a fakeAPI) authURL() string { return a.Server.URL + "/identity/v3" }

func (a fakeAPI) caPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Server.Certificate().Raw})
}

// secret returns a Secret with the password of a user.
func (a fakeAPI) secret() *fakeSecrets { return secretOf(passwordAuth(a.authURL())) }

func newCloud(t *testing.T, options openstack.Options) *openstack.Cloud {
	t.Helper()
	options.UserAgent = "warrantgate"
	cloud, err := openstack.New(options)
	if err != nil {
		t.Fatalf("New() error = %v", err)
	}
	t.Cleanup(cloud.Stop)
	return cloud
}

// passwordAuth returns an entry with the password of a user.
func passwordAuth(authURL string, modify ...func(entry, auth object)) object {
	auth := object{
		"auth_url": authURL, "username": "alice", "password": canary + "-password", "user_domain_name": "Default",
		"project_id": projectID,
	}
	entry := object{"auth": auth}
	for _, m := range modify {
		m(entry, auth)
	}
	return entry
}

// fakeSecrets is one Secret.
type fakeSecrets struct {
	mu   sync.Mutex
	data map[string][]byte
	err  error
}

// secretOf returns a Secret with a clouds.yaml of one entry, in JSON, which is valid YAML.
func secretOf(entry object) *fakeSecrets {
	return &fakeSecrets{data: map[string][]byte{"clouds.yaml": []byte(inJSON(object{"clouds": object{identity.Entry: entry}}))}}
}

func (f *fakeSecrets) set(other *fakeSecrets) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.data, f.err = other.data, other.err
}

func (f *fakeSecrets) get(_ context.Context, namespace, name string) (map[string][]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil && (namespace != identity.Namespace || name != identity.Secret) {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return f.data, f.err
}

// reply returns a handler that sends a status, a body, and headers as pairs. The request ID is "req-" and the status.
func reply(status int, body string, header ...string) http.HandlerFunc {
	return cloudhttptest.Reply(status, body, append([]string{"X-Openstack-Request-Id", fmt.Sprintf("req-%d", status), "Content-Type", "application/json"}, header...)...)
}

// failed returns an error in the format of OpenStack.
func failed(status int, kind string, header ...string) http.HandlerFunc {
	return reply(status, inJSON(object{kind: object{"code": status, "message": canary, "title": canary}}), header...)
}

// theToken returns Keystone's description of a token of the project. at is the URL of Keystone and Nova.
func theToken(at string, modify ...func(token object)) object {
	issued := time.Now().UTC().Truncate(time.Second)
	token := object{
		"methods": []string{"password"}, "issued_at": issued, "expires_at": issued.Add(time.Hour),
		"user":    object{"id": userID, "name": "alice", "domain": object{"id": "default", "name": "Default"}},
		"project": object{"id": projectID, "name": "team-a", "domain": object{"id": "d1", "name": "Tenants"}},
		"roles":   []object{{"id": "r2", "name": "reader"}, {"id": "r1", "name": "member"}, {"id": "r3", "name": "reader"}},
		"catalog": []object{
			{"type": "identity", "endpoints": []object{{"interface": "public", "region": "Elsewhere", "region_id": "Elsewhere", "url": at + "/identity"}}},
			{"type": "compute", "name": "nova", "endpoints": []object{
				{"interface": "internal", "region": "Inner", "region_id": "Inner", "url": at + "/internal/v2.1"},
				{"interface": "public", "region": region, "region_id": region, "url": at + "/compute/v2.1"},
			}},
		},
	}
	for _, m := range modify {
		m(token)
	}
	return token
}

// aToken returns a handler that responds with a different token each time.
func aToken(modify ...func(token object)) http.HandlerFunc {
	var mu sync.Mutex
	n := 0
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n++
		secret := fmt.Sprintf("%s-token-%d", canary, n)
		mu.Unlock()
		at := "https://" + r.Host
		reply(http.StatusCreated, inJSON(object{"token": theToken(at, modify...)}), "X-Subject-Token", secret)(w, r)
	}
}

func with(field string, value any) func(object) { return func(token object) { token[field] = value } }

// expectOwned asks about the claim and expects that the server is the project's.
func expectOwned(t *testing.T, cloud *openstack.Cloud) {
	t.Helper()
	if answer, err := cloud.Ask(t.Context(), claim()); err != nil || answer.Verdict != ownership.Owned {
		t.Errorf("Ask() = %+v, %v, want Owned", answer, err)
	}
}

func aServer(id, name, project string) object {
	return object{"id": id, "name": name, "tenant_id": project, "user_id": userID, "status": "ACTIVE", "adminPass": canary, "created": 7}
}
