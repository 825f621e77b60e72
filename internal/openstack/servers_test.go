package openstack_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/cloudhttp/cloudhttptest"
	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
)

func oneServer(id, name, project string) http.HandlerFunc {
	return reply(http.StatusOK, inJSON(object{"server": aServer(id, name, project)}))
}

func aList(servers ...object) http.HandlerFunc {
	return reply(http.StatusOK, inJSON(object{"servers": append([]object{}, servers...)}))
}

// aPage is a page of a list with a next page.
func aPage(servers ...object) http.HandlerFunc {
	return reply(http.StatusOK, inJSON(object{
		"servers": append([]object{}, servers...), "servers_links": []object{{"rel": "next", "href": "https://canary.example/"}},
	}))
}

func notFound() http.HandlerFunc { return failed(http.StatusNotFound, "itemNotFound") }

func TestVerdicts(t *testing.T) {
	candidate := ownership.Instance{ID: otherID, Name: machineName}
	own := aServer(otherID, machineName, projectID)
	found := func(verdict ownership.Verdict, response string, candidates ...ownership.Instance) ownership.Answer {
		return ownership.Answer{Verdict: verdict, UserID: projectID, CreatorID: userID, Response: response, RequestID: "req-200", Candidates: candidates}
	}
	absent := func(candidates ...ownership.Instance) ownership.Answer {
		return ownership.Answer{Verdict: ownership.Absent, UserID: projectID, Response: "404 itemNotFound", RequestID: "req-404", Candidates: candidates}
	}
	for name, tc := range map[string]struct {
		server, list http.HandlerFunc // no list is requested if nil
		claim        func(*ownership.Claim)
		want         ownership.Answer
	}{
		"a server of the project": {server: oneServer(serverID, "any", projectID), want: found(ownership.Owned, "200")},
		"the same, in upper case": {
			server: oneServer(strings.ToUpper(serverID), "any", projectID),
			claim:  func(c *ownership.Claim) { c.ID = strings.ToUpper(serverID) },
			want:   found(ownership.Owned, "200"),
		},
		"a server of another project, read by an administrator": {
			server: oneServer(serverID, machineName, strangerID),
			list:   aList(own, aServer(serverID, machineName, strangerID), aServer(serverID, machineName+"x", projectID)),
			want:   found(ownership.Foreign, "200, owned by another project", candidate),
		},
		"no server, and another one with the name": {server: notFound(), list: aList(own), want: absent(candidate)},
		"no server, and the list fails":            {server: notFound(), list: reply(http.StatusInternalServerError, canary), want: absent()},
		"no server, and the machine has no name":   {server: notFound(), claim: func(c *ownership.Claim) { c.Name = "" }, want: absent()},
	} {
		t.Run(name, func(t *testing.T) {
			given, requests := answers{getServer: tc.server}, []string{authenticate, getServer}
			if tc.list != nil {
				given[getCandidates], requests = tc.list, append(requests, getCandidates)
			}
			claimed := claim()
			if tc.claim != nil {
				tc.claim(&claimed)
			}
			api := newAPI(t, given)
			got, err := api.cloud(api.secret()).Ask(t.Context(), claimed)
			if err != nil {
				t.Fatalf("Ask() error = %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Ask() (-want +got):\n%s", diff)
			}
			api.Expect(requests...)
		})
	}
}

// noAccess is the error if Nova denies the user to read servers.
var noAccess = failure{
	Reason: openstack.IdentityDenied,
	Text: where + `Nova does not permit user "alice" to read servers of project "` + projectID +
		`" (403, request req-403); grant it a role that may, such as reader or member`,
}

func TestNoVerdict(t *testing.T) {
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   failure
	}{
		"429": {
			answer: failed(http.StatusTooManyRequests, "overLimit", "Retry-After", "3"),
			want:   failure{RequestID: "req-429", RetryAfter: 3 * time.Second, Text: "RateLimited: server request: the answer was 429 overLimit"},
		},
		"500": {
			answer: failed(http.StatusInternalServerError, "computeFault"),
			want:   failure{RequestID: "req-500", Text: "CloudUnavailable: server request: the answer was 500 computeFault"},
		},
		"300, as where the catalog lacks the version": {
			answer: reply(http.StatusMultipleChoices, `{"choices":["canary"]}`),
			want:   failure{RequestID: "req-300", Text: "CloudUnavailable: server request: the answer was 300 unspecified"},
		},
		"403": {answer: failed(http.StatusForbidden, "forbidden"), want: noAccess},
		"403 of a proxy": {
			answer: reply(http.StatusForbidden, canary),
			want:   failure{RequestID: "req-403", Text: "CloudUnavailable: server request: the answer was 403 unspecified"},
		},
		"404 of a proxy": {
			answer: reply(http.StatusNotFound, `{"itemNotFound":{"code":200},"canary":{}}`),
			want:   failure{RequestID: "req-404", Text: "CloudUnavailable: server request: the answer was 404 unspecified"},
		},
		"not JSON": {
			answer: reply(http.StatusOK, canary),
			want:   failure{RequestID: "req-200", Text: "CloudUnavailable: server request: the response cannot be parsed"},
		},
		"JSON of another shape": {
			answer: reply(http.StatusOK, `{"server":{"id":["canary"]}}`),
			want:   failure{RequestID: "req-200", Text: "CloudUnavailable: server request: the response cannot be parsed"},
		},
		"null": {
			answer: reply(http.StatusOK, "null"),
			want:   failure{RequestID: "req-200", Text: "CloudUnavailable: server request: the answer is about another server"},
		},
		"another server": {
			answer: oneServer(otherID, canary, projectID),
			want:   failure{RequestID: "req-200", Text: "CloudUnavailable: server request: the answer is about another server"},
		},
		"a server of no project": {
			answer: oneServer(serverID, canary, ""),
			want:   failure{RequestID: "req-200", Text: "CloudUnavailable: server request: the answer names no project"},
		},
		"a large response": {
			answer: reply(http.StatusOK, `{"server":"`+strings.Repeat("x", 1<<20)+`"}`),
			want:   failure{Text: "CloudUnavailable: server request: the answer is larger than 1048576 bytes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t, answers{getServer: tc.answer})
			_, err := api.cloud(api.secret()).Ask(t.Context(), claim())
			expectFailure(t, err, tc.want)
			api.Expect(authenticate, getServer)
		})
	}
}

func TestTokenThatNovaRejects(t *testing.T) {
	rejected := failed(http.StatusUnauthorized, "error")
	t.Run("is dropped", func(t *testing.T) {
		api := newAPI(t, answers{getServer: cloudhttptest.InTurn(rejected, oneServer(serverID, machineName, projectID))})
		cloud := api.cloud(api.secret())
		mustToken(t, cloud)
		expectOwned(t, cloud)
		expectOwned(t, cloud)
		var sent []string
		for _, request := range api.Requests() {
			if request.Name == getServer {
				sent = append(sent, request.Header.Get("X-Auth-Token"))
			}
		}
		if diff := cmp.Diff([]string{"canary-token-1", "canary-token-2", "canary-token-2"}, sent); diff != "" {
			t.Errorf("tokens (-want +got):\n%s", diff)
		}
		api.Expect(authenticate, getServer, authenticate, getServer, getServer)
	})
	t.Run("again is given up", func(t *testing.T) {
		api := newAPI(t, answers{getServer: rejected})
		_, err := api.cloud(api.secret()).Ask(t.Context(), claim())
		expectFailure(t, err, failure{RequestID: "req-401", Text: "CloudUnavailable: server request: the answer was 401 error"})
		api.Expect(authenticate, getServer, authenticate, getServer)
	})
	t.Run("because the credentials are no longer good", func(t *testing.T) {
		api := newAPI(t, answers{authenticate: cloudhttptest.InTurn(aToken(), rejected), getServer: rejected})
		_, err := api.cloud(api.secret()).Ask(t.Context(), claim())
		if got := failureOf(t, err); got.Reason != openstack.IdentityDenied {
			t.Errorf("error = %+v, want that Keystone rejects them", got)
		}
		api.Expect(authenticate, getServer, authenticate)
	})
	t.Run("causes one authentication for all its users", func(t *testing.T) {
		const callers = 20
		var before sync.WaitGroup
		before.Add(callers)
		api := newAPI(t, nil)
		api.Set(getServer, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Auth-Token") == "canary-token-1" {
				before.Done()
				before.Wait()
				rejected(w, r)
				return
			}
			oneServer(serverID, machineName, projectID)(w, r)
		})
		cloud := api.cloud(api.secret())
		var all sync.WaitGroup
		for range callers {
			all.Go(func() { expectOwned(t, cloud) })
		}
		all.Wait()
		if got := api.Count(authenticate); got != 2 {
			t.Errorf("%d authentications, want 2", got)
		}
	})
}

func TestCredentialsWithoutAProject(t *testing.T) {
	const remedy = "; name the project in clouds.yaml, or use an application credential of it"
	for name, tc := range map[string]struct {
		instead map[string]any
		want    failure
	}{
		"a domain": {
			object{"domain": object{"id": "d1", "name": "Tenants"}},
			failure{Reason: openstack.IdentityDomainScoped, Text: where + `the credentials are for the domain "Tenants", and servers belong to projects` + remedy},
		},
		"the system": {
			object{"system": object{"all": true}},
			failure{Reason: openstack.IdentitySystemScoped, Text: where + "the credentials are for the system as a whole, and servers belong to projects" + remedy},
		},
		"nothing": {nil, failure{Reason: openstack.IdentityUnscoped, Text: where + "the credentials are for no project" + remedy}},
	} {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t, answers{authenticate: aToken(func(token object) {
				delete(token, "project")
				for field, value := range tc.instead {
					token[field] = value
				}
			})})
			_, err := api.cloud(api.secret()).Ask(t.Context(), claim())
			expectFailure(t, err, tc.want)
			api.Expect(authenticate)
		})
	}
}

func TestEndpointOfNova(t *testing.T) {
	const getInner, getSecond = "GET /internal/v2.1/servers/" + serverID, "GET /second/servers/" + serverID
	owned := oneServer(serverID, machineName, projectID)
	several := func(token object) {
		var at struct {
			Catalog []struct{ Endpoints []struct{ URL string } }
		}
		if err := json.Unmarshal([]byte(inJSON(token)), &at); err != nil {
			t.Error(err)
		}
		first := at.Catalog[1].Endpoints[1].URL
		public := func(name, url string) object {
			return object{"interface": "public", "region": name, "region_id": name, "url": url}
		}
		second := strings.Replace(first, "/compute/v2.1", "/second/", 1)
		old := public("", second)
		old["region"] = "Old"
		token["catalog"] = []object{{"type": "compute", "endpoints": []object{
			public(region, first), public("RegionTwo", second), public("Broken", "canary://u:p@x"), old,
		}}}
	}
	for name, tc := range map[string]struct {
		entry     func(entry, auth object)
		region    string
		catalog   func(object)
		requested string
		want      failure
	}{
		"the only region":           {requested: getServer},
		"the region of the cluster": {region: "RegionTwo", catalog: several, requested: getSecond},
		"the region of the entry":   {entry: func(entry, _ object) { entry["region_name"] = "RegionTwo" }, catalog: several, requested: getSecond},
		"regions of the cluster and the entry": {
			region: region, entry: func(entry, _ object) { entry["region_name"] = "RegionTwo" }, catalog: several, requested: getServer,
		},
		"a region of an old catalog": {region: "Old", catalog: several, requested: getSecond},
		"another interface":          {entry: func(entry, _ object) { entry["endpoint_type"] = "internal" }, requested: getInner},
		"another interface, in the other spelling": {
			entry: func(entry, _ object) { entry["endpoint_type"] = "internalURL" }, requested: getInner,
		},
		"another interface, in a field that the provider does not read": {
			entry: func(entry, _ object) { entry["interface"] = "admin" }, requested: getServer,
		},
		"no such region": {region: "zrh", want: failure{Reason: "RegionError", Text: `region "zrh" is none of those configured (RegionOne)`}},
		"a region of another service": {
			region: "Elsewhere", want: failure{Reason: "RegionError", Text: `region "Elsewhere" is none of those configured (RegionOne)`},
		},
		"several, and none named": {
			catalog: several, want: failure{Reason: "RegionError", Text: `region "" is none of those configured (Broken, Old, RegionOne, RegionTwo)`},
		},
		"no such interface": {
			entry: func(entry, _ object) { entry["endpoint_type"] = "admin" },
			want: failure{
				Reason: openstack.IdentityMalformed,
				Text:   where + "the catalog of Keystone has no admin endpoint of Nova; set endpoint_type in clouds.yaml to internal or public",
			},
		},
		"no Nova": {
			catalog: with("catalog", []object{}),
			want:    failure{RequestID: "req-201", Text: "CloudUnavailable: the catalog of Keystone has no endpoint of Nova"},
		},
		"no URL": {
			region: "Broken", catalog: several,
			want: failure{
				RequestID: "req-201",
				Text:      `CloudUnavailable: the catalog of Keystone has no URL for the public endpoint of Nova in region "Broken"`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var modify []func(object)
			if tc.catalog != nil {
				modify = append(modify, tc.catalog)
			}
			api := newAPI(t, answers{authenticate: aToken(modify...)})
			secrets := api.secret()
			if tc.entry != nil {
				secrets = secretOf(passwordAuth(api.authURL(), tc.entry))
			}
			requested := []string{authenticate}
			if tc.requested != "" {
				api.Set(tc.requested, owned)
				requested = append(requested, tc.requested)
			}
			cloud, claimed := api.cloud(secrets), claim(func(c *ownership.Claim) { c.Region = tc.region })
			answer, err := cloud.Ask(t.Context(), claimed)
			at, apiErr := cloud.API(t.Context(), claimed.Account)
			api.Expect(requested...)
			if tc.want != (failure{}) {
				expectFailure(t, err, tc.want)
				expectFailure(t, apiErr, tc.want)
				return
			}
			if err != nil || answer.Verdict != ownership.Owned {
				t.Errorf("Ask() = %+v, %v, want Owned", answer, err)
			}
			if "GET "+at+"servers/"+serverID != strings.Replace(tc.requested, "GET ", "GET "+api.Server.URL, 1) || apiErr != nil {
				t.Errorf("API() = %q, %v, want that of %s", at, apiErr, tc.requested)
			}
		})
	}
}

func TestInvalidID(t *testing.T) {
	api := newAPI(t, nil)
	if _, err := api.cloud(api.secret()).Ask(t.Context(), claim(func(c *ownership.Claim) { c.ID = "../flavors" })); err == nil {
		t.Error("Ask() error = nil, want one")
	}
	api.Expect()
}

// numbered returns the servers of the project from first to last, and the expected instances.
func numbered(first, last int) (servers []object, want []ownership.Instance) {
	for n := first; n <= last; n++ {
		instance := ownership.Instance{ID: numberedID(n), Name: fmt.Sprintf("server-%05d", n)}
		servers = append(servers, aServer(instance.ID, instance.Name, projectID))
		want = append(want, instance)
	}
	return servers, want
}

func numberedID(n int) string { return fmt.Sprintf("5d0c3e1f-9a47-4b6e-8f21-%012d", n) }

func pageAfter(n int) string { return getPage1 + "&marker=" + numberedID(n) }

func TestInstances(t *testing.T) {
	first, want100 := numbered(1, 100)
	second, _ := numbered(101, 150)
	_, want150 := numbered(1, 150)
	unsorted, want2 := numbered(1, 2)
	unsorted[0], unsorted[1] = unsorted[1], unsorted[0]
	for name, tc := range map[string]struct {
		pages   answers // all of them are requested
		retries int
		want    []ownership.Instance
		wantErr failure
	}{
		"none":                                  {pages: answers{getPage1: aList()}},
		"one page, sorted":                      {pages: answers{getPage1: aList(unsorted...)}, want: want2},
		"two pages":                             {pages: answers{getPage1: aPage(first...), pageAfter(100): aList(second...)}, want: want150},
		"a full page without a link":            {pages: answers{getPage1: aList(first...), pageAfter(100): aList()}, want: want100},
		"pages that are smaller than requested": {pages: answers{getPage1: aPage(unsorted[0]), pageAfter(2): aPage(unsorted[1]), pageAfter(1): aList()}, want: want2},
		"servers of other projects": {
			pages: answers{getPage1: aList(aServer(serverID, "shared", strangerID), aServer(otherID, machineName, projectID))},
			want:  []ownership.Instance{{ID: otherID, Name: machineName}},
		},
		"401 once": {pages: answers{getPage1: cloudhttptest.InTurn(failed(http.StatusUnauthorized, "error"), aList())}, retries: 1},
		"a page that fails": {
			pages:   answers{getPage1: aPage(first...), pageAfter(100): failed(http.StatusBadGateway, "computeFault")},
			wantErr: failure{RequestID: "req-502", Text: "CloudUnavailable: list request: the answer was 502 computeFault"},
		},
		"403": {pages: answers{getPage1: failed(http.StatusForbidden, "forbidden")}, wantErr: noAccess},
		"no list": {
			pages:   answers{getPage1: reply(http.StatusOK, `{}`)},
			wantErr: failure{RequestID: "req-200", Text: "CloudUnavailable: list request: the answer has no list"},
		},
		"a server without a UUID": {
			pages:   answers{getPage1: aList(object{"name": canary})},
			wantErr: failure{RequestID: "req-200", Text: "CloudUnavailable: list request: a server has no UUID"},
		},
		"the same page again and again": {
			pages:   answers{getPage1: aPage(first...), pageAfter(100): aPage(first...)},
			wantErr: failure{RequestID: "req-200", Text: "CloudUnavailable: list request: the list does not end: 100 servers after 2 pages"},
		},
		"a large page": {
			pages:   answers{getPage1: reply(http.StatusOK, `{"servers":"`+strings.Repeat("x", 8<<20)+`"}`)},
			wantErr: failure{Text: "CloudUnavailable: list request: the answer is larger than 8388608 bytes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t, tc.pages)
			got, requests, err := api.cloud(api.secret()).Instances(t.Context(), account())
			if want := len(tc.pages) + tc.retries; requests != want {
				t.Errorf("Instances() requests = %d, want %d", requests, want)
			}
			if tc.wantErr != (failure{}) {
				expectFailure(t, err, tc.wantErr)
				return
			}
			if err != nil {
				t.Fatalf("Instances() error = %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Instances() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEndlessList(t *testing.T) {
	const most = 100
	endless := answers{}
	for n := range most {
		servers, _ := numbered(n+1, n+1)
		request := getPage1
		if n > 0 {
			request = pageAfter(n)
		}
		endless[request] = aPage(servers...)
	}
	api := newAPI(t, endless)
	_, requests, err := api.cloud(api.secret()).Instances(t.Context(), account())
	expectFailure(t, err, failure{
		RequestID: "req-200", Text: "CloudUnavailable: list request: the list does not end: 100 servers after 100 pages",
	})
	if requests != most {
		t.Errorf("Instances() requests = %d, want %d", requests, most)
	}
}
