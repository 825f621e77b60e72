package owner

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"warrantgate.dev/internal/kcp"
)

// supervision is the time between two looks at whether all that waits is known. Twice that is how long it may not be.
const supervision = 5 * time.Second

// supervise calls restart when a logical cluster waits that the provider has not learned of. The provider watches the shards
// that answer when it first sees the WorkspaceType; those that do not, or not yet allow it, it does not try again.
func (i *Initializer) supervise(ctx context.Context, provider multicluster.Provider, restart func()) {
	log := logf.FromContext(ctx)
	missed := sets.New[logicalcluster.Name]()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		waiting, err := i.waiting(ctx)
		if err != nil {
			log.V(1).Info("not all that waits for the initializer could be seen", "error", err.Error())
		}
		for name := range waiting {
			if _, err := provider.Get(ctx, multicluster.ClusterName(name)); err == nil {
				waiting.Delete(name)
			}
		}
		if again := waiting.Intersection(missed); again.Len() > 0 && ctx.Err() == nil {
			log.Info("the initializer missed workspaces; starting it again", "clusters", sets.List(again))
			restart()
		}
		missed = waiting
	}, supervision)
}

// waiting returns the logical clusters that wait for the initializer on the shards that answer, and why others do not.
func (i *Initializer) waiting(ctx context.Context) (sets.Set[logicalcluster.Name], error) {
	ctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	root, err := kcp.NewClient(i.config)
	if err != nil {
		return nil, err
	}
	var wt tenancyv1alpha1.WorkspaceType
	if err := root.Get(ctx, client.ObjectKey{Name: warranted}, &wt); err != nil {
		return nil, fmt.Errorf("read WorkspaceType %s in root: %w", warranted, err)
	}
	found := sets.New[logicalcluster.Name]()
	var errs []error
	for _, endpoint := range wt.Status.VirtualWorkspaces {
		if !strings.Contains(endpoint.URL, "/initializingworkspaces/") {
			continue
		}
		c, err := wildcardClient(i.config, endpoint.URL)
		if err != nil {
			return nil, err
		}
		var list corev1alpha1.LogicalClusterList
		if err := c.List(ctx, &list); err != nil {
			errs = append(errs, fmt.Errorf("list what waits at %s: %w", endpoint.URL, err))
		}
		for n := range list.Items {
			found.Insert(logicalcluster.From(&list.Items[n]))
		}
	}
	return found, utilerrors.NewAggregate(errs)
}
