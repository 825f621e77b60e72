package webhooks

import (
	"context"

	"github.com/kcp-dev/logicalcluster/v3"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/share"
)

// withTenant returns a context with the tenant of a request. cluster is "" on Kubernetes.
func withTenant(ctx context.Context, request admission.Request, cluster logicalcluster.Name) context.Context {
	return share.WithTenant(ctx, share.TenantOf(cluster.String(), request.Namespace))
}
