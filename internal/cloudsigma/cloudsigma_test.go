package cloudsigma_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/cloudhttp/cloudhttptest"
	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/ownership"
)

// anAnswer returns a verdict about the user.
func anAnswer(verdict ownership.Verdict, response string, candidates ...ownership.Instance) ownership.Answer {
	return ownership.Answer{Verdict: verdict, UserID: userID, Response: response, RequestID: "req-" + response[:3], Candidates: candidates}
}

func TestVerdict(t *testing.T) {
	candidate := ownership.Instance{ID: otherID, Name: machineName, MachineUID: machineUID}
	ownServer := aServer(otherID, machineName, userID, machineUID)
	withoutProfile := anAnswer(ownership.Absent, "404 not found")
	withoutProfile.UserID = ""
	for name, tc := range map[string]struct {
		server, profile, list http.HandlerFunc // no list is requested if nil
		claim                 func(*ownership.Claim)
		want                  ownership.Answer
	}{
		"the user's own server": {
			server: ok(inJSON(aServer(serverID, "any", userID, ""))), profile: theProfile(),
			want: anAnswer(ownership.Owned, "200"),
		},
		"the user's own server, in upper case": {
			server:  ok(inJSON(aServer(strings.ToUpper(serverID), "any", strings.ToUpper(userID), ""))),
			profile: aProfile(userID, strings.ToUpper(userEmail)),
			claim:   func(c *ownership.Claim) { c.ID = strings.ToUpper(serverID) },
			want:    anAnswer(ownership.Owned, "200"),
		},
		"a server of another user, shared with this user": {
			server: theServer(strangerID), profile: theProfile(),
			list: aPage(2, aServer(serverID, machineName, strangerID, machineUID), ownServer),
			want: anAnswer(ownership.Foreign, "200, owned by another user", candidate),
		},
		"the incident: 403, and a server of the same name": {
			server: forbidden(userID), profile: theProfile(), list: aPage(1, ownServer),
			want: anAnswer(ownership.Foreign, "403 permission", candidate),
		},
		"403 with a bare object": {
			server: reply(http.StatusForbidden,
				`{"error_type":"permission","error_message":"User `+userID+` does not have all of the permissions [LIST] canary"}`),
			profile: theProfile(), list: aPage(0),
			want: anAnswer(ownership.Foreign, "403 permission"),
		},
		"403 that names no user: the profile is used": {
			server:  reply(http.StatusForbidden, `[{"error_type":"permission","error_message":"canary"}]`),
			profile: theProfile(), list: aPage(0),
			want: anAnswer(ownership.Foreign, "403 permission"),
		},
		"404, and a server of the same name": {
			server: notFound(), profile: theProfile(), list: aPage(1, ownServer),
			want: anAnswer(ownership.Absent, "404 not found", candidate),
		},
		"404, and a list that fails": {
			server: notFound(), profile: theProfile(), list: reply(http.StatusInternalServerError, canary),
			want: anAnswer(ownership.Absent, "404 not found"),
		},
		"404, and no profile": {server: notFound(), profile: reply(http.StatusBadGateway, canary), want: withoutProfile},
		"404 of a machine without a name": {
			server: notFound(), profile: theProfile(), claim: func(c *ownership.Claim) { c.Name = "" },
			want: anAnswer(ownership.Absent, "404 not found"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			given, requests := answers{getServer: tc.server, getProfile: tc.profile}, []string{getServer, getProfile}
			if tc.list != nil {
				given[getCandidates], requests = tc.list, append(requests, getCandidates)
			}
			claimed := claim()
			if tc.claim != nil {
				tc.claim(&claimed)
			}
			api := cloudhttptest.Serve(t, given)
			got, err := newCloud(t, api, &fakeTokens{}).Ask(t.Context(), claimed)
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

func TestNoVerdict(t *testing.T) {
	const anError = `[{"error_type":"backend","error_message":"canary","error_point":"canary"}]`
	broken := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for name, tc := range map[string]struct {
		server  http.HandlerFunc // the user's own server if nil and there is a profile
		profile http.HandlerFunc
		want    failure
	}{
		"429, for seconds": {
			server: reply(http.StatusTooManyRequests, anError, "Retry-After", "17"),
			want:   failure{RequestID: "req-429", RetryAfter: 17 * time.Second, Text: "RateLimited: server request: the answer was 429 backend"},
		},
		"503, for seconds": {
			server: reply(http.StatusServiceUnavailable, canary, "Retry-After", "3"),
			want:   failure{RequestID: "req-503", RetryAfter: 3 * time.Second, Text: "CloudUnavailable: server request: the answer was 503 unspecified"},
		},
		"500": {
			server: reply(http.StatusInternalServerError, anError),
			want:   failure{RequestID: "req-500", Text: "CloudUnavailable: server request: the answer was 500 backend"},
		},
		"403 for another reason than permissions": {
			server: reply(http.StatusForbidden, `[{"error_type":"billing","error_message":"canary"}]`),
			want:   failure{RequestID: "req-403", Text: "CloudUnavailable: server request: the answer was 403 billing"},
		},
		"403 of a proxy": {
			server: reply(http.StatusForbidden, `<html>canary</html>`),
			want:   failure{RequestID: "req-403", Text: "CloudUnavailable: server request: the answer was 403 unspecified"},
		},
		"404 of a proxy": {
			server: reply(http.StatusNotFound, `<html>canary</html>`),
			want:   failure{RequestID: "req-404", Text: "CloudUnavailable: server request: the answer was 404 unspecified"},
		},
		"401 twice": {
			server: reply(http.StatusUnauthorized, canary),
			want:   failure{RequestID: "req-401", Text: "CredentialsDenied: server request: the answer was 401 unspecified"},
		},
		"not JSON": {
			server: ok(canary),
			want:   failure{RequestID: "req-200", Text: "CloudUnavailable: server request: the response cannot be parsed"},
		},
		"JSON of another type": {
			server: ok(`{"uuid":["canary"]}`),
			want:   failure{RequestID: "req-200", Text: "CloudUnavailable: server request: the response cannot be parsed"},
		},
		"nothing": {
			server: ok(""),
			want:   failure{RequestID: "req-200", Text: "CloudUnavailable: server request: the response cannot be parsed"},
		},
		"null": {
			server: ok("null"),
			want:   failure{RequestID: "req-200", Text: "CloudUnavailable: server request: the answer contains another server"},
		},
		"another server": {
			server: ok(inJSON(aServer(otherID, canary, userID, canary))),
			want:   failure{RequestID: "req-200", Text: "CloudUnavailable: server request: the answer contains another server"},
		},
		"a server without an owner": {
			server: ok(inJSON(object{"uuid": serverID, "owner": nil})),
			want:   failure{RequestID: "req-200", Text: "CloudUnavailable: server request: the answer names no owner"},
		},
		"a profile without a UUID": {
			profile: aProfile(canary, userEmail),
			want:    failure{RequestID: "req-200", Text: "CloudUnavailable: profile request: the answer lacks the UUID or the email"},
		},
		"a profile without an email": {
			profile: aProfile(userID, ""),
			want:    failure{RequestID: "req-200", Text: "CloudUnavailable: profile request: the answer lacks the UUID or the email"},
		},
		"a profile request that fails": {
			profile: reply(http.StatusTooManyRequests, canary, "Retry-After", "1"),
			want:    failure{RequestID: "req-429", RetryAfter: time.Second, Text: "RateLimited: profile request: the answer was 429 unspecified"},
		},
		"a profile request with 500": {
			profile: reply(http.StatusInternalServerError, anError),
			want:    failure{RequestID: "req-500", Text: "CloudUnavailable: profile request: the answer was 500 backend"},
		},
		"a profile request with 403": {
			profile: reply(http.StatusForbidden, anError),
			want:    failure{RequestID: "req-403", Text: "CloudUnavailable: profile request: the answer was 403 backend"},
		},
		"a profile request with 401 twice": {
			profile: reply(http.StatusUnauthorized, canary),
			want:    failure{RequestID: "req-401", Text: "CredentialsDenied: profile request: the answer was 401 unspecified"},
		},
		"a denial without a profile": {
			server: forbidden(userID), profile: reply(http.StatusBadGateway, canary),
			want: failure{RequestID: "req-502", Text: "CloudUnavailable: profile request: the answer was 502 unspecified"},
		},
		"a profile that is not JSON": {
			profile: ok(canary),
			want:    failure{RequestID: "req-200", Text: "CloudUnavailable: profile request: the response cannot be parsed"},
		},
		"a profile request whose connection breaks": {
			profile: broken,
			want:    failure{Text: "CloudUnavailable: profile request: the connection broke before the end of the answer"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			given := answers{getServer: tc.server, getProfile: tc.profile}
			if tc.server == nil {
				given[getServer] = theServer(userID)
			}
			answer, err := ask(t, given, claim())
			expectFailure(t, err, tc.want)
			if diff := cmp.Diff(ownership.Answer{}, answer); diff != "" {
				t.Errorf("Ask() came with an error and (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoToken(t *testing.T) {
	down := &ownership.UnknownError{Cause: ownership.CauseIdentityProvider, RequestID: "idp-1", RetryAfter: time.Minute, Err: errors.New("down")}
	revoked := &ownership.UnknownError{Cause: ownership.CauseNotImpersonable, Err: errors.New("not any more")}
	for name, tc := range map[string]struct {
		user         string
		tokens       *fakeTokens
		want         failure
		wantRequests []string
	}{
		"no user": {tokens: &fakeTokens{}, want: failure{Text: "UserNotImpersonable: the claim names no user to impersonate"}},
		"no token": {
			user: userEmail, tokens: &fakeTokens{err: down},
			want: failure{RequestID: "idp-1", RetryAfter: time.Minute, Text: "IdentityProviderUnavailable: down"},
		},
		"401, and then no token": {
			user: userEmail, tokens: &fakeTokens{err: revoked, errs: 1},
			want: failure{Text: "UserNotImpersonable: not any more"}, wantRequests: []string{getServer},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := cloudhttptest.Serve(t, answers{getServer: reply(http.StatusUnauthorized, canary)})
			answer, err := newCloud(t, api, tc.tokens).Ask(t.Context(), claim(ofUser(tc.user)))
			expectFailure(t, err, tc.want)
			if diff := cmp.Diff(ownership.Answer{}, answer); diff != "" {
				t.Errorf("Ask() came with an error and (-want +got):\n%s", diff)
			}
			api.Expect(tc.wantRequests...)
		})
	}
}

// setAPI is the advice if the API treats a token as another user.
const setAPI = "set cloudSigma.api to the URL at which the token acts as its user"

// An impersonated token acts as another user at a host other than the one that it was issued for. No answer of that host is one about the
// claimed user.
func TestTokenOfAnotherUser(t *testing.T) {
	const accountEmail, accountID, susan = "service-account-partner@example.com", strangerID, "susan@example.com"
	other, byProfile := aProfile(accountID, accountEmail), fmt.Sprintf("%q (%s)", accountEmail, accountID)
	for name, tc := range map[string]struct {
		server, profile http.HandlerFunc
		cached          bool // an earlier lookup was for the user
		user            string
		wantAs          string
		wantRequestID   string
	}{
		"who owns the server":             {server: theServer(accountID), profile: other, wantAs: byProfile, wantRequestID: "req-200"},
		"who sees the server of the user": {server: theServer(userID), profile: other, wantAs: byProfile, wantRequestID: "req-200"},
		"who is denied":                   {server: forbidden(accountID), profile: other, wantAs: byProfile, wantRequestID: "req-200"},
		"who is denied without a name":    {server: forbidden("canary"), profile: other, wantAs: byProfile, wantRequestID: "req-200"},
		"without such a server":           {server: notFound(), profile: other, wantAs: byProfile, wantRequestID: "req-200"},
		"whose name folds to that of the user": {
			server: theServer(userID), profile: aProfile(userID, susan), user: "suſan@example.com", // with the sign for a long s
			wantAs: fmt.Sprintf("%q (%s)", susan, userID), wantRequestID: "req-200",
		},
		"who is denied, while the profile in the cache is the user's": {
			server: forbidden(accountID), cached: true, wantAs: accountID, wantRequestID: "req-403",
		},
	} {
		t.Run(name, func(t *testing.T) {
			claimed := claim()
			if tc.user != "" {
				claimed.User = tc.user
			}
			api := cloudhttptest.Serve(t, answers{getServer: theServer(userID), getProfile: theProfile()})
			cloud := newCloud(t, api, &fakeTokens{})
			if tc.cached {
				expectOwned(t, cloud)
			}
			api.Set(getServer, tc.server)
			api.Set(getProfile, tc.profile)
			answer, err := cloud.Ask(t.Context(), claimed)
			at := api.Server.URL + "/api/next/"
			expectFailure(t, err, failure{
				RequestID: tc.wantRequestID,
				Text:      fmt.Sprintf("WrongUser: the API at %s treats the token of user %q as user %s; %s", at, claimed.User, tc.wantAs, setAPI),
			})
			if diff := cmp.Diff(ownership.Answer{}, answer); diff != "" {
				t.Errorf("Ask() came with an error and (-want +got):\n%s", diff)
			}
			want := "the API at " + at + " treats the token of this user as that of another user; the operator of warrantgate has to " + setAPI
			if u, _ := errors.AsType[*ownership.UnknownError](err); u.Explain() != want {
				t.Errorf("Explain() = %q, want %q, which names no user", u.Explain(), want)
			}
		})
	}
}

func TestListOfAnotherUser(t *testing.T) {
	api := cloudhttptest.Serve(t, answers{getProfile: aProfile(strangerID, "other@example.com")})
	_, _, err := newCloud(t, api, &fakeTokens{}).Instances(t.Context(), account())
	expectFailure(t, err, failure{
		RequestID: "req-200",
		Text: fmt.Sprintf("WrongUser: the API at %s/api/next/ treats the token of user %q as user \"other@example.com\" (%s); %s",
			api.Server.URL, userEmail, strangerID, setAPI),
	})
}

func TestInvalidIDSendsNoRequest(t *testing.T) {
	for _, id := range []string{"", "..", "../profile", serverID + "/action/?do=stop", serverID + "#", "%2e%2e"} {
		_, err := ask(t, nil, claim(func(c *ownership.Claim) { c.ID = id }))
		if err == nil || !strings.Contains(err.Error(), "is not an instance ID") {
			t.Errorf("Ask() of %q error = %v, want one about the ID", id, err)
		}
	}
}

func TestRejectedTokenIsDroppedAndTheRequestRepeatedOnce(t *testing.T) {
	unauthorized := reply(http.StatusUnauthorized, canary)
	api := cloudhttptest.Serve(t, answers{
		getServer:  cloudhttptest.InTurn(unauthorized, theServer(userID)),
		getProfile: cloudhttptest.InTurn(unauthorized, theProfile()),
	})
	tokens := &fakeTokens{}
	before := time.Now()
	expectOwned(t, newCloud(t, api, tokens))
	var sent []string
	for _, request := range api.Requests() {
		sent = append(sent, request.Header.Get("Authorization"))
	}
	api.Expect(getServer, getServer, getProfile, getProfile)
	if diff := cmp.Diff([]string{
		"Bearer canary-0-of-tenant@example.com-in-next", "Bearer canary-1-of-tenant@example.com-in-next",
		"Bearer canary-1-of-tenant@example.com-in-next", "Bearer canary-2-of-tenant@example.com-in-next",
	}, sent); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{userEmail + " in " + region, userEmail + " in " + region}, tokens.dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	for last, requested := before, tokens.requested; len(requested) > 0; last, requested = requested[0], requested[1:] {
		if requested[0].Before(last) || requested[0].After(time.Now()) {
			t.Errorf("the start of the request = %v, want after %v and not in the future", requested[0], last)
		}
	}
}

func TestCandidates(t *testing.T) {
	id := func(n int) string { return fmt.Sprintf("5d0c3e1f-9a47-4b6e-8f21-%012d", n) }
	var many []object
	var wantMany []ownership.Instance
	for n := 12; n > 0; n-- {
		many = append(many, aServer(id(n), machineName, userID, ""))
	}
	for n := 1; n <= 10; n++ {
		wantMany = append(wantMany, ownership.Instance{ID: id(n), Name: machineName})
	}
	for name, tc := range map[string]struct {
		servers    []object
		machineUID string
		want       []ownership.Instance
	}{
		"by name and by machine, sorted by name and UUID": {
			servers: []object{
				aServer(id(3), machineName, userID, ""), aServer(id(1), machineName, userID, "other"),
				aServer(id(2), "a-"+machineName, userID, machineUID),
			},
			machineUID: machineUID,
			want: []ownership.Instance{
				{ID: id(2), Name: "a-" + machineName, MachineUID: machineUID},
				{ID: id(1), Name: machineName, MachineUID: "other"},
				{ID: id(3), Name: machineName},
			},
		},
		"no more than ten": {servers: many, machineUID: machineUID, want: wantMany},
		"no shared servers of others": {
			servers: []object{aServer(id(1), machineName, strangerID, machineUID), {"uuid": id(2), "name": machineName}}, machineUID: machineUID,
		},
		"no servers of another name, if the cloud ignores the filter": {
			servers: []object{aServer(id(1), machineName+"-2", userID, "other")}, machineUID: machineUID,
		},
		"no match by an empty machine UID": {servers: []object{aServer(id(1), "other", userID, "")}},
		"no servers without a UUID":        {servers: []object{aServer("canary", machineName, userID, "")}},
		"machine UIDs that are not strings": {
			servers: []object{{"uuid": id(1), "name": machineName, "owner": object{"uuid": userID}, "meta": object{"machine-uid": 7}}},
			want:    []ownership.Instance{{ID: id(1), Name: machineName}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(t, answers{getServer: notFound(), getProfile: theProfile(), getCandidates: aPage(len(tc.servers), tc.servers...)},
				claim(func(c *ownership.Claim) { c.MachineUID = tc.machineUID }))
			if err != nil {
				t.Fatalf("Ask() error = %v", err)
			}
			if diff := cmp.Diff(tc.want, got.Candidates); diff != "" {
				t.Errorf("candidates (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExplanationDoesNotDelayADenial(t *testing.T) {
	withoutProfile := anAnswer(ownership.Absent, "404 not found")
	withoutProfile.UserID = ""
	list := answers{getServer: forbidden(userID), getProfile: theProfile(), getCandidates: hang}
	for name, tc := range map[string]struct {
		answers answers
		timeout time.Duration
		want    ownership.Answer
		wantIn  time.Duration
	}{
		"the list": {answers: list, timeout: 2 * time.Second, want: anAnswer(ownership.Foreign, "403 permission"), wantIn: time.Second},
		"the profile, of a server that does not exist": {
			answers: answers{getServer: notFound(), getProfile: hang}, timeout: 2 * time.Second, want: withoutProfile, wantIn: time.Second,
		},
		"the list, without a deadline": {
			answers: list, timeout: time.Hour, want: anAnswer(ownership.Foreign, "403 permission"), wantIn: 15 * time.Second, // half of the request timeout
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := offline(t, tc.answers)
				defer cloud.Stop()
				ctx, cancel := contextWithTimeout(t, tc.timeout)
				defer cancel()
				start := time.Now()
				got, err := cloud.Ask(ctx, claim())
				if err != nil {
					t.Fatalf("Ask() error = %v", err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("Ask() (-want +got):\n%s", diff)
				}
				if took := time.Since(start); took != tc.wantIn {
					t.Errorf("Ask() took %s, want %s", took, tc.wantIn)
				}
			})
		})
	}
}

func TestLegacyAccount(t *testing.T) {
	usual := legacyAccount(canary)
	server, profile := atLegacy(getServer), atLegacy(getProfile)
	both := []string{server, profile}
	for name, tc := range map[string]struct {
		server       http.HandlerFunc // the account's own if nil
		legacy       func(*cloudsigma.Options)
		user         string
		want         failure // the zero value for a server that is owned
		wantRequests []string
	}{
		"for its own user": {legacy: usual, user: "Tenant@Example.com", wantRequests: both},
		"without a user":   {legacy: usual, wantRequests: both},
		"for another user": {legacy: usual, user: "other@example.com", wantRequests: both},
		"rejected by the cloud, without a retry": {
			server: reply(http.StatusUnauthorized, canary), legacy: usual, wantRequests: []string{server},
			want: failure{RequestID: "req-401", Text: "CredentialsDenied: server request: the answer was 401 unspecified"},
		},
		"without a password": {
			legacy: legacyAccount(""), want: failure{Text: "CredentialsDenied: password must not be empty"},
		},
		"unreadable credentials": {
			legacy: func(o *cloudsigma.Options) {
				o.Legacy = func() (credentials cloudsigma.LegacyCredentials, _ error) {
					return credentials, errors.New("no such file")
				}
			},
			want: failure{Text: "CredentialsDenied: credentials of the legacy account: no such file"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := cloudhttptest.Serve(t, answers{server: theServer(userID), profile: theProfile()})
			if tc.server != nil {
				api.Set(server, tc.server)
			}
			got, err := newCloud(t, api, nil, tc.legacy).Ask(t.Context(), claim(ofUser(tc.user)))
			for _, request := range api.Requests() {
				user, password, _ := (&http.Request{Header: request.Header}).BasicAuth()
				if user != userEmail || password != canary {
					t.Errorf("requested as %q with %q, want the account", user, password)
				}
			}
			api.Expect(tc.wantRequests...)
			if tc.want != (failure{}) {
				expectFailure(t, err, tc.want)
				return
			}
			if diff := cmp.Diff(anAnswer(ownership.Owned, "200"), got); diff != "" || err != nil {
				t.Errorf("Ask() error = %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestLegacyAccountBesideTokens(t *testing.T) {
	const sharedID = strangerID
	api := cloudhttptest.Serve(t, answers{
		getServer: theServer(userID), getProfile: theProfile(),
		atLegacy(getServer): theServer(sharedID), atLegacy(getProfile): aProfile(sharedID, userEmail),
	})
	cloud := newCloud(t, api, &fakeTokens{}, legacyAccount(canary))
	// The user name of the account is that of the user here. The two profiles must not be mixed up.
	for range 2 {
		for user, want := range map[string]string{userEmail: userID, "": sharedID} {
			got, err := cloud.Ask(t.Context(), claim(ofUser(user)))
			if err != nil || got.Verdict != ownership.Owned || got.UserID != want {
				t.Errorf("Ask() for user %q = %v, %v, want the server of %s", user, got, err, want)
			}
		}
	}
	for request, want := range map[string]int{getServer: 2, atLegacy(getServer): 2, getProfile: 1, atLegacy(getProfile): 1} {
		if got := api.Count(request); got != want {
			t.Errorf("%s was requested %d times, want %d", request, got, want)
		}
	}
}
