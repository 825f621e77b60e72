package webhookserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// token is the first accepted token, next the second one.
const (
	token = "0123456789abcdef0123456789abcdef"
	next  = "abcdefghijklmnopqrstuvwxyz0123456789"
)

func tokens(t *testing.T) *Tokens {
	t.Helper()
	parsed, err := ParseTokens([]byte(token + "\n" + next + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// startGate serves a hook that reads the request body and responds with the path that it sees.
func startGate(t *testing.T, tokens *Tokens) *httptest.Server {
	t.Helper()
	hooks := New("", nil, nil, tokens)
	for _, path := range []string{"/gate", "/kcp/gate", "/kcp/{provider}/gate/of"} {
		hooks.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(w, "%s %s %s", r.URL, r.RequestURI, body)
		}))
	}
	server := httptest.NewUnstartedServer(hooks.callers)
	server.EnableHTTP2 = true
	server.Config.DisableGeneralOptionsHandler = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// forgeries are request targets of callers without a token, or with an invalid path.
var forgeries = map[string]string{
	"no token":                          "/gate",
	"nothing":                           "/",
	"an unknown path":                   "/no-gate",
	"a wrong token":                     "/" + strings.Repeat("f", 32) + "/gate",
	"a prefix of the token":             "/" + token[:31] + "/gate",
	"the token and more":                "/" + token + "0/gate",
	"both tokens in one":                "/" + token + next + "/gate",
	"the token in capitals":             "/" + strings.ToUpper(token) + "/gate",
	"the token alone":                   "/" + token,
	"the token and a slash":             "/" + token + "/",
	"the token, and an unknown path":    "/" + token + "/no-gate",
	"the token, and a path below":       "/" + token + "/gate/x",
	"the token, and a slash at the end": "/" + token + "/gate/",
	"two slashes at the beginning":      "//" + token + "/gate",
	"two slashes":                       "/" + token + "//gate",
	"dots at the beginning":             "/../" + token + "/gate",
	"dots":                              "/" + token + "/../gate",
	"dots to the gate":                  "/gate/../gate",
	"one dot":                           "/" + token + "/./gate",
	"an escaped slash":                  "/" + token + "%2Fgate",
	"an escaped slash at the beginning": "/%2F" + token + "/gate",
	"an escaped slash in the path":      "/" + token + "/kcp%2Fgate",
	"an escaped letter of the token":    "/%30" + token[1:] + "/gate",
	"an escaped letter of the path":     "/" + token + "/%67ate",
	"escaped dots":                      "/" + token + "/%2e%2e/gate",
	"a backslash":                       "/" + token + "\\gate",
	"a zero byte":                       "/" + token + "%00/gate",
	"the token as a parameter":          "/gate?token=" + token,
	"the token as a parameter only":     "/?/" + token + "/gate",
	"another server":                    "https://" + token + "/gate",
	"a token that is empty":             "//gate",
	"the wildcard itself":               "/" + token + "/kcp/{provider}/gate/of",
	"the wildcard itself, escaped":      "/" + token + "/kcp/%7Bprovider%7D/gate/of",
	"nothing for the wildcard":          "/" + token + "/kcp//gate/of",
	"dots for the wildcard":             "/" + token + "/kcp/../gate/of",
	"escaped dots for the wildcard":     "/" + token + "/kcp/%2e%2e/gate/of",
	"an escaped slash in the wildcard":  "/" + token + "/kcp/a%2fb/gate/of",
	"two segments for the wildcard":     "/" + token + "/kcp/a/b/gate/of",
	"a colon in the wildcard":           "/" + token + "/kcp/root:org/gate/of",
	"a capital letter in the wildcard":  "/" + token + "/kcp/A/gate/of",
	"all for the wildcard":              "/" + token + "/kcp/*/gate/of",
	"the wildcard without a token":      "/kcp/1dz6n4ubraua7pul/gate/of",
	"the wildcard with the token":       "/" + token + "/kcp/1dz6n4ubraua7pul/gate/of",
	"the token of another wildcard":     "/" + TokenFor(token, "m82w61j76ws21znq") + "/kcp/1dz6n4ubraua7pul/gate/of",
	"a wildcard's token for the others": "/" + TokenFor(token, "1dz6n4ubraua7pul") + "/gate",
	"a wildcard's token, and no name":   "/" + TokenFor(token, "") + "/gate",
}

// rawAnswer sends a request with the unmodified target, and returns the response without its date.
func rawAnswer(t *testing.T, server *httptest.Server, method, target string) string {
	t.Helper()
	config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone() //nolint:errcheck,forcetypeassert // httptest makes it
	config.NextProtos = []string{"http/1.1"}
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The header announces a body of 7 MiB that is never sent: a server that reads it has to wait.
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: example.com\r\nContent-Type: application/json\r\nContent-Length: 7340032\r\n\r\n{", method, target); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn) // until the server closes the connection
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(answer)) {
		if !strings.HasPrefix(line, "Date: ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func TestOtherCallersGetTheSameResponse(t *testing.T) {
	server := startGate(t, tokens(t))
	const want = "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
	before := testutil.ToFloat64(rejected.WithLabelValues(wrongPath))
	called := 0
	for name, target := range forgeries {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodOptions} {
			called++
			if diff := cmp.Diff(want, rawAnswer(t, server, method, target)); diff != "" {
				t.Errorf("%s: answer to %s (-want +got):\n%s", name, method, diff)
			}
		}
	}
	called++
	if diff := cmp.Diff(want, rawAnswer(t, server, http.MethodOptions, "*")); diff != "" {
		t.Errorf("answer to OPTIONS * (-want +got):\n%s", diff)
	}
	if got := testutil.ToFloat64(rejected.WithLabelValues(wrongPath)) - before; got != float64(called) {
		t.Errorf("%v were counted, want %d", got, called)
	}
}

func TestOtherCallersGetTheSameResponseInHTTP2(t *testing.T) {
	for name, target := range forgeries {
		if !strings.HasPrefix(target, "/") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			server := startGate(t, tokens(t)) // the server closes the connection after each response
			// The body never ends.
			body, writer := io.Pipe()
			defer writer.Close()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
			if err != nil {
				t.Fatal(err)
			}
			path, query, _ := strings.Cut(target, "?")
			if strings.HasPrefix(path, "//") { // as Opaque, these would contain a host name
				request.URL.Path, request.URL.RawQuery = path, query
			} else {
				request.URL.Opaque, request.URL.RawQuery = path, query
			}
			response, err := server.Client().Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			content, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			response.Header.Del("Date")
			if diff := cmp.Diff([]any{http.StatusNotFound, "HTTP/2.0", "", http.Header{"Content-Length": {"0"}}},
				[]any{response.StatusCode, response.Proto, string(content), response.Header}); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEachTokenIsAccepted(t *testing.T) {
	server := startGate(t, tokens(t))
	for _, known := range []string{token, next} {
		for path, known := range map[string]string{
			"/gate": known, "/kcp/gate": known, "/kcp/1dz6n4ubraua7pul/gate/of": TokenFor(known, "1dz6n4ubraua7pul"),
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/"+known+path+"?timeout=3s", strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			response, err := server.Client().Do(request)
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf("%[1]s?timeout=3s %[1]s?timeout=3s body", path)
			if diff := cmp.Diff(want, string(content)); diff != "" {
				t.Errorf("requests to the hook (-want +got):\n%s", diff)
			}
		}
	}
}

func TestServerWithoutTokensAndClientsDeniesAll(t *testing.T) {
	server := startGate(t, nil)
	for _, target := range []string{"/gate", "/" + token + "/gate", "//gate"} {
		if got := rawAnswer(t, server, http.MethodPost, target); !strings.HasPrefix(got, "HTTP/1.1 404 ") {
			t.Errorf("%s: answer = %q", target, got)
		}
	}
}

// TestDeniedConnectionIsClosed checks this for a client that sends a second request.
func TestDeniedConnectionIsClosed(t *testing.T) {
	server := startGate(t, tokens(t))
	config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone() //nolint:errcheck,forcetypeassert // httptest makes it
	config.NextProtos = []string{"http/1.1"}
	conn, err := (&tls.Dialer{Config: config}).DialContext(context.Background(), "tcp", server.Listener.Addr().String()) //nolint:usetesting // it outlives the test
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /gate HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}POST /"+token+"/gate HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusNotFound {
		t.Errorf("status = %s", response.Status)
	}
	if rest, err := io.ReadAll(reader); err != nil && !isReset(err) || len(rest) > 0 {
		t.Errorf("after the response the server sent %q, %v", rest, err)
	}
}

func isReset(err error) bool {
	_, is := err.(*net.OpError) //nolint:errorlint // it is not wrapped
	return is
}

func TestWildcardMatchesOneSegment(t *testing.T) {
	hooks := New("", nil, nil, tokens(t))
	hooks.Register("/kcp/{provider}/gate", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.PathValue("provider"))
	}))
	answer := httptest.NewRecorder()
	hooks.callers.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost,
		"/"+TokenFor(token, "1dz6n4ubraua7pul")+"/kcp/1dz6n4ubraua7pul/gate?timeout=3s", nil))
	if answer.Code != http.StatusOK || answer.Body.String() != "1dz6n4ubraua7pul" {
		t.Errorf("answer %d %q", answer.Code, answer.Body)
	}
}
