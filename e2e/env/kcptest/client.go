package kcptest

import (
	"sync"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namespaced are the namespaced kinds among those that tests use.
var namespaced = sets.New("ServiceAccount", "Secret", "ConfigMap", "Event", "Role", "RoleBinding")

// Scheme contains the kinds that tests use: those of kcp, RBAC, admission registration and core.
var Scheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		tenancyv1alpha1.AddToScheme, corev1alpha1.AddToScheme, apisv1alpha1.AddToScheme, apisv1alpha2.AddToScheme,
		corev1.AddToScheme, rbacv1.AddToScheme, admissionregistrationv1.AddToScheme,
		authenticationv1.AddToScheme, authorizationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err) // only if two kinds had the same name
		}
	}
	return scheme
})

// restMapper maps all kinds of Scheme to their resources.
var restMapper = sync.OnceValue(func() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind := range Scheme().AllKnownTypes() {
		scope := meta.RESTScopeRoot
		if namespaced.Has(kind.Kind) {
			scope = meta.RESTScopeNamespace
		}
		mapper.Add(kind, scope)
	}
	return mapper
})

// NewClient returns a client for the cluster and the user of config. It makes no discovery requests: some users have a single
// permission, and requests other than those of the test would hide what it allows.
func NewClient(config *rest.Config) (client.Client, error) {
	return client.New(config, client.Options{Scheme: Scheme(), Mapper: restMapper()})
}
