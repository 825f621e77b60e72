package cloudsigma_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"warrantgate.dev/internal/cloudhttp/cloudhttptest"
	"warrantgate.dev/internal/cloudsigma"
)

func TestRequestHeaders(t *testing.T) {
	api := cloudhttptest.Serve(t, answers{getServer: reply(http.StatusBadGateway, "")})
	_, _ = newCloud(t, api, &fakeTokens{}, func(o *cloudsigma.Options) { o.UserAgent = "warrantgate/v1.2.3" }).Ask(t.Context(), claim())
	for key, want := range map[string]string{
		"User-Agent": "warrantgate/v1.2.3", "Accept": "application/json", "Authorization": "Bearer canary-0-of-tenant@example.com-in-next",
	} {
		if got := api.Requests()[0].Header.Get(key); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
}

func TestHostFollowsTheCredentials(t *testing.T) {
	for want, credentials := range map[string]func(*cloudsigma.Options){
		"https://next.a/": func(o *cloudsigma.Options) { o.Tokens = &fakeTokens{} },
		"https://b/next/": legacyAccount(canary),
	} {
		t.Run(want, func(t *testing.T) {
			options := cloudsigma.Options{Regions: []string{"zrh", region}, API: "https://{region}.a/", LegacyAPI: "https://b/{region}"}
			credentials(&options)
			var got string
			cloud := cloudsigma.NewWith(options, cloudhttptest.RoundTripper(func(r *http.Request) (*http.Response, error) {
				got = r.URL.String()
				return nil, errors.New("no network")
			}))
			defer cloud.Stop()
			if _, err := cloud.Ask(t.Context(), claim()); err == nil {
				t.Fatal("Ask() returned no error")
			}
			if got != want+"servers/"+serverID+"/" {
				t.Errorf("requested %q, want it at %q", got, want)
			}
			if got, err := cloud.API(t.Context(), account()); err != nil || got != want {
				t.Errorf("API() = %q, %v, want %q", got, err, want)
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
				api := cloudhttptest.Serve(t, answers{getServer: reply(status, "", "Location", location)})
				_, err := newCloud(t, api, &fakeTokens{}).Ask(t.Context(), claim())
				expectFailure(t, err, failure{
					RequestID: fmt.Sprintf("req-%d", status), Text: fmt.Sprintf("CloudUnavailable: server request: the answer was %d unspecified", status),
				})
				api.Expect(getServer)
			})
		}
	}
}

func TestBodiesAreLimited(t *testing.T) {
	const single, list = 1 << 20, 8 << 20
	padded := func(answer http.HandlerFunc, size int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			recorder := httptest.NewRecorder()
			answer(recorder, r)
			ok(recorder.Body.String()+strings.Repeat(" ", size-recorder.Body.Len()))(w, r)
		}
	}
	own, empty := theServer(userID), aPage(0)
	for name, tc := range map[string]struct {
		server, list http.HandlerFunc
		want         string // "" for no error
	}{
		"up to the limits":      {server: padded(own, single), list: padded(empty, list)},
		"server over the limit": {server: padded(own, single+1), want: "server request: the answer is larger than 1048576 bytes"},
		"list over the limit":   {server: padded(own, single), list: padded(empty, list+1), want: "list request: the answer is larger than 8388608 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			api := cloudhttptest.Serve(t, answers{getServer: tc.server, getProfile: theProfile(), getPage1: tc.list})
			cloud := newCloud(t, api, &fakeTokens{})
			_, err := cloud.Ask(t.Context(), claim())
			if err == nil {
				_, _, err = cloud.Instances(t.Context(), account())
			}
			if tc.want != "" {
				expectFailure(t, err, failure{Text: "CloudUnavailable: " + tc.want})
			} else if err != nil {
				t.Errorf("error = %v", err)
			}
		})
	}
}
