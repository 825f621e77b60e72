package kcp

import (
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Scheme contains the kinds of kcp, and the kinds of Kubernetes that warrantgate reads and writes in logical clusters.
var Scheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1alpha1.AddToScheme, tenancyv1alpha1.AddToScheme, apisv1alpha1.AddToScheme, apisv1alpha2.AddToScheme,
		rbacv1.AddToScheme, authorizationv1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	return scheme
})

// mapper maps all kinds of Scheme that are not namespaced. Without it, every client would first run discovery in its logical
// cluster, which needs additional permissions.
var mapper = sync.OnceValue(func() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for kind := range Scheme().AllKnownTypes() {
		if !namespaced.Has(kind.Kind) {
			m.Add(kind, meta.RESTScopeRoot)
		}
	}
	return m
})

// namespaced are the namespaced kinds of Scheme. No client addresses them.
var namespaced = sets.New("Role", "RoleBinding", "LocalSubjectAccessReview")

// NewClient returns a client for the URL of config. It does not change the logical cluster.
func NewClient(config *rest.Config) (client.WithWatch, error) {
	return client.NewWithWatch(LimitResponses(config), client.Options{Scheme: Scheme(), Mapper: mapper()})
}

// A tenant can register webhooks in its workspace that deny a write there for a reason of any length, or make an access review as long, which is not
// stored. maxErrorBytes and maxWrittenBytes limit what is read of the response. etcd stores no object of more than 1.5 MiB.
const maxErrorBytes, maxWrittenBytes = 16 << 10, 2 << 20

// LimitResponses returns config with these limits.
func LimitResponses(config *rest.Config) *rest.Config {
	limited := rest.CopyConfig(config)
	limited.Wrap(func(next http.RoundTripper) http.RoundTripper { return limitedResponses{next} })
	return limited
}

type limitedResponses struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l limitedResponses) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	limit := int64(maxWrittenBytes)
	switch {
	case response.StatusCode >= http.StatusBadRequest:
		limit = maxErrorBytes
	case request.Method == http.MethodGet:
		return response, nil
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(response.Body, limit), response.Body}
	return response, nil
}

// Clients returns a client for a logical cluster, by name or path.
type Clients func(cluster logicalcluster.Path) (client.Client, error)

// NewClients returns clients for the logical clusters of the kcp of config. They share one HTTP client.
func NewClients(config *rest.Config) (Clients, error) {
	httpClient, err := rest.HTTPClientFor(LimitResponses(config))
	if err != nil {
		return nil, fmt.Errorf("HTTP client for kcp: %w", err)
	}
	return func(cluster logicalcluster.Path) (client.Client, error) {
		within, err := ConfigFor(config, cluster)
		if err != nil {
			return nil, err
		}
		c, err := client.New(within, client.Options{Scheme: Scheme(), Mapper: mapper(), HTTPClient: httpClient})
		if err != nil {
			return nil, fmt.Errorf("client for %s: %w", cluster, err)
		}
		return c, nil
	}, nil
}
