package events_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"warrantgate.dev/internal/events"
)

// request is a request that a fakeKCP receives.
type request struct {
	Method, Path, ContentType, Body string
}

// fakeKCP answers the expected requests in order.
type fakeKCP struct {
	t        *testing.T
	expected []exchange
}

type exchange struct {
	request request
	code    int
	answer  any
}

func (f *fakeKCP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Errorf("read the body of %s %s: %v", r.Method, r.URL, err)
	}
	got := request{r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), string(body)}
	if len(f.expected) == 0 {
		f.t.Errorf("%s %s was not expected", r.Method, r.URL)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	next := f.expected[0]
	f.expected = f.expected[1:]
	if diff := cmp.Diff(next.request, got); diff != "" {
		f.t.Errorf("request (-want +got):\n%s", diff)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(next.code)
	if err := json.NewEncoder(w).Encode(next.answer); err != nil {
		f.t.Errorf("answer: %v", err)
	}
}

// newKCPWriter returns a writer for a kcp that expects exactly these requests. path is that of the kubeconfig's server.
func newKCPWriter(t *testing.T, path string, expected ...exchange) events.Writer {
	t.Helper()
	handler := &fakeKCP{t: t, expected: expected}
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.Close()
		if len(handler.expected) > 0 {
			t.Errorf("missing requests: %v", handler.expected)
		}
	})
	writer, err := events.NewKCPWriter(&rest.Config{Host: server.URL + path})
	if err != nil {
		t.Fatalf("NewKCPWriter() error = %v", err)
	}
	return writer
}

func failure(code int32, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}
}

const (
	sentEvent = `{"kind":"Event","apiVersion":"v1","metadata":{"name":"team-a.1","namespace":"default"},` +
		`"involvedObject":{"kind":"Workspace","name":"team-a","uid":"6a1b"},"reason":"OwnerRewritten","source":{},` +
		`"firstTimestamp":null,"lastTimestamp":null,"count":1,"eventTime":null,"reportingComponent":"","reportingInstance":""}` + "\n"
	sentPatch = `{"count":2}`
)

func TestKCPWriterWritesInTheLogicalClusterOfTheObject(t *testing.T) {
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "team-a.1", Namespace: "default"},
		InvolvedObject: corev1.ObjectReference{Kind: "Workspace", Name: "team-a", UID: "6a1b"},
		Reason:         "OwnerRewritten", Count: 1,
	}
	create := func(ctx context.Context, w events.Writer, cluster logicalcluster.Name) error {
		return w.Create(ctx, cluster, event)
	}
	patch := func(ctx context.Context, w events.Writer, cluster logicalcluster.Name) error {
		return w.Patch(ctx, cluster, event, []byte(sentPatch))
	}
	for name, tc := range map[string]struct {
		// path is that of the kubeconfig's server.
		path    string
		cluster logicalcluster.Name
		do      func(context.Context, events.Writer, logicalcluster.Name) error
		want    exchange
		wantErr string
	}{
		"a new Event is created there": {
			cluster: cluster, do: create,
			want: exchange{
				request{"POST", "/clusters/1dz6n4ubraua7pul/api/v1/namespaces/default/events", "application/json", sentEvent},
				http.StatusCreated, event,
			},
		},
		"the workspace in the kubeconfig is ignored": {
			path: "/clusters/root", cluster: cluster, do: create,
			want: exchange{
				request{"POST", "/clusters/1dz6n4ubraua7pul/api/v1/namespaces/default/events", "application/json", sentEvent},
				http.StatusCreated, event,
			},
		},
		"a path prefix of kcp is kept": {
			path: "/kcp/clusters/root:org", cluster: "root", do: create,
			want: exchange{
				request{"POST", "/kcp/clusters/root/api/v1/namespaces/default/events", "application/json", sentEvent},
				http.StatusCreated, event,
			},
		},
		"an existing Event is patched there": {
			path: "/clusters/root", cluster: otherCluster, do: patch,
			want: exchange{
				request{
					"PATCH", "/clusters/m82w61j76ws21znq/api/v1/namespaces/default/events/team-a.1",
					"application/strategic-merge-patch+json", sentPatch,
				},
				http.StatusOK, event,
			},
		},
		"a denial is an error": {
			cluster: cluster, do: create,
			want: exchange{
				request{"POST", "/clusters/1dz6n4ubraua7pul/api/v1/namespaces/default/events", "application/json", sentEvent},
				http.StatusForbidden, failure(403, metav1.StatusReasonForbidden, "access denied"),
			},
			wantErr: "access denied",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			if err := tc.do(t.Context(), newKCPWriter(t, tc.path, tc.want), tc.cluster); err != nil {
				got = err.Error()
			}
			if got != tc.wantErr {
				t.Errorf("error = %q, want %q", got, tc.wantErr)
			}
		})
	}
}

// The URL contains values of a request. The writer sends no request with a value that changes the path.
func TestKCPWriterStaysInTheLogicalCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster                logicalcluster.Name
		namespace, event, want string
	}{
		"a cluster with a path to a parent":     {"../services/x", "default", "team-a.1", `"../services/x" is not the name of a logical cluster`},
		"every cluster":                         {"*", "default", "team-a.1", `"*" is not the name of a logical cluster`},
		"no cluster":                            {"", "default", "team-a.1", `"" is not the name of a logical cluster`},
		"a cluster of the shard":                {"system:admin", "default", "team-a.1", `"system:admin" is not the name of a logical cluster`},
		"a namespace with a path to a parent":   {cluster, "..", "team-a.1", `".." cannot be part of the URL of an Event`},
		"a namespace with a slash":              {cluster, "a/b", "team-a.1", `"a/b" cannot be part of the URL of an Event`},
		"no namespace":                          {cluster, "", "team-a.1", `"" cannot be part of the URL of an Event`},
		"an Event whose name is a path upwards": {cluster, "default", "../../x.1", `"../../x.1" cannot be part of the URL of an Event`},
	} {
		t.Run(name, func(t *testing.T) {
			event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: tc.event, Namespace: tc.namespace}}
			writer := newKCPWriter(t, "/clusters/root")
			if err := writer.Create(t.Context(), tc.cluster, event); err == nil || err.Error() != tc.want {
				t.Errorf("Create() error = %v, want %s", err, tc.want)
			}
			if err := writer.Patch(t.Context(), tc.cluster, event, []byte(sentPatch)); err == nil || err.Error() != tc.want {
				t.Errorf("Patch() error = %v, want %s", err, tc.want)
			}
		})
	}
}

func TestKCPWriterChecksThePermissionInRoot(t *testing.T) {
	const requested = `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":` +
		`{"resourceAttributes":{"verb":"create","version":"v1","resource":"events"}},"status":{"allowed":false}}` + "\n"
	review := func(allowed bool) any {
		return map[string]any{
			"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "status": map[string]any{"allowed": allowed},
		}
	}
	for name, tc := range map[string]struct {
		code       int
		answer     any
		want       bool
		wantReason string
		wantErr    string
	}{
		"permitted": {
			code: http.StatusCreated, answer: review(true),
			want: true,
		},
		"not permitted": {
			code: http.StatusCreated, answer: review(false),
			wantReason: "no permission to create events; grant it with `warrantgate install kcp --shard-kubeconfig`",
		},
		"check forbidden": {
			code: http.StatusForbidden, answer: failure(403, metav1.StatusReasonForbidden, "access denied"),
			wantReason: "no access to workspaces; grant it with `warrantgate install kcp --shard-kubeconfig`",
		},
		"unauthenticated": {
			code: http.StatusUnauthorized, answer: failure(401, metav1.StatusReasonUnauthorized, "Unauthorized"),
			wantErr: "check the permission to create Events: Unauthorized",
		},
		"server error": {
			code: http.StatusInternalServerError, answer: failure(500, metav1.StatusReasonInternalError, "etcd has no leader"),
			wantErr: "check the permission to create Events: etcd has no leader",
		},
	} {
		t.Run(name, func(t *testing.T) {
			writer := newKCPWriter(t, "/clusters/root:org", exchange{
				request{"POST", "/clusters/root/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "application/json", requested},
				tc.code, tc.answer,
			})
			got, reason, err := writer.Permitted(t.Context())
			gotErr := ""
			if err != nil {
				gotErr = err.Error()
			}
			if got != tc.want || reason != tc.wantReason || gotErr != tc.wantErr {
				t.Errorf("Permitted() = %t, %q, %q; want %t, %q, %q", got, reason, gotErr, tc.want, tc.wantReason, tc.wantErr)
			}
		})
	}
}

// client-go's limit of five requests per second would fill the queues of the recorder long before the server has too much load.
func TestKCPWriterHasNoClientRateLimit(t *testing.T) {
	const many = 50
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "team-a.1", Namespace: "default"}}
	expected := make([]exchange, many)
	for i := range expected {
		expected[i] = exchange{
			request{
				"PATCH", "/clusters/1dz6n4ubraua7pul/api/v1/namespaces/default/events/team-a.1",
				"application/strategic-merge-patch+json", sentPatch,
			},
			http.StatusOK, event,
		}
	}
	writer := newKCPWriter(t, "", expected...)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // the limit would need 8
	defer cancel()
	for i := range many {
		if err := writer.Patch(ctx, cluster, event, []byte(sentPatch)); err != nil {
			t.Fatalf("Patch() %d: %v", i, err)
		}
	}
}

func TestKCPWriterWithInvalidConfiguration(t *testing.T) {
	for name, tc := range map[string]struct {
		config *rest.Config
		want   string
	}{
		"invalid URL": {
			config: &rest.Config{Host: "https://kcp example"},
			want:   `address of kcp "https://kcp example": parse "https://kcp example": invalid character " " in host name`,
		},
		"invalid CA": {
			config: &rest.Config{Host: "https://kcp.example.com", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("no PEM")}},
			want:   "client for Events: unable to load root certificates: unable to parse bytes as PEM block",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := events.NewKCPWriter(tc.config); err == nil || err.Error() != tc.want {
				t.Errorf("NewKCPWriter() error = %v, want %s", err, tc.want)
			}
		})
	}
}
