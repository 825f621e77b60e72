package serve

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"warrantgate.dev/cmd/warrantgate/internal/clitest"
)

func TestPprofIsOffUnlessItHasAnAddress(t *testing.T) {
	s := startServe(t)
	for _, address := range []string{s.metrics, s.health} {
		if code, _, err := clitest.Get(t.Context(), "http://"+address+"/debug/pprof/"); err != nil || code != http.StatusNotFound {
			t.Errorf("%s responds %d, %v; want 404", address, code, err)
		}
	}
	if err := s.shutdown(t); err != nil {
		t.Errorf("serve ends with %v", err)
	}
}

func TestPprof(t *testing.T) {
	address := clitest.FreeAddresses(t, 1)[0]
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	secret := clitest.WriteFile(t, "secret", "canary-secret")
	s := startServe(t, "--pprof-address="+port, "--client-secret-file="+secret)
	clitest.AwaitListening(t, address)
	for path, want := range map[string]struct {
		code int
		text string
	}{
		"/debug/pprof/":                  {code: http.StatusOK, text: "goroutine"},
		"/debug/pprof/goroutine?debug=1": {code: http.StatusOK, text: "goroutine profile: total"},
		"/debug/pprof/heap":              {code: http.StatusOK},
		"/debug/pprof/profile?seconds=1": {code: http.StatusOK},
		"/debug/pprof/trace?seconds=0.1": {code: http.StatusOK},
		"/debug/pprof/symbol":            {code: http.StatusOK, text: "num_symbols"},
		"/debug/pprof/cmdline":           {code: http.StatusNotFound},
		"/metrics":                       {code: http.StatusNotFound},
		"/":                              {code: http.StatusNotFound},
	} {
		code, body, err := clitest.Get(t.Context(), "http://"+address+path)
		if err != nil || code != want.code || !strings.Contains(body, want.text) || strings.Contains(body, "canary-secret") {
			t.Errorf("%s = %d (%d bytes), %v; want %d with %q", path, code, len(body), err, want.code, want.text)
		}
	}
	for _, other := range []string{s.metrics, s.health} {
		if code, _, err := clitest.Get(t.Context(), "http://"+other+"/debug/pprof/"); err != nil || code != http.StatusNotFound {
			t.Errorf("%s responds %d, %v; want 404", other, code, err)
		}
	}
	if err := s.shutdown(t); err != nil {
		t.Errorf("serve ends with %v", err)
	}
}

func TestPprofListensOnLoopbackByDefault(t *testing.T) {
	for address, want := range map[string]string{
		"6060":           "127.0.0.1:6060",
		":6060":          "127.0.0.1:6060",
		"127.0.0.1:6060": "127.0.0.1:6060",
		"0.0.0.0:6060":   "0.0.0.0:6060",
		"[::]:6060":      "[::]:6060",
		"0":              `"0" is not a port`,
		"all":            `"all" is not a port`,
		":70000":         `"70000" is not a port`,
		"::1:6060":       "address ::1:6060: too many colons in address",
	} {
		got, err := loopbackUnlessSaid(address)
		if err != nil {
			got = fmt.Sprint(err)
		}
		if got != want {
			t.Errorf("loopbackUnlessSaid(%q) = %s, want %s", address, got, want)
		}
	}
}
