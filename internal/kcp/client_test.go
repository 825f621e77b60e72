package kcp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/kcp"
)

// writes are writes by each kind of client.
var writes = map[string]func(*testing.T, *rest.Config) error{
	"by a client": func(t *testing.T, config *rest.Config) error {
		t.Helper()
		c, err := kcp.NewClient(config)
		if err != nil {
			t.Fatal(err)
		}
		return c.Create(t.Context(), &authorizationv1.SubjectAccessReview{})
	},
	"by a client for a logical cluster": func(t *testing.T, config *rest.Config) error {
		t.Helper()
		clients, err := kcp.NewClients(config)
		if err != nil {
			t.Fatal(err)
		}
		c, err := clients(kcp.Root)
		if err != nil {
			t.Fatal(err)
		}
		return c.Create(t.Context(), &authorizationv1.SubjectAccessReview{})
	},
	"of an Event": func(t *testing.T, config *rest.Config) error {
		t.Helper()
		writer, err := events.NewKCPWriter(config)
		if err != nil {
			t.Fatal(err)
		}
		return writer.Create(t.Context(), "root", &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "child.1"}})
	},
}

// A tenant can register webhooks in its workspace, and kcp does not limit the reason of their denials, nor what they add to an access review.
func TestLongResponsesAreNotRead(t *testing.T) {
	const size, most = 256 << 20, 32 << 20 // with the buffers of the connection
	for name, write := range writes {
		for code, begin := range map[int]string{
			http.StatusForbidden: `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"`,
			http.StatusCreated:   `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"user":"`,
		} {
			t.Run(fmt.Sprintf("%s, %d", name, code), func(t *testing.T) {
				sent, done := 0, make(chan struct{})
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					defer close(done)
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(code)
					_, err := io.WriteString(w, begin)
					for text := strings.Repeat("x", 1<<20); err == nil && sent < size; sent += len(text) {
						_, err = io.WriteString(w, text)
					}
				}))
				defer server.Close()
				err := write(t, &rest.Config{Host: server.URL})
				if code == http.StatusForbidden && !apierrors.IsForbidden(err) {
					t.Errorf("error = %.100v, want a denial", err)
				}
				if <-done; sent > most {
					t.Errorf("%d MiB were read, more than %d", sent>>20, most>>20)
				}
			})
		}
	}
}

func TestShortDenialsAreRead(t *testing.T) {
	const text = `User "alice" cannot create it`
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusForbidden)
				if err := json.NewEncoder(w).Encode(metav1.Status{
					TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
					Status:   metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: text,
				}); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			if err := write(t, &rest.Config{Host: server.URL}); !apierrors.IsForbidden(err) || err.Error() != text {
				t.Errorf("error = %v, want the denial %q", err, text)
			}
		})
	}
}
