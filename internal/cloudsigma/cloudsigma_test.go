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

func TestVerdict(t *testing.T) {
	listed := func(body string) http.HandlerFunc { return reply(http.StatusOK, body) }
	candidate := ownership.Instance{ID: otherID, Name: machineName, MachineUID: machineUID}
	ownServer := aServer(otherID, machineName, userID, machineUID)
	for name, tc := range map[string]struct {
		answers      answers
		claim        ownership.Claim
		want         ownership.Answer
		wantRequests []string
	}{
		"the user's own server": {
			answers: answers{
				getServer:  reply(http.StatusOK, inJSON(aServer(serverID, "any", userID, ""))),
				getProfile: theProfile(),
			},
			claim:        claim(),
			want:         ownership.Answer{Verdict: ownership.Owned, UserID: userID, Response: "200", RequestID: "req-200"},
			wantRequests: []string{getServer, getProfile},
		},
		"the user's own server, in upper case": {
			answers: answers{
				getServer:  reply(http.StatusOK, inJSON(aServer(strings.ToUpper(serverID), "any", strings.ToUpper(userID), ""))),
				getProfile: reply(http.StatusOK, inJSON(object{"uuid": userID, "email": strings.ToUpper(userEmail)})),
			},
			claim:        claim(func(c *ownership.Claim) { c.ID = strings.ToUpper(serverID) }),
			want:         ownership.Answer{Verdict: ownership.Owned, UserID: userID, Response: "200", RequestID: "req-200"},
			wantRequests: []string{getServer, getProfile},
		},
		"a server of another user, shared with this user": {
			answers: answers{
				getServer:     reply(http.StatusOK, inJSON(aServer(serverID, machineName, strangerID, machineUID))),
				getProfile:    theProfile(),
				getCandidates: listed(aPage(2, aServer(serverID, machineName, strangerID, machineUID), ownServer)),
			},
			claim: claim(),
			want: ownership.Answer{
				Verdict: ownership.Foreign, UserID: userID, Response: "200, owned by another user", RequestID: "req-200",
				Candidates: []ownership.Instance{candidate},
			},
			wantRequests: []string{getServer, getProfile, getCandidates},
		},
		"the incident: 403, and a server of the same name": {
			answers: answers{getServer: forbidden(), getProfile: theProfile(), getCandidates: listed(aPage(1, ownServer))},
			claim:   claim(),
			want: ownership.Answer{
				Verdict: ownership.Foreign, UserID: userID, Response: "403 permission", RequestID: "req-403",
				Candidates: []ownership.Instance{candidate},
			},
			wantRequests: []string{getServer, getProfile, getCandidates},
		},
		"403 with a bare object": {
			answers: answers{
				getServer: reply(http.StatusForbidden,
					`{"error_type":"permission","error_message":"User `+userID+` does not have all of the permissions [LIST] canary"}`),
				getProfile:    theProfile(),
				getCandidates: listed(aPage(0)),
			},
			claim:        claim(),
			want:         ownership.Answer{Verdict: ownership.Foreign, UserID: userID, Response: "403 permission", RequestID: "req-403"},
			wantRequests: []string{getServer, getProfile, getCandidates},
		},
		"403 that names no user: the profile is used": {
			answers: answers{
				getServer:     reply(http.StatusForbidden, `[{"error_type":"permission","error_message":"canary"}]`),
				getProfile:    theProfile(),
				getCandidates: listed(aPage(0)),
			},
			claim:        claim(),
			want:         ownership.Answer{Verdict: ownership.Foreign, UserID: userID, Response: "403 permission", RequestID: "req-403"},
			wantRequests: []string{getServer, getProfile, getCandidates},
		},
		"404, and a server of the same name": {
			answers: answers{getServer: notFound(), getProfile: theProfile(), getCandidates: listed(aPage(1, ownServer))},
			claim:   claim(),
			want: ownership.Answer{
				Verdict: ownership.Absent, UserID: userID, Response: "404 not found", RequestID: "req-404",
				Candidates: []ownership.Instance{candidate},
			},
			wantRequests: []string{getServer, getProfile, getCandidates},
		},
		"404 without a body, and a list that fails": {
			answers: answers{
				getServer: reply(http.StatusNotFound, ""), getProfile: theProfile(), getCandidates: reply(http.StatusInternalServerError, canary),
			},
			claim:        claim(),
			want:         ownership.Answer{Verdict: ownership.Absent, UserID: userID, Response: "404 not found", RequestID: "req-404"},
			wantRequests: []string{getServer, getProfile, getCandidates},
		},
		"404, and no profile": {
			answers:      answers{getServer: notFound(), getProfile: reply(http.StatusBadGateway, canary)},
			claim:        claim(),
			want:         ownership.Answer{Verdict: ownership.Absent, Response: "404 not found", RequestID: "req-404"},
			wantRequests: []string{getServer, getProfile},
		},
		"404 of a machine without a name": {
			answers:      answers{getServer: notFound(), getProfile: theProfile()},
			claim:        claim(func(c *ownership.Claim) { c.Name = "" }),
			want:         ownership.Answer{Verdict: ownership.Absent, UserID: userID, Response: "404 not found", RequestID: "req-404"},
			wantRequests: []string{getServer, getProfile},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t, tc.answers)
			got, err := api.cloud(&fakeTokens{}).Ask(t.Context(), tc.claim)
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
	const anError = `[{"error_type":"backend","error_message":"canary","error_point":"canary"}]`
	ok := func(body string) http.HandlerFunc { return reply(http.StatusOK, body) }
	ownServer := ok(inJSON(aServer(serverID, machineName, userID, machineUID)))
	for name, tc := range map[string]struct {
		answers answers
		tokens  *fakeTokens
		claim   ownership.Claim
		want    failure
	}{
		"429, for seconds": {
			answers: answers{getServer: reply(http.StatusTooManyRequests, anError, "Retry-After", "17")},
			want: failure{
				Cause: ownership.CauseRateLimited, RequestID: "req-429", RetryAfter: 17 * time.Second,
				Text: "RateLimited: server request: the answer was 429 backend",
			},
		},
		"503, for seconds": {
			answers: answers{getServer: reply(http.StatusServiceUnavailable, canary, "Retry-After", "3")},
			want: failure{
				Cause: ownership.CauseCloud, RequestID: "req-503", RetryAfter: 3 * time.Second,
				Text: "CloudUnavailable: server request: the answer was 503 unspecified",
			},
		},
		"500": {
			answers: answers{getServer: reply(http.StatusInternalServerError, anError)},
			want: failure{
				Cause: ownership.CauseCloud, RequestID: "req-500", Text: "CloudUnavailable: server request: the answer was 500 backend",
			},
		},
		"403 for another reason than permissions": {
			answers: answers{getServer: reply(http.StatusForbidden, `[{"error_type":"billing","error_message":"canary"}]`)},
			want: failure{
				Cause: ownership.CauseCloud, RequestID: "req-403", Text: "CloudUnavailable: server request: the answer was 403 billing",
			},
		},
		"403 of a proxy": {
			answers: answers{getServer: reply(http.StatusForbidden, `<html>canary</html>`)},
			want: failure{
				Cause: ownership.CauseCloud, RequestID: "req-403", Text: "CloudUnavailable: server request: the answer was 403 unspecified",
			},
		},
		"not JSON": {
			answers: answers{getServer: ok(canary)},
			want: failure{
				Cause: ownership.CauseCloud, RequestID: "req-200", Text: "CloudUnavailable: server request: the response cannot be parsed",
			},
		},
		"JSON of another type": {
			answers: answers{getServer: ok(`{"uuid":["canary"]}`)},
			want: failure{
				Cause: ownership.CauseCloud, RequestID: "req-200", Text: "CloudUnavailable: server request: the response cannot be parsed",
			},
		},
		"nothing": {
			answers: answers{getServer: ok("")},
			want: failure{
				Cause: ownership.CauseCloud, RequestID: "req-200", Text: "CloudUnavailable: server request: the response cannot be parsed",
			},
		},
		"null": {
			answers: answers{getServer: ok("null")},
			want: failure{
				Cause: ownership.CauseCloud, RequestID: "req-200", Text: "CloudUnavailable: server request: the answer contains another server",
			},
		},
		"another server": {
			answers: answers{getServer: ok(inJSON(aServer(otherID, canary, userID, canary)))},
			want: failure{
				Cause: ownership.CauseCloud, RequestID: "req-200", Text: "CloudUnavailable: server request: the answer contains another server",
			},
		},
		"a server without an owner": {
			answers: answers{getServer: ok(inJSON(object{"uuid": serverID, "owner": nil}))},
			want: failure{
				Cause: ownership.CauseCloud, RequestID: "req-200", Text: "CloudUnavailable: server request: the answer names no owner",
			},
		},
		"a profile without a UUID": {
			answers: answers{getServer: ownServer, getProfile: ok(`{"uuid":"canary","email":"` + userEmail + `"}`)},
			want: failure{
				Cause: ownership.CauseCloud, RequestID: "req-200",
				Text: "CloudUnavailable: profile request: the answer lacks the UUID or the email",
			},
		},
		"a profile without an email": {
			answers: answers{getServer: ownServer, getProfile: ok(`{"uuid":"` + userID + `"}`)},
			want: failure{
				Cause: ownership.CauseCloud, RequestID: "req-200",
				Text: "CloudUnavailable: profile request: the answer lacks the UUID or the email",
			},
		},
		"a profile request that fails": {
			answers: answers{getServer: ownServer, getProfile: reply(http.StatusTooManyRequests, canary, "Retry-After", "1")},
			want: failure{
				Cause: ownership.CauseRateLimited, RequestID: "req-429", RetryAfter: time.Second,
				Text: "RateLimited: profile request: the answer was 429 unspecified",
			},
		},
		"a profile request with 500": {
			answers: answers{getServer: ownServer, getProfile: reply(http.StatusInternalServerError, anError)},
			want: failure{
				Cause: ownership.CauseCloud, RequestID: "req-500", Text: "CloudUnavailable: profile request: the answer was 500 backend",
			},
		},
		"a profile request with 403": {
			answers: answers{getServer: ownServer, getProfile: reply(http.StatusForbidden, anError)},
			want: failure{
				Cause: ownership.CauseCloud, RequestID: "req-403", Text: "CloudUnavailable: profile request: the answer was 403 backend",
			},
		},
		"a profile request with 401 twice": {
			answers: answers{getServer: ownServer, getProfile: reply(http.StatusUnauthorized, canary)},
			want: failure{
				Cause: ownership.CauseCredentials, RequestID: "req-401",
				Text: "CredentialsDenied: profile request: the answer was 401 unspecified",
			},
		},
		"a denial without a profile": {
			answers: answers{getServer: forbidden(), getProfile: reply(http.StatusBadGateway, canary)},
			want: failure{
				Cause: ownership.CauseCloud, RequestID: "req-502", Text: "CloudUnavailable: profile request: the answer was 502 unspecified",
			},
		},
		"a profile that is not JSON": {
			answers: answers{getServer: ownServer, getProfile: ok(canary)},
			want: failure{
				Cause: ownership.CauseCloud, RequestID: "req-200", Text: "CloudUnavailable: profile request: the response cannot be parsed",
			},
		},
		"a profile request whose connection breaks": {
			answers: answers{getServer: ownServer, getProfile: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
			want: failure{
				Cause: ownership.CauseCloud, Text: "CloudUnavailable: profile request: the connection broke before the end of the answer",
			},
		},
		"no user": {
			claim: claim(func(c *ownership.Claim) { c.User = "" }),
			want: failure{
				Cause: ownership.CauseNotImpersonable, Text: "UserNotImpersonable: the claim names no user to impersonate",
			},
		},
		"no token": {
			tokens: &fakeTokens{err: &ownership.UnknownError{
				Cause: ownership.CauseIdentityProvider, RequestID: "idp-1", RetryAfter: time.Minute, Err: errors.New("down"),
			}},
			want: failure{
				Cause: ownership.CauseIdentityProvider, RequestID: "idp-1", RetryAfter: time.Minute, Text: "IdentityProviderUnavailable: down",
			},
		},
		"401 twice": {
			answers: answers{getServer: reply(http.StatusUnauthorized, canary)},
			want: failure{
				Cause: ownership.CauseCredentials, RequestID: "req-401",
				Text: "CredentialsDenied: server request: the answer was 401 unspecified",
			},
		},
		"401, and then no token": {
			answers: answers{getServer: reply(http.StatusUnauthorized, canary)},
			tokens: &fakeTokens{errs: 1, err: &ownership.UnknownError{
				Cause: ownership.CauseNotImpersonable, Err: errors.New("not any more"),
			}},
			want: failure{Cause: ownership.CauseNotImpersonable, Text: "UserNotImpersonable: not any more"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.tokens == nil {
				tc.tokens = &fakeTokens{}
			}
			if tc.claim.ID == "" {
				tc.claim = claim()
			}
			answer, err := newAPI(t, tc.answers).cloud(tc.tokens).Ask(t.Context(), tc.claim)
			expectFailure(t, err, tc.want)
			if diff := cmp.Diff(ownership.Answer{}, answer); diff != "" {
				t.Errorf("Ask() came with an error and (-want +got):\n%s", diff)
			}
		})
	}
}

// setAPI is the advice if the API treats a token as another user.
const setAPI = "set cloudSigma.api to the URL at which the token acts as its user"

// An impersonated token acts as another user at a host other than the one that it was issued for. No answer of that host is one about the
// claimed user.
func TestTokenOfAnotherUser(t *testing.T) {
	const accountEmail, accountID = "service-account-partner@example.com", strangerID
	other := reply(http.StatusOK, inJSON(object{"uuid": accountID, "email": accountEmail}))
	byProfile := fmt.Sprintf("%q (%s)", accountEmail, accountID)
	owned := func(owner string) http.HandlerFunc {
		return reply(http.StatusOK, inJSON(aServer(serverID, machineName, owner, machineUID)))
	}
	denied := func(user string) http.HandlerFunc {
		return reply(http.StatusForbidden, `[{"error_type":"permission","error_message":"User `+user+` does not have all of the permissions [LIST]"}]`)
	}
	for name, tc := range map[string]struct {
		// before are the answers to an earlier lookup, which caches the profile.
		before, answers answers
		user            string
		wantAs          string
		wantRequestID   string
	}{
		"who owns the server":             {answers: answers{getServer: owned(accountID), getProfile: other}, wantAs: byProfile, wantRequestID: "req-200"},
		"who sees the server of the user": {answers: answers{getServer: owned(userID), getProfile: other}, wantAs: byProfile, wantRequestID: "req-200"},
		"who is denied":                   {answers: answers{getServer: denied(accountID), getProfile: other}, wantAs: byProfile, wantRequestID: "req-200"},
		"who is denied without a name":    {answers: answers{getServer: denied("canary"), getProfile: other}, wantAs: byProfile, wantRequestID: "req-200"},
		"without such a server":           {answers: answers{getServer: notFound(), getProfile: other}, wantAs: byProfile, wantRequestID: "req-200"},
		"whose name folds to that of the user": {
			answers: answers{getServer: owned(userID), getProfile: reply(http.StatusOK, inJSON(object{"uuid": userID, "email": "susan@example.com"}))},
			user:    "suſan@example.com", // with the sign for a long s
			wantAs:  fmt.Sprintf("%q (%s)", "susan@example.com", userID), wantRequestID: "req-200",
		},
		"who is denied, while the profile in the cache is the user's": {
			before:  answers{getServer: denied(userID), getProfile: theProfile(), getCandidates: reply(http.StatusOK, aPage(0))},
			answers: answers{getServer: denied(accountID)}, wantAs: accountID, wantRequestID: "req-403",
		},
	} {
		t.Run(name, func(t *testing.T) {
			claimed := claim(func(c *ownership.Claim) {
				if tc.user != "" {
					c.User = tc.user
				}
			})
			api := newAPI(t, tc.before)
			cloud := api.cloud(&fakeTokens{})
			if tc.before != nil {
				if got, err := cloud.Ask(t.Context(), claimed); err != nil || got.Verdict != ownership.Foreign {
					t.Fatalf("Ask() = %v, %v, want Foreign", got, err)
				}
			}
			api.change(tc.answers)
			answer, err := cloud.Ask(t.Context(), claimed)
			at := api.server.URL + "/api/next/"
			expectFailure(t, err, failure{
				Cause: ownership.CauseWrongUser, RequestID: tc.wantRequestID,
				Text: fmt.Sprintf("WrongUser: the API at %s treats the token of user %q as user %s; %s", at, claimed.User, tc.wantAs, setAPI),
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
	api := newAPI(t, answers{getProfile: reply(http.StatusOK, inJSON(object{"uuid": strangerID, "email": "other@example.com"}))})
	_, _, err := api.cloud(&fakeTokens{}).Instances(t.Context(), account())
	expectFailure(t, err, failure{
		Cause: ownership.CauseWrongUser, RequestID: "req-200",
		Text: fmt.Sprintf("WrongUser: the API at %s/api/next/ treats the token of user %q as user \"other@example.com\" (%s); %s",
			api.server.URL, userEmail, strangerID, setAPI),
	})
}

// expectFailure compares an *ownership.UnknownError, and checks that it contains no canary.
func expectFailure(t *testing.T, err error, want failure) {
	t.Helper()
	var u *ownership.UnknownError
	if !errors.As(err, &u) {
		t.Fatalf("error = %v, want an *ownership.UnknownError", err)
	}
	got := failure{Cause: u.Cause, RequestID: u.RequestID, RetryAfter: u.RetryAfter, Text: err.Error()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if text := fmt.Sprintf("%+v", e); strings.Contains(text, canary) {
			t.Errorf("error = %q, which contains data that must not be returned", text)
		}
	}
}

func TestInvalidIDSendsNoRequest(t *testing.T) {
	api := newAPI(t, nil)
	cloud := api.cloud(&fakeTokens{})
	for _, id := range []string{"", "..", "../profile", serverID + "/action/?do=stop", serverID + "#", "%2e%2e"} {
		_, err := cloud.Ask(t.Context(), claim(func(c *ownership.Claim) { c.ID = id }))
		if err == nil || !strings.Contains(err.Error(), "is not an instance ID") {
			t.Errorf("Ask() of %q error = %v, want one about the ID", id, err)
		}
	}
	api.expect()
}

func TestRejectedTokenIsDroppedAndTheRequestRepeatedOnce(t *testing.T) {
	unauthorized := reply(http.StatusUnauthorized, canary)
	api := newAPI(t, answers{
		getServer:  cloudhttptest.InTurn(unauthorized, reply(http.StatusOK, inJSON(aServer(serverID, machineName, userID, machineUID)))),
		getProfile: cloudhttptest.InTurn(unauthorized, theProfile()),
	})
	tokens := &fakeTokens{}
	before := time.Now()
	answer, err := api.cloud(tokens).Ask(t.Context(), claim())
	if err != nil || answer.Verdict != ownership.Owned {
		t.Fatalf("Ask() = %v, %v, want Owned", answer, err)
	}
	var sent []string
	for _, header := range api.headers {
		sent = append(sent, header.Get("Authorization"))
	}
	api.expect(getServer, getServer, getProfile, getProfile)
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
			api := newAPI(t, answers{
				getServer: notFound(), getProfile: theProfile(), getCandidates: reply(http.StatusOK, aPage(len(tc.servers), tc.servers...)),
			})
			got, err := api.cloud(&fakeTokens{}).Ask(t.Context(), claim(func(c *ownership.Claim) { c.MachineUID = tc.machineUID }))
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
	for name, tc := range map[string]struct {
		answers answers
		timeout time.Duration
		want    ownership.Answer
		wantIn  time.Duration
	}{
		"the list": {
			answers: answers{getServer: forbidden(), getProfile: theProfile(), getCandidates: hang}, timeout: 2 * time.Second,
			want:   ownership.Answer{Verdict: ownership.Foreign, UserID: userID, Response: "403 permission", RequestID: "req-403"},
			wantIn: time.Second,
		},
		"the profile, of a server that does not exist": {
			answers: answers{getServer: notFound(), getProfile: hang}, timeout: 2 * time.Second,
			want:   ownership.Answer{Verdict: ownership.Absent, Response: "404 not found", RequestID: "req-404"},
			wantIn: time.Second,
		},
		"the list, without a deadline": {
			answers: answers{getServer: forbidden(), getProfile: theProfile(), getCandidates: hang}, timeout: time.Hour,
			want:   ownership.Answer{Verdict: ownership.Foreign, UserID: userID, Response: "403 permission", RequestID: "req-403"},
			wantIn: 15 * time.Second, // half of the request timeout
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud, stop := offline(t, tc.answers)
				defer stop()
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
	credentials := func() (cloudsigma.LegacyCredentials, error) {
		return cloudsigma.LegacyCredentials{Username: userEmail, Password: canary}, nil
	}
	const legacyServer, legacyProfile = "legacy." + getServer, "legacy." + getProfile
	owned := answers{
		legacyServer:  reply(http.StatusOK, inJSON(aServer(serverID, machineName, userID, machineUID))),
		legacyProfile: theProfile(),
	}
	for name, tc := range map[string]struct {
		answers      answers
		legacy       func() (cloudsigma.LegacyCredentials, error)
		user         string
		want         failure // the zero value for a server that is owned
		wantRequests []string
	}{
		"for its own user": {answers: owned, legacy: credentials, user: "Tenant@Example.com", wantRequests: []string{legacyServer, legacyProfile}},
		"without a user":   {answers: owned, legacy: credentials, wantRequests: []string{legacyServer, legacyProfile}},
		"for another user": {
			answers: owned, legacy: credentials, user: "other@example.com", wantRequests: []string{legacyServer, legacyProfile},
		},
		"rejected by the cloud, without a retry": {
			answers: answers{legacyServer: reply(http.StatusUnauthorized, canary)}, legacy: credentials, wantRequests: []string{legacyServer},
			want: failure{
				Cause: ownership.CauseCredentials, RequestID: "req-401", Text: "CredentialsDenied: server request: the answer was 401 unspecified",
			},
		},
		"without a password": {
			legacy: func() (cloudsigma.LegacyCredentials, error) {
				return cloudsigma.LegacyCredentials{Username: userEmail}, nil
			},
			want: failure{Cause: ownership.CauseCredentials, Text: "CredentialsDenied: password must not be empty"},
		},
		"unreadable credentials": {
			legacy: func() (cloudsigma.LegacyCredentials, error) {
				return cloudsigma.LegacyCredentials{}, errors.New("no such file")
			},
			want: failure{Cause: ownership.CauseCredentials, Text: "CredentialsDenied: credentials of the legacy account: no such file"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t, tc.answers)
			cloud := api.cloud(nil, func(o *cloudsigma.Options) { o.Legacy = tc.legacy })
			got, err := cloud.Ask(t.Context(), claim(func(c *ownership.Claim) { c.User = tc.user }))
			for _, header := range api.headers {
				user, password, _ := (&http.Request{Header: header}).BasicAuth()
				if user != userEmail || password != canary {
					t.Errorf("requested as %q with %q, want the account", user, password)
				}
			}
			api.expect(tc.wantRequests...)
			if tc.want != (failure{}) {
				expectFailure(t, err, tc.want)
				return
			}
			want := ownership.Answer{Verdict: ownership.Owned, UserID: userID, Response: "200", RequestID: "req-200"}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("Ask() error = %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestLegacyAccountBesideTokens(t *testing.T) {
	const sharedID = strangerID
	api := newAPI(t, answers{
		getServer: reply(http.StatusOK, inJSON(aServer(serverID, machineName, userID, machineUID))), getProfile: theProfile(),
		"legacy." + getServer:  reply(http.StatusOK, inJSON(aServer(serverID, machineName, sharedID, machineUID))),
		"legacy." + getProfile: reply(http.StatusOK, inJSON(object{"uuid": sharedID, "email": userEmail})),
	})
	cloud := api.cloud(&fakeTokens{}, func(o *cloudsigma.Options) {
		o.Legacy = func() (cloudsigma.LegacyCredentials, error) {
			return cloudsigma.LegacyCredentials{Username: userEmail, Password: canary}, nil
		}
	})
	// The user name of the account is that of the user here. The two profiles must not be mixed up.
	for range 2 {
		for user, want := range map[string]string{userEmail: userID, "": sharedID} {
			got, err := cloud.Ask(t.Context(), claim(func(c *ownership.Claim) { c.User = user }))
			if err != nil || got.Verdict != ownership.Owned || got.UserID != want {
				t.Errorf("Ask() for user %q = %v, %v, want the server of %s", user, got, err, want)
			}
		}
	}
	api.expectCount(getServer, 2)
	api.expectCount("legacy."+getServer, 2)
	for _, profile := range []string{getProfile, "legacy." + getProfile} {
		api.expectCount(profile, 1)
	}
}
