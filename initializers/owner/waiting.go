package owner

import (
	"context"
	"errors"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/kcp-dev/sdk/apis/core"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/install"
	"warrantgate.dev/internal/kcp"
)

// Waiting returns the workspaces on all shards that wait for the initializer of the WorkspaceType warranted, as users know them. There are
// none if the type does not exist, or was not installed by warrantgate. It needs the permissions get and initialize on the type, in root.
func (s *Shards) Waiting(ctx context.Context) ([]string, error) {
	var wt tenancyv1alpha1.WorkspaceType
	if err := s.readWarranted(ctx, &wt); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !install.IsOurs(&wt) {
		return nil, nil
	}
	var waiting []string
	var errs []error
	for _, url := range sets.List(initializerURLsOf(&wt)) {
		found, err := s.waitingAt(ctx, url)
		if err != nil {
			errs = append(errs, explainInitializing(url, err))
		}
		waiting = append(waiting, found...)
	}
	return waiting, errors.Join(errs...)
}

// waitingAt returns the workspaces on one shard that wait for the initializer.
func (s *Shards) waitingAt(ctx context.Context, url string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	c, err := s.clientAt(url, logicalcluster.Wildcard)
	if err != nil {
		return nil, err
	}
	var list corev1alpha1.LogicalClusterList
	if err := c.List(ctx, &list); err != nil {
		return nil, err
	}
	waiting := make([]string, 0, len(list.Items))
	for i := range list.Items {
		// The administrator of a workspace can write the path of another one, so the path alone is not sufficient.
		name := "logical cluster " + logicalcluster.From(&list.Items[i]).String()
		if path := kcp.PathIn(&list.Items[i], core.LogicalClusterPathAnnotationKey); path != "" {
			name = fmt.Sprintf("%s (%s)", path, name)
		}
		waiting = append(waiting, name)
	}
	return waiting, nil
}
