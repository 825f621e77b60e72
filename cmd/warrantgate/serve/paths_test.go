package serve

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"warrantgate.dev/cmd/warrantgate/internal/clouds"
	"warrantgate.dev/cmd/warrantgate/internal/gates"
	"warrantgate.dev/internal/config"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/workspace"
)

// pathsEverServed are the paths of all webhooks that any release has registered. During a rollout, API servers get new paths before the
// last old replica has gone. During a rollback, they get old paths while new replicas still exist. A path that is not served is a 404,
// which denies the write. So serve keeps a path until a release after the last one that registers it, and serves a new path one release
// before it is registered.
var pathsEverServed = []string{
	"/cluster/delegation",
	"/cluster/impersonation",
	"/controllermanager/identity",
	"/controllermanager/integrity",
	"/kcp/{provider}/cluster/impersonation",
	"/kcp/{provider}/machine/ownership",
	"/keystone/policy",
	"/machine/ownership",
	"/workspace/denial-notice",
	"/workspace/owner-notice",
	"/workspace/owner-rewrite",
}

// everyGateOn is a configuration.
const everyGateOn = `apiVersion: config.warrantgate.dev/v1beta1
kind: GateConfiguration
controllerManager: {selector: {matchLabels: {app: ccm}}}
keystonePolicy: {selector: {matchLabels: {holds: policy}}}
openStack: {authURLs: ["https://keystone.example.com/v3"]}
`

// paths records the paths that are registered at a server.
type paths struct {
	webhook.Server
	registered map[string]http.Handler
}

func (p paths) Register(path string, hook http.Handler) { p.registered[path] = hook }

func TestEveryRegisteredPathIsServed(t *testing.T) {
	config, err := config.Parse([]byte(everyGateOn))
	if err != nil {
		t.Fatal(err)
	}
	gate := ownership.NewGate(map[string]ownership.Cloud{}, map[string]int32{})
	t.Cleanup(gate.Close)
	requested, unreachable := clouds.Owners{Gate: gate, OpenStack: &openstack.Cloud{}}, &rest.Config{Host: "https://127.0.0.1:1"}
	server, recorder := paths{registered: map[string]http.Handler{}}, events.NewRecorder(nil)
	registerWorkspaceGates(server, config, recorder)
	inKubernetes, err := newKubernetesGates(unreachable, config, requested, metav1.NamespaceSystem)
	if err != nil {
		t.Fatal(err)
	}
	inKubernetes.register(server)
	if err := registerProviderGates(server, unreachable, config, requested, recorder); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(pathsEverServed, slices.Sorted(maps.Keys(server.registered))); diff != "" {
		t.Errorf("paths that are served (-want +got):\n%s", diff)
	}

	served := http.NewServeMux()
	for pattern, handler := range server.registered {
		served.Handle(pattern, handler)
	}
	at := webhooks.Server{URL: "https://warrantgate.example.com"}
	for _, path := range registeredPaths(t, slices.Concat(
		gates.KubernetesRegistration(at, config), workspace.Registration(at, config.Workspace), gates.ProviderRegistration(at, config, "1dz6n4ubraua7pul", true),
	)) {
		if _, pattern := served.Handler(httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil)); pattern == "" {
			t.Errorf("%s is registered, and not served", path)
		}
	}
}

// registeredPaths returns the paths of webhook configurations.
func registeredPaths(t *testing.T, objects []client.Object) []string {
	t.Helper()
	var clients []admissionregistrationv1.WebhookClientConfig
	for _, object := range objects {
		switch configuration := object.(type) {
		case *admissionregistrationv1.MutatingWebhookConfiguration:
			for _, hook := range configuration.Webhooks {
				clients = append(clients, hook.ClientConfig)
			}
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			for _, hook := range configuration.Webhooks {
				clients = append(clients, hook.ClientConfig)
			}
		}
	}
	var found []string
	for _, client := range clients {
		requested, err := url.Parse(*client.URL)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, requested.Path)
	}
	if len(found) < len(pathsEverServed)-1 { // several webhooks share a path
		t.Errorf("only %q are registered", found)
	}
	return found
}
