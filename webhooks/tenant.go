package webhooks

import (
	"context"

	"github.com/kcp-dev/logicalcluster/v3"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/fairqueue"
	"warrantgate.dev/internal/message"
)

// maxUserBytes limits the name of a user in a tenant and in the log. A user who may impersonate in a workspace of kcp may send a name of
// almost a MiB, and names are kept for as long as a request waits.
const maxUserBytes = 1024

// withTenant returns a context with the tenant of a request. cluster is "" on Kubernetes.
func withTenant(ctx context.Context, request admission.Request, cluster logicalcluster.Name) context.Context {
	return fairqueue.WithTenant(ctx, fairqueue.Tenant{
		LogicalCluster: cluster.String(), Namespace: request.Namespace, User: message.Clip(request.UserInfo.Username, maxUserBytes),
	})
}
