package certificates_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/certificates"
	"warrantgate.dev/internal/install"
)

func TestKCPRoles(t *testing.T) {
	objects := append(configurations(nil), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	named := func(resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{
			APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{resource}, ResourceNames: []string{"warrantgate"}, Verbs: []string{"get", "patch"},
		}
	}
	want := install.Role("warrantgate-certificates", install.User("gate"),
		named("mutatingwebhookconfigurations"), named("validatingwebhookconfigurations"))
	if diff := cmp.Diff(want, certificates.KCPRoles("gate", objects)); diff != "" {
		t.Errorf("KCPRoles() (-want +got):\n%s", diff)
	}
}

func TestKeepAuthorities(t *testing.T) {
	for name, tc := range map[string]struct {
		held []client.Object
		want []string
	}{
		"nothing is registered": {want: []string{"", "", ""}},
		"all are":               {held: configurations([]byte("A")), want: []string{"A", "A", "A"}},
		"the first is new":      {held: configurations([]byte("A"))[1:], want: []string{"A", "A", "A"}},
		"one has none": {
			held: []client.Object{configurations([]byte("A"))[0], configurations(nil)[1]}, want: []string{"A", "A", "A"},
		},
		"they differ": {
			held: []client.Object{configurations([]byte("A"))[0], configurations([]byte("B"))[1]}, want: []string{"A", "B", "B"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := configurations(nil)
			if err := certificates.KeepAuthorities(t.Context(), newAPI(tc.held...), objects); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, bundle := range newAPI(objects...).bundles(t) {
				got = append(got, string(bundle))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("authorities (-want +got):\n%s", diff)
			}
		})
	}
	away := newAPI()
	away.setAway(errors.New("connection refused"))
	err := certificates.KeepAuthorities(t.Context(), away, configurations(nil))
	if want := `read MutatingWebhookConfiguration "warrantgate" of the API server: connection refused`; err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
}

// Where a right is missing, the log says what gives it.
func TestARightThatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(empty())
		w.kcp.setAway(apierrors.NewForbidden(schema.GroupResource{Resource: "mutatingwebhookconfigurations"}, "warrantgate", errors.New("no")))
		w.runFor(t, 3*time.Second)
		w.trusted(t, w.kubernetes)
		if !w.logs.contain(`mutatingwebhookconfigurations \"warrantgate\" is forbidden: no (run install)`) {
			t.Errorf("the log does not say what to do:\n%s", w.logs)
		}
	})
}

// The client asks for nothing but what it is asked for: no discovery, and no list or watch for a cache.
func TestTheClientAsksForOneObject(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.String())
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	c, err := certificates.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{
		&corev1.Secret{}, &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{},
	} {
		name := client.ObjectKey{Name: "b"}
		if _, isSecret := object.(*corev1.Secret); isSecret {
			name.Namespace = "a"
		}
		if err := c.Get(t.Context(), name, object); !apierrors.IsNotFound(err) {
			t.Errorf("Get() error = %v", err)
		}
	}
	want := []string{
		"GET /api/v1/namespaces/a/secrets/b",
		"GET /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/b",
		"GET /apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/b",
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
