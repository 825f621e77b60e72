package openstacktest

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"

	"warrantgate.dev/e2e/fakes/faults"
	"warrantgate.dev/e2e/fakes/journal"
)

// The paths of the APIs of Keystone and Nova, which are a part of their endpoints.
const (
	keystoneVersion = "/v3"
	novaVersion     = "/v2.1"
)

// Front is a proxy in front of a Keystone, or of a Nova in one region.
type Front struct {
	*journal.Journal[Operation]
	*faults.Failures[Operation]

	recorder  journal.Recorder[Operation]
	server    *httptest.Server
	transport *http.Transport
	proxy     *httputil.ReverseProxy
	// version is the path of the API.
	version string

	mu     sync.Mutex
	tokens []string
}

// Start starts the front of the Keystone or Nova at an endpoint, such as http://127.0.0.1:8774/v2.1, on a free port of the loopback
// interface. It runs until Stop.
func Start(endpoint string) (*Front, error) {
	target, err := url.Parse(endpoint)
	if err != nil || target.Host == "" || target.Path != keystoneVersion && target.Path != novaVersion {
		return nil, fmt.Errorf("%q is not an endpoint of Keystone or Nova: it has to end in %s or %s", endpoint, keystoneVersion, novaVersion)
	}
	version := target.Path
	target.Path = ""
	quiet := log.New(io.Discard, "", 0) // clients disconnect from blocked requests and handshakes fail: the clients report it
	recorder := journal.NewRecorder[Operation]()
	f := &Front{Journal: recorder.Journal, recorder: recorder, Failures: faults.New[Operation](), transport: &http.Transport{}, version: version}
	f.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, ModifyResponse: f.keepToken, Transport: f.transport, ErrorLog: quiet,
	}
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	f.server.Config.ErrorLog = quiet
	f.server.StartTLS()
	return f, nil
}

// Stop stops the front and ends all blocked requests.
func (f *Front) Stop() {
	f.ReleaseAll()
	f.server.CloseClientConnections()
	f.server.Close()
	f.transport.CloseIdleConnections()
}

// Endpoint is the URL of the API, for a clouds.yaml or the catalog.
func (f *Front) Endpoint() string { return f.URL() + f.version }

// URL is the URL of the server.
func (f *Front) URL() string { return f.server.URL }

func (f *Front) keepToken(response *http.Response) error {
	if token := response.Header.Get("X-Subject-Token"); token != "" {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.tokens = append(f.tokens, token)
	}
	return nil
}

// Tokens returns the tokens that Keystone has issued through the front.
func (f *Front) Tokens() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.tokens)
}

// CAPEM is the CA of the front, in PEM.
func (f *Front) CAPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
}
