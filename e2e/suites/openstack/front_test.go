//go:build e2e

package openstack_test

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

	. "github.com/onsi/gomega"
)

// tokensPath is the path of authentications in Keystone.
const tokensPath = "/v3/auth/tokens"

// fault responds to an authentication instead of Keystone. It returns true if the request must be forwarded to Keystone.
type fault func(w http.ResponseWriter, r *http.Request, released <-chan struct{}) bool

// front is a proxy in front of Keystone. It counts authentications, records the issued tokens, and can fail.
type front struct {
	server *httptest.Server
	proxy  *httputil.ReverseProxy

	mu              sync.Mutex
	authentications int
	tokens          []string
	violations      []string
	fault           fault // nil if there is none
	released        chan struct{}
}

func newFront(authURL string) *front {
	target, err := url.Parse(authURL)
	Expect(err).NotTo(HaveOccurred())
	target.Path = ""
	f := &front{}
	quiet := log.New(io.Discard, "", 0) // clients disconnect while it blocks
	f.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, ModifyResponse: f.keepToken, ErrorLog: quiet,
	}
	f.server = httptest.NewUnstartedServer(f)
	f.server.Config.ErrorLog = quiet
	f.server.StartTLS()
	return f
}

func (f *front) stop() {
	f.release()
	f.server.CloseClientConnections()
	f.server.Close()
}

// authURL is the URL in a clouds.yaml.
func (f *front) authURL() string { return f.server.URL + "/v3" }

func (f *front) caPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault, released, known := f.begin(r)
	switch {
	case !known:
		http.Error(w, "only authentications are known", http.StatusBadRequest)
	case fault == nil || fault(w, r, released):
		f.proxy.ServeHTTP(w, r)
	}
}

// begin counts a request. It returns false for a request that is no authentication.
func (f *front) begin(r *http.Request) (_ fault, released <-chan struct{}, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Method != http.MethodPost || r.URL.Path != tokensPath || r.URL.RawQuery != "" {
		f.violations = append(f.violations, r.Method+" "+r.URL.Path)
		return nil, nil, false
	}
	f.authentications++
	return f.fault, f.released, true
}

func (f *front) keepToken(response *http.Response) error {
	if token := response.Header.Get("X-Subject-Token"); token != "" {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.tokens = append(f.tokens, token)
	}
	return nil
}

// fail makes authentications fail with a fault until release.
func (f *front) fail(with fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.released = with, make(chan struct{})
}

// release ends the fault, if there is one.
func (f *front) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault != nil {
		close(f.released)
		f.fault = nil
	}
}

// count is the number of authentications.
func (f *front) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.authentications
}

// given are the tokens that Keystone has issued through the front.
func (f *front) given() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.tokens)
}

// violated are the requests that were no authentications.
func (f *front) violated() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.violations)
}

// answers responds with a status and headers, as key and value. The body repeats that of the request, as careless servers do.
func answers(code int, headers ...string) fault {
	return func(w http.ResponseWriter, r *http.Request, _ <-chan struct{}) bool {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "cannot handle %s", body)
		return false
	}
}

// hangs blocks until it is released or the client disconnects.
func blocks(_ http.ResponseWriter, r *http.Request, released <-chan struct{}) bool {
	select {
	case <-released:
		return true
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	}
}
