package clusterapi

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/share"
)

// Versions returns the served versions of a resource.
type Versions func(context.Context, schema.GroupResource) ([]string, error)

func (v Versions) versions(ctx context.Context, resource schema.GroupResource) ([]string, error) {
	return v(ctx, resource)
}

// NewObjectsOf is NewObjects with clients instead of a configuration.
func NewObjectsOf(client dynamic.Interface, versions Versions, secrets corev1client.SecretsGetter, options Options) (*Objects, error) {
	return newObjects(client, versions, secrets, options)
}

// Essentials exports the function that removes unused fields of a machine.
func (k Kind) Essentials(object any) (any, error) { return k.essentials(object) }

// EssentialsOfCluster exports the function that removes unused fields of a CloudSigmaCluster.
var EssentialsOfCluster = clusterKinds[v1beta1.ProviderCloudSigma].essentialsOf

// ReadPages takes the room for all pages: some for the tenant of ctx, and the rest for others. The functions give back one page each.
func ReadPages(ctx context.Context, t *testing.T) (finish []func()) {
	t.Helper()
	for i := range pagesAtOnce {
		tenant := share.FromContext(ctx)
		if i >= pagesAtOnce/2 {
			tenant = share.Tenant{Namespace: fmt.Sprint("another-", i)}
		}
		release, err := pages.Wait(ctx, tenant, 1)
		if err != nil {
			t.Fatal(err)
		}
		finish = append(finish, release)
	}
	return finish
}
