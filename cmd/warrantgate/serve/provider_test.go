package serve

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/client-go/rest"

	"warrantgate.dev/cmd/warrantgate/internal/clouds"
	"warrantgate.dev/internal/config"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/internal/ownership"
)

// TestTheProviderOfAPath checks that a path segment becomes part of an address only if it is the name of a logical cluster.
func TestTheProviderOfAPath(t *testing.T) {
	config, err := config.Parse([]byte(everyGateOn))
	if err != nil {
		t.Fatal(err)
	}
	gate := ownership.NewGate(map[string]ownership.Cloud{}, map[string]int32{})
	t.Cleanup(gate.Close)
	const (
		exports = "/apis/apis.kcp.io/v1alpha2/apiexports"
		slices  = "/clusters/root/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/tenancy.kcp.io"
		objects = "/one/services/apiexport/m82w61j76ws21znq/capcs/clusters/1dz6n4ubraua7pul/apis/infrastructure.cluster.x-k8s.io/v1beta1/"
	)
	var requested []string
	kcp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requested = append(requested, r.Method+" "+r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/clusters/2x9ia1l7yyfqzxuw" + exports:
			_, _ = w.Write([]byte(`{"apiVersion":"apis.kcp.io/v1alpha2","kind":"APIExportList","items":[]}`))
		case "/clusters/m82w61j76ws21znq" + exports:
			_, _ = w.Write([]byte(`{"apiVersion":"apis.kcp.io/v1alpha2","kind":"APIExportList","items":[{"metadata":{"name":"capcs"},"spec":{"resources":[` +
				`{"group":"infrastructure.cluster.x-k8s.io","name":"cloudsigmaclusters","schema":"v1.x"}]}}]}`))
		case slices:
			_, _ = w.Write([]byte(`{"apiVersion":"apis.kcp.io/v1alpha1","kind":"APIExportEndpointSlice","metadata":{"name":"tenancy.kcp.io"},"status":{"endpoints":[` +
				`{"url":"http://` + r.Host + `/one/services/apiexport/root/tenancy.kcp.io"}]}}`))
		case objects + "cloudsigmaclusters":
			_, _ = w.Write([]byte(`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"CloudSigmaClusterList","items":[]}`))
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(kcp.Close)
	server := paths{registered: map[string]http.Handler{}}
	if err := registerProviderGates(server, &rest.Config{Host: kcp.URL + "/clusters/root"}, config, clouds.Owners{Gate: gate}, events.NewRecorder(nil)); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for pattern, handler := range server.registered {
		mux.Handle(pattern, handler)
	}
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE",` +
		`"resource":{"group":"infrastructure.cluster.x-k8s.io","version":"v1beta1","resource":"cloudsigmaclusters"},"userInfo":{"username":"alice"},` +
		`"object":{"metadata":{"name":"a","namespace":"default","annotations":{"kcp.io/cluster":"1dz6n4ubraua7pul"}},"spec":{"userEmail":"bob@example.com"}}}}`
	for path, want := range map[string]struct {
		code      int
		says      string
		requested []string
	}{
		"/kcp/m82w61j76ws21znq/cluster/impersonation": {
			code: http.StatusOK, says: "ImpersonationUnknown",
			requested: []string{
				"GET /clusters/m82w61j76ws21znq" + exports, "GET " + slices, "GET " + objects + "cloudsigmaclusters",
				"POST /clusters/m82w61j76ws21znq/apis/authorization.k8s.io/v1/subjectaccessreviews",
			},
		},
		"/kcp/2x9ia1l7yyfqzxuw/cluster/impersonation": {
			code: http.StatusOK, says: "ProviderNotBound", requested: []string{"GET /clusters/2x9ia1l7yyfqzxuw" + exports},
		},
		"/kcp/2x9ia1l7yyfqzxuw/machine/ownership": {
			code: http.StatusOK, says: "ProviderNotBound", requested: []string{"GET /clusters/2x9ia1l7yyfqzxuw" + exports},
		},
		"/kcp/machine/ownership":                      {code: http.StatusNotFound, says: "not found"},
		"/kcp/cluster/impersonation":                  {code: http.StatusNotFound, says: "not found"},
		"/kcp/*/cluster/impersonation":                {code: http.StatusNotFound, says: "not found"},
		"/kcp/root:org/cluster/impersonation":         {code: http.StatusNotFound, says: "not found"},
		"/kcp/system:admin/cluster/impersonation":     {code: http.StatusNotFound, says: "not found"},
		"/kcp/..%2fservices/cluster/impersonation":    {code: http.StatusNotFound, says: "not found"},
		"/kcp/a%2f..%2fb/cluster/impersonation":       {code: http.StatusNotFound, says: "not found"},
		"/kcp/system:..%2fx/cluster/impersonation":    {code: http.StatusNotFound, says: "not found"},
		"/kcp/M82W61J76WS21ZNQ/cluster/impersonation": {code: http.StatusNotFound, says: "not found"},
	} {
		requested = nil
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(review))
		request.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, request)
		if answer.Code != want.code || !strings.Contains(answer.Body.String(), want.says) {
			t.Errorf("%s: %d %s, want %d with %s", path, answer.Code, answer.Body, want.code, want.says)
		}
		if diff := cmp.Diff(want.requested, requested); diff != "" {
			t.Errorf("%s: requests to kcp (-want +got):\n%s", path, diff)
		}
	}
	// A caller with the token of a provider takes only a part of the room for bodies: two of the largest, which it never ends, leave no more.
	const path, largest = "/kcp/m82w61j76ws21znq/cluster/impersonation", 7 << 20
	for range 2 {
		body, end := io.Pipe()
		reading := make(chan struct{})
		var answered sync.WaitGroup
		answered.Go(func() {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, &signaled{Reader: body, read: reading})
			request.Header.Set("Content-Type", "application/json")
			request.ContentLength = largest
			mux.ServeHTTP(httptest.NewRecorder(), request)
		})
		t.Cleanup(func() {
			_ = end.Close()
			answered.Wait()
		})
		<-reading
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(review))
	request.Header.Set("Content-Type", "application/json")
	request.ContentLength = largest
	answer := httptest.NewRecorder()
	if mux.ServeHTTP(answer, request); answer.Code != http.StatusTooManyRequests {
		t.Errorf("a third large body: %d %s, want 429", answer.Code, answer.Body)
	}
}

// signaled closes read before its first byte is read.
type signaled struct {
	io.Reader
	read chan struct{}
	once sync.Once
}

func (s *signaled) Read(p []byte) (int, error) {
	s.once.Do(func() { close(s.read) })
	return s.Reader.Read(p)
}

// TestAuditedProviders checks that an APIExport is read once a minute, and that one that cannot be read counts as one of another provider.
func TestAuditedProviders(t *testing.T) {
	broken, requested := true, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requested++
		home, found := strings.CutPrefix(r.URL.Path, "/clusters/root:")
		home, found2 := strings.CutSuffix(home, "/apis/apis.kcp.io/v1alpha2/apiexports/capcs")
		if broken || !found || !found2 {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"apis.kcp.io/v1alpha2","kind":"APIExport","metadata":{"name":"capcs","annotations":{"kcp.io/cluster":"` + home + `home"}}}`))
	}))
	t.Cleanup(server.Close)
	clients, err := kcp.NewClients(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	config := v1beta1.Audit{Mode: v1beta1.Enforce, Providers: []v1beta1.AuditProvider{{Workspace: "root:a", APIExport: "capcs"}, {Workspace: "root:b", APIExport: "capcs"}}}
	audited := newAuditedProviders(clients, config)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the deadline of the request may be over
	expect := func(provider string, want bool, wantRequested int) {
		t.Helper()
		requested = 0
		if got := audited.has(ctx, logicalcluster.Name(provider)); got != want || requested != wantRequested {
			t.Errorf("%s: %t after %d requests, want %t after %d", provider, got, requested, want, wantRequested)
		}
	}
	expect("ahome", false, 2)
	broken = false
	expect("ahome", true, 1)
	expect("bhome", true, 1)
	broken = true
	expect("ahome", true, 0)
	expect("another", false, 0)
	for _, provider := range config.Providers {
		entry, known := audited.homes.GetEntryQuietly(provider)
		if !known || entry.ExpiresAfter() <= 0 || entry.ExpiresAfter() > time.Minute {
			t.Errorf("%s is remembered for %s (%t), want a minute", provider.Workspace, entry.ExpiresAfter(), known)
		}
	}
	config.Mode = v1beta1.Off
	audited = newAuditedProviders(clients, config)
	expect("ahome", false, 0)
}
