package cloudsigma_test

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/ownership"
)

func TestRequestHeaders(t *testing.T) {
	api := newAPI(t, answers{getServer: reply(http.StatusBadGateway, "")})
	_, _ = api.cloud(&fakeTokens{}, func(o *cloudsigma.Options) { o.UserAgent = "warrantgate/v1.2.3" }).Ask(t.Context(), claim())
	for key, want := range map[string]string{
		"User-Agent": "warrantgate/v1.2.3", "Accept": "application/json", "Authorization": "Bearer canary-0-of-tsap@shalb.com-in-next",
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
	padded := func(body string, size int) string { return body + strings.Repeat(" ", size-len(body)) }
	own := inJSON(aServer(serverID, machineName, userID, machineUID))
	zipped := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write([]byte(body))
			_ = z.Close()
		}
	}
	for name, tc := range map[string]struct {
		answers answers
		want    string // "" for no error
	}{
		"server up to the limit":                    {answers: answers{getServer: reply(http.StatusOK, padded(own, single)), getProfile: theProfile(), getPage1: reply(http.StatusOK, aPage(0))}},
		"server up to the limit, compressed":        {answers: answers{getServer: zipped(padded(own, single)), getProfile: theProfile(), getPage1: reply(http.StatusOK, aPage(0))}},
		"server over the limit":                     {answers: answers{getServer: reply(http.StatusOK, padded(own, single+1))}, want: "server request: the answer is larger than 1048576 bytes"},
		"server over the limit after decompression": {answers: answers{getServer: zipped(padded(own, single+1))}, want: "server request: the answer is larger than 1048576 bytes"},
		"error over the limit":                      {answers: answers{getServer: reply(http.StatusBadGateway, padded("", single+1))}, want: "server request: the answer is larger than 1048576 bytes"},
		"list over the limit": {
			answers: answers{
				getServer: reply(http.StatusOK, own), getProfile: theProfile(), getPage1: reply(http.StatusOK, padded(aPage(0), list+1)),
			},
			want: "list request: the answer is larger than 8388608 bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newAPI(t, tc.answers).cloud(&fakeTokens{})
			_, err := cloud.Ask(t.Context(), claim())
			if err == nil {
				_, _, err = cloud.Instances(t.Context(), account())
			}
			if tc.want == "" {
				if err != nil {
					t.Errorf("error = %v", err)
				}
				return
			}
			expectFailure(t, err, failure{Cause: ownership.CauseCloud, Text: "CloudUnavailable: " + tc.want})
		})
	}
}

func TestConnectionFailures(t *testing.T) {
	ours := newAPI(t, nil) // receives no request
	old := httptest.NewUnstartedServer(ours)
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS11}
	old.Config.ErrorLog = discard()
	old.StartTLS()
	defer old.Close()
	plain := httptest.NewServer(ours)
	defer plain.Close()
	stranger := httptest.NewUnstartedServer(ours)
	stranger.Config.ErrorLog = discard()
	stranger.StartTLS()
	defer stranger.Close()
	for name, tc := range map[string]struct {
		url    string
		modify func(*cloudsigma.Options)
		want   string // part of the text
	}{
		"an old version of TLS": {url: old.URL, want: "protocol version"},
		"no TLS":                {url: strings.Replace(plain.URL, "http:", "https:", 1), want: "the connection broke before the end of the answer"},
		"an untrusted CA": {
			url: stranger.URL, modify: func(o *cloudsigma.Options) { o.RootCAs = nil }, want: "certificate signed by unknown authority",
		},
		"no listener":            {url: "https://" + closedAddress(t), want: "connection refused"},
		"an incomplete response": {url: broken(t, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{canary"), want: "the connection broke before the end of the answer"},
		"not HTTP":               {url: broken(t, "canary\r\n\r\n"), want: "the connection broke before the end of the answer"},
	} {
		t.Run(name, func(t *testing.T) {
			modify := []func(*cloudsigma.Options){func(o *cloudsigma.Options) { o.API = tc.url }}
			if tc.modify != nil {
				modify = append(modify, tc.modify)
			}
			_, err := ours.cloud(&fakeTokens{}, modify...).Ask(t.Context(), claim())
			var u *ownership.UnknownError
			if !errors.As(err, &u) || u.Cause != ownership.CauseCloud || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Ask() error = %v, want %s because of %q", err, ownership.CauseCloud, tc.want)
			}
			if strings.Contains(err.Error(), canary) {
				t.Errorf("Ask() error = %v, which contains data that must not be returned", err)
			}
		})
	}
}

// closedAddress returns an address without a listener.
func closedAddress(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(nil)
	defer server.Close()
	return server.Listener.Addr().String()
}

// broken returns the URL of a server that sends these bytes to every request and closes the connection.
func broken(t *testing.T, answer string) string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hijacker, ok := w.(http.Hijacker)
		if !ok {
			t.Error("the connection cannot be hijacked")
			return
		}
		connection, _, err := hijacker.Hijack()
		if err != nil {
			t.Errorf("hijack the connection: %v", err)
			return
		}
		_, _ = connection.Write([]byte(answer))
		_ = connection.Close()
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestTimeouts(t *testing.T) {
	for name, tc := range map[string]struct {
		answers  answers
		timeout  time.Duration
		wantText string
		wantIn   time.Duration
	}{
		"a deadline":  {answers: answers{getServer: hang}, timeout: time.Second, wantText: "Timeout: server request: no answer in time", wantIn: time.Second},
		"no deadline": {answers: answers{getServer: hang}, timeout: time.Hour, wantText: "Timeout: server request: no answer in time", wantIn: 30 * time.Second},
		"deadline in the second request": {
			answers: answers{getServer: reply(http.StatusOK, inJSON(aServer(serverID, machineName, userID, ""))), getProfile: hang},
			timeout: time.Second, wantText: "Timeout: profile request: no answer in time", wantIn: time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud, stop := offline(t, tc.answers)
				defer stop()
				ctx, cancel := contextWithTimeout(t, tc.timeout)
				defer cancel()
				start := time.Now()
				_, err := cloud.Ask(ctx, claim())
				expectFailure(t, err, failure{Cause: ownership.CauseTimeout, Text: tc.wantText})
				if took := time.Since(start); took != tc.wantIn {
					t.Errorf("Ask() took %s, want %s", took, tc.wantIn)
				}
			})
		})
	}
}

func TestCanceledCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	api := newAPI(t, answers{getServer: func(w http.ResponseWriter, r *http.Request) {
		cancel()
		hang(w, r)
		panic(http.ErrAbortHandler) // a response might still arrive
	}})
	_, err := api.cloud(&fakeTokens{}).Ask(ctx, claim())
	expectFailure(t, err, failure{Cause: ownership.CauseTimeout, Text: "Timeout: server request: no answer in time"})
}

func TestNetworkTimeout(t *testing.T) {
	cloud := cloudsigma.NewWith(cloudsigma.Options{Tokens: &fakeTokens{}, API: "https://cloud.example/"},
		roundTripper(func(*http.Request) (*http.Response, error) {
			return nil, &net.DNSError{Err: "no answer", Name: canary, IsTimeout: true}
		}))
	defer cloud.Stop()
	_, err := cloud.Ask(t.Context(), claim())
	expectFailure(t, err, failure{Cause: ownership.CauseTimeout, Text: "Timeout: server request: no answer in time"})
}
