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

	"warrantgate.dev/e2e/fakes/faults"
	"warrantgate.dev/e2e/fakes/journal"
)

// version is the path of the API, a part of the endpoint in a catalog.
const version = "/v2.1"

// Front is a proxy in front of a Nova in one region.
type Front struct {
	*journal.Journal[Operation]
	*faults.Failures[Operation]

	recorder  journal.Recorder[Operation]
	server    *httptest.Server
	transport *http.Transport
	proxy     *httputil.ReverseProxy
}

// Start starts the front of the Nova at an endpoint, such as http://127.0.0.1:8774/v2.1, on a free port of the loopback interface.
// It runs until Stop.
func Start(endpoint string) (*Front, error) {
	target, err := url.Parse(endpoint)
	if err != nil || target.Host == "" || target.Path != version {
		return nil, fmt.Errorf("%q is not an endpoint of Nova: it has to end in %s", endpoint, version)
	}
	target.Path = ""
	quiet := log.New(io.Discard, "", 0) // clients disconnect from blocked requests and handshakes fail: the clients report it
	recorder := journal.NewRecorder[Operation]()
	f := &Front{Journal: recorder.Journal, recorder: recorder, Failures: faults.New[Operation](), transport: &http.Transport{}}
	f.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: f.transport, ErrorLog: quiet,
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

// Endpoint is the URL of a service of the type compute, for the catalog.
func (f *Front) Endpoint() string { return f.server.URL + version }

// CAPEM is the CA of the front, in PEM.
func (f *Front) CAPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
}
