package cloudsigma_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/ownership"
)

func TestRequestHeaders(t *testing.T) {
	api := newAPI(t, answers{getServer: reply(http.StatusBadGateway, "")})
	_, _ = api.cloud(&fakeTokens{}, func(o *cloudsigma.Options) { o.UserAgent = "warrantgate/v1.2.3" }).Ask(t.Context(), claim())
	for key, want := range map[string]string{
		"User-Agent": "warrantgate/v1.2.3", "Accept": "application/json", "Authorization": "Bearer canary-0-of-tenant@example.com-in-next",
	} {
		if got := api.headers[0].Get(key); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
}

func TestHostFollowsTheCredentials(t *testing.T) {
	tokens, legacy := &fakeTokens{}, func() (cloudsigma.LegacyCredentials, error) {
		return cloudsigma.LegacyCredentials{Username: userEmail, Password: canary}, nil
	}
	for name, tc := range map[string]struct {
		options cloudsigma.Options
		want    string
	}{
		"a token":    {options: cloudsigma.Options{Tokens: tokens}, want: "https://next.a/"},
		"a password": {options: cloudsigma.Options{Legacy: legacy}, want: "https://b/next/"},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			tc.options.Regions, tc.options.API, tc.options.LegacyAPI = []string{"zrh", region}, "https://{region}.a/", "https://b/{region}"
			cloud := cloudsigma.NewWith(tc.options, roundTripper(func(r *http.Request) (*http.Response, error) {
				got = r.URL.String()
				return nil, errors.New("no network")
			}))
			defer cloud.Stop()
			if _, err := cloud.Ask(t.Context(), claim()); err == nil {
				t.Fatal("Ask() returned no error")
			}
			if want := tc.want + "servers/" + serverID + "/"; got != want {
				t.Errorf("requested %q, want %q", got, want)
			}
		})
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s was sent to another server, with %q", r.Method, r.URL, r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	for name, location := range map[string]string{
		"to another host": elsewhere.URL, "to the same host": "/api/next/profile/", "to nowhere": "", "to an invalid URL": "https://canary:%zz/",
	} {
		for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect} {
			t.Run(name+" "+http.StatusText(status), func(t *testing.T) {
				api := newAPI(t, answers{getServer: reply(status, "", "Location", location)})
				_, err := api.cloud(&fakeTokens{}).Ask(t.Context(), claim())
				var u *ownership.UnknownError
				if !errors.As(err, &u) || u.Cause != ownership.CauseCloud || strings.Contains(err.Error(), canary) {
					t.Errorf("Ask() error = %v, want %s without the location", err, ownership.CauseCloud)
				}
				api.expect(getServer)
			})
		}
	}
}

func TestBodiesAreLimited(t *testing.T) {
	const single, list = 1 << 20, 8 << 20
	padded := func(body string, size int) http.HandlerFunc {
		return reply(http.StatusOK, body+strings.Repeat(" ", size-len(body)))
	}
	own := inJSON(aServer(serverID, machineName, userID, machineUID))
	for name, tc := range map[string]struct {
		server, list http.HandlerFunc
		want         string // "" for no error
	}{
		"up to the limits":      {server: padded(own, single), list: padded(aPage(0), list)},
		"server over the limit": {server: padded(own, single+1), want: "server request: the answer is larger than 1048576 bytes"},
		"list over the limit":   {server: padded(own, single), list: padded(aPage(0), list+1), want: "list request: the answer is larger than 8388608 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newAPI(t, answers{getServer: tc.server, getProfile: theProfile(), getPage1: tc.list}).cloud(&fakeTokens{})
			_, err := cloud.Ask(t.Context(), claim())
			if err == nil {
				_, _, err = cloud.Instances(t.Context(), account())
			}
			if tc.want != "" {
				expectFailure(t, err, failure{Cause: ownership.CauseCloud, Text: "CloudUnavailable: " + tc.want})
			} else if err != nil {
				t.Errorf("error = %v", err)
			}
		})
	}
}
