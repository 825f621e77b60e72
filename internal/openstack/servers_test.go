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
	for name, tc := range map[string]struct {
		answers      answers
		claim        ownership.Claim
		want         ownership.Answer
		wantRequests []string
	}{
		"a server of the project": {
			answers:      answers{getServer: oneServer(serverID, "any", projectID)},
			claim:        claim(),
			want:         ownership.Answer{Verdict: ownership.Owned, UserID: projectID, CreatorID: userID, Response: "200", RequestID: "req-200"},
			wantRequests: []string{authenticate, getServer},
		},
		"the same, in upper case": {
			answers:      answers{getServer: oneServer(strings.ToUpper(serverID), "any", projectID)},
			claim:        claim(func(c *ownership.Claim) { c.ID = strings.ToUpper(serverID) }),
			want:         ownership.Answer{Verdict: ownership.Owned, UserID: projectID, CreatorID: userID, Response: "200", RequestID: "req-200"},
			wantRequests: []string{authenticate, getServer},
		},
		"a server of another project, read by an administrator": {
			answers: answers{
				getServer:     oneServer(serverID, machineName, strangerID),
				getCandidates: aList(own, aServer(serverID, machineName, strangerID), aServer(serverID, machineName+"x", projectID)),
			},
			claim: claim(),
			want: ownership.Answer{
				Verdict: ownership.Foreign, UserID: projectID, CreatorID: userID, Response: "200, owned by another project", RequestID: "req-200",
				Candidates: []ownership.Instance{candidate},
			},
			wantRequests: []string{authenticate, getServer, getCandidates},
		},
		"no server, and another one with the name": {
			answers: answers{getServer: notFound(), getCandidates: aList(own)},
			claim:   claim(),
			want: ownership.Answer{
				Verdict: ownership.Absent, UserID: projectID, Response: "404 itemNotFound", RequestID: "req-404",
				Candidates: []ownership.Instance{candidate},
			},
			wantRequests: []string{authenticate, getServer, getCandidates},
		},
		"no server, and the list fails": {
			answers:      answers{getServer: notFound(), getCandidates: reply(http.StatusInternalServerError, canary)},
			claim:        claim(),
			want:         ownership.Answer{Verdict: ownership.Absent, UserID: projectID, Response: "404 itemNotFound", RequestID: "req-404"},
			wantRequests: []string{authenticate, getServer, getCandidates},
		},
		"no server, and the machine has no name": {
			answers:      answers{getServer: notFound()},
			claim:        claim(func(c *ownership.Claim) { c.Name = "" }),
			want:         ownership.Answer{Verdict: ownership.Absent, UserID: projectID, Response: "404 itemNotFound", RequestID: "req-404"},
			wantRequests: []string{authenticate, getServer},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t, tc.answers)
			got, err := api.cloud(api.secret()).Ask(t.Context(), tc.claim)
			if err != nil {
				t.Fatalf("Ask() error = %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Ask() (-want +got):\n%s", diff)
			}
			if strings.Contains(fmt.Sprintf("%+v", got), canary) {
				t.Errorf("Ask() = %+v, which contains data that must not be returned", got)
			}
			api.expect(tc.wantRequests...)
		})
	}
}

func TestNoVerdict(t *testing.T) {
	const noAccess = `Nova does not permit user "alice" to read servers of project "` + projectID + `" (403, request req-403); grant it a role that may, such as reader or member`
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   failure
	}{
		"429": {
			answer: failed(http.StatusTooManyRequests, "overLimit", "Retry-After", "3"),
			want: failure{
				Cause: ownership.CauseRateLimited, RequestID: "req-429", RetryAfter: 3 * time.Second,
				Text: "RateLimited: server request: the answer was 429 overLimit",
			},
		},
		"500": {
			answer: failed(http.StatusInternalServerError, "computeFault"),
			want:   failure{Cause: ownership.CauseCloud, RequestID: "req-500", Text: "CloudUnavailable: server request: the answer was 500 computeFault"},
		},
		"300, as where the catalog lacks the version": {
			answer: reply(http.StatusMultipleChoices, `{"choices":["canary"]}`),
			want:   failure{Cause: ownership.CauseCloud, RequestID: "req-300", Text: "CloudUnavailable: server request: the answer was 300 unspecified"},
		},
		"403": {
			answer: failed(http.StatusForbidden, "forbidden"),
			want:   failure{Reason: openstack.IdentityDenied, Text: where + noAccess},
		},
		"403 of a proxy": {
			answer: reply(http.StatusForbidden, canary),
			want:   failure{Cause: ownership.CauseCloud, RequestID: "req-403", Text: "CloudUnavailable: server request: the answer was 403 unspecified"},
		},
		"404 of a proxy": {
			answer: reply(http.StatusNotFound, `{"itemNotFound":{"code":200},"canary":{}}`),
			want:   failure{Cause: ownership.CauseCloud, RequestID: "req-404", Text: "CloudUnavailable: server request: the answer was 404 unspecified"},
		},
		"not JSON": {
			answer: reply(http.StatusOK, canary),
			want:   failure{Cause: ownership.CauseCloud, RequestID: "req-200", Text: "CloudUnavailable: server request: the response cannot be parsed"},
		},
		"JSON of another shape": {
			answer: reply(http.StatusOK, `{"server":{"id":["canary"]}}`),
			want:   failure{Cause: ownership.CauseCloud, RequestID: "req-200", Text: "CloudUnavailable: server request: the response cannot be parsed"},
		},
		"null": {
			answer: reply(http.StatusOK, "null"),
			want:   failure{Cause: ownership.CauseCloud, RequestID: "req-200", Text: "CloudUnavailable: server request: the answer is about another server"},
		},
		"another server": {
			answer: oneServer(otherID, canary, projectID),
			want:   failure{Cause: ownership.CauseCloud, RequestID: "req-200", Text: "CloudUnavailable: server request: the answer is about another server"},
		},
		"a server of no project": {
			answer: oneServer(serverID, canary, ""),
			want:   failure{Cause: ownership.CauseCloud, RequestID: "req-200", Text: "CloudUnavailable: server request: the answer names no project"},
		},
		"a large response": {
			answer: reply(http.StatusOK, `{"server":"`+strings.Repeat("x", 1<<20)+`"}`),
			want:   failure{Cause: ownership.CauseCloud, Text: "CloudUnavailable: server request: the answer is larger than 1048576 bytes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t, answers{getServer: tc.answer})
			_, err := api.cloud(api.secret()).Ask(t.Context(), claim())
			expectFailure(t, err, tc.want)
			api.expect(authenticate, getServer)
		})
	}
}

func TestTokenThatNovaRejects(t *testing.T) {
	rejected := failed(http.StatusUnauthorized, "error")
	t.Run("is dropped", func(t *testing.T) {
		api := newAPI(t, answers{getServer: cloudhttptest.InTurn(rejected, oneServer(serverID, machineName, projectID))})
		cloud := api.cloud(api.secret())
		mustToken(t, cloud)
		for range 2 {
			if answer, err := cloud.Ask(t.Context(), claim()); err != nil || answer.Verdict != ownership.Owned {
				t.Errorf("Ask() = %+v, %v, want Owned", answer, err)
			}
		}
		if diff := cmp.Diff([]string{"canary-token-1", "canary-token-2", "canary-token-2"}, api.shown()); diff != "" {
			t.Errorf("tokens (-want +got):\n%s", diff)
		}
		api.expect(authenticate, getServer, authenticate, getServer, getServer)
	})
	t.Run("again is given up", func(t *testing.T) {
		api := newAPI(t, answers{getServer: rejected})
		_, err := api.cloud(api.secret()).Ask(t.Context(), claim())
		expectFailure(t, err, failure{Cause: ownership.CauseCloud, RequestID: "req-401", Text: "CloudUnavailable: server request: the answer was 401 error"})
		api.expect(authenticate, getServer, authenticate, getServer)
	})
	t.Run("because the credentials are no longer good", func(t *testing.T) {
		api := newAPI(t, answers{authenticate: cloudhttptest.InTurn(aToken(), rejected), getServer: rejected})
		_, err := api.cloud(api.secret()).Ask(t.Context(), claim())
		if got := failureOf(t, err); got.Reason != openstack.IdentityDenied {
			t.Errorf("error = %+v, want that Keystone rejects them", got)
		}
		api.expect(authenticate, getServer, authenticate)
	})
	t.Run("causes one authentication for all its users", func(t *testing.T) {
		const callers = 20
		var before sync.WaitGroup
		before.Add(callers)
		api := newAPI(t, nil)
		api.set(getServer, func(w http.ResponseWriter, r *http.Request) {
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
			all.Go(func() {
				if answer, err := cloud.Ask(t.Context(), claim()); err != nil || answer.Verdict != ownership.Owned {
					t.Errorf("Ask() = %+v, %v, want Owned", answer, err)
				}
			})
		}
		all.Wait()
		if got := len(api.authentications()); got != 2 {
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
			api.expect(authenticate)
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
		"another interface":          {entry: func(entry, _ object) { entry["interface"] = "internal" }, requested: getInner},
		"another interface, in the other spelling": {
			entry: func(entry, _ object) { entry["endpoint_type"], entry["interface"] = "internalURL", "public" }, requested: getInner,
		},
		"no such region": {region: "zrh", want: failure{Reason: "RegionError", Text: `region "zrh" is none of those configured (RegionOne)`}},
		"a region of another service": {
			region: "Elsewhere", want: failure{Reason: "RegionError", Text: `region "Elsewhere" is none of those configured (RegionOne)`},
		},
		"several, and none named": {
			catalog: several, want: failure{Reason: "RegionError", Text: `region "" is none of those configured (Broken, Old, RegionOne, RegionTwo)`},
		},
		"no such interface": {
			entry: func(entry, _ object) { entry["interface"] = "admin" },
			want: failure{
				Cause: ownership.CauseCloud, RequestID: "req-201", Text: "CloudUnavailable: the catalog of Keystone has no admin endpoint of Nova",
			},
		},
		"no URL": {
			region: "Broken", catalog: several,
			want: failure{
				Cause: ownership.CauseCloud, RequestID: "req-201",
				Text: `CloudUnavailable: the catalog of Keystone has no URL for the public endpoint of Nova in region "Broken"`,
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
				api.set(tc.requested, owned)
				requested = append(requested, tc.requested)
			}
			answer, err := api.cloud(secrets).Ask(t.Context(), claim(func(c *ownership.Claim) { c.Region = tc.region }))
			api.expect(requested...)
			if tc.want != (failure{}) {
				expectFailure(t, err, tc.want)
				return
			}
			if err != nil || answer.Verdict != ownership.Owned {
				t.Errorf("Ask() = %+v, %v, want Owned", answer, err)
			}
		})
	}
}

func TestInvalidID(t *testing.T) {
	api := newAPI(t, nil)
	if _, err := api.cloud(api.secret()).Ask(t.Context(), claim(func(c *ownership.Claim) { c.ID = "../flavors" })); err == nil {
		t.Error("Ask() error = nil, want one")
	}
	api.expect()
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
		answers      answers
		want         []ownership.Instance
		wantErr      failure
		wantRequests int
	}{
		"none":             {answers: answers{getPage1: aList()}, wantRequests: 1},
		"one page, sorted": {answers: answers{getPage1: aList(unsorted...)}, want: want2, wantRequests: 1},
		"two pages": {
			answers: answers{getPage1: aPage(first...), pageAfter(100): aList(second...)}, want: want150, wantRequests: 2,
		},
		"a full page without a link": {
			answers: answers{getPage1: aList(first...), pageAfter(100): aList()}, want: want100, wantRequests: 2,
		},
		"pages that are smaller than requested": {
			answers: answers{getPage1: aPage(unsorted[0]), pageAfter(2): aPage(unsorted[1]), pageAfter(1): aList()}, want: want2, wantRequests: 3,
		},
		"servers of other projects": {
			answers: answers{getPage1: aList(aServer(serverID, "shared", strangerID), aServer(otherID, machineName, projectID))},
			want:    []ownership.Instance{{ID: otherID, Name: machineName}}, wantRequests: 1,
		},
		"401 once": {
			answers: answers{getPage1: cloudhttptest.InTurn(failed(http.StatusUnauthorized, "error"), aList())}, wantRequests: 2,
		},
		"a page that fails": {
			answers:      answers{getPage1: aPage(first...), pageAfter(100): failed(http.StatusBadGateway, "computeFault")},
			wantErr:      failure{Cause: ownership.CauseCloud, RequestID: "req-502", Text: "CloudUnavailable: list request: the answer was 502 computeFault"},
			wantRequests: 2,
		},
		"403": {
			answers: answers{getPage1: failed(http.StatusForbidden, "forbidden")},
			wantErr: failure{
				Reason: openstack.IdentityDenied,
				Text:   where + `Nova does not permit user "alice" to read servers of project "` + projectID + `" (403, request req-403); grant it a role that may, such as reader or member`,
			},
			wantRequests: 1,
		},
		"no list": {
			answers:      answers{getPage1: reply(http.StatusOK, `{}`)},
			wantErr:      failure{Cause: ownership.CauseCloud, RequestID: "req-200", Text: "CloudUnavailable: list request: the answer has no list"},
			wantRequests: 1,
		},
		"a server without a UUID": {
			answers:      answers{getPage1: aList(object{"name": canary})},
			wantErr:      failure{Cause: ownership.CauseCloud, RequestID: "req-200", Text: "CloudUnavailable: list request: a server has no UUID"},
			wantRequests: 1,
		},
		"the same page again and again": {
			answers: answers{getPage1: aPage(first...), pageAfter(100): aPage(first...)},
			wantErr: failure{
				Cause: ownership.CauseCloud, RequestID: "req-200", Text: "CloudUnavailable: list request: the list does not end: 100 servers after 2 pages",
			},
			wantRequests: 2,
		},
		"a large page": {
			answers:      answers{getPage1: reply(http.StatusOK, `{"servers":"`+strings.Repeat("x", 8<<20)+`"}`)},
			wantErr:      failure{Cause: ownership.CauseCloud, Text: "CloudUnavailable: list request: the answer is larger than 8388608 bytes"},
			wantRequests: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t, tc.answers)
			got, requests, err := api.cloud(api.secret()).Instances(t.Context(), account())
			if requests != tc.wantRequests {
				t.Errorf("Instances() requests = %d, want %d", requests, tc.wantRequests)
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
		Cause: ownership.CauseCloud, RequestID: "req-200", Text: "CloudUnavailable: list request: the list does not end: 100 servers after 100 pages",
	})
	if requests != most {
		t.Errorf("Instances() requests = %d, want %d", requests, most)
	}
}
