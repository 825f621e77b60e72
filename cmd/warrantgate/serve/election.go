package serve

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/install"
)

const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// election runs a function on the one replica that holds a Lease.
type election struct {
	lock *resourcelock.LeaseLock
}

// newElection returns the election with the Lease of that namespace and name, in the API server of config.
func newElection(config *rest.Config, namespace, name string) (*election, error) {
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for leases: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	return &election{lock: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name},
		Client:     leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
		// Uninstall removes only Leases with this label.
		Labels: install.Labels(),
	}}, nil
}

// Run calls lead whenever this replica gets the Lease, until ctx ends. The context of lead ends when this replica loses the Lease.
// lead has returned before Run calls it again.
func (e *election) Run(ctx context.Context, lead func(context.Context)) error {
	log := logf.FromContext(ctx)
	var leading sync.WaitGroup
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: e.lock, Name: e.lock.LeaseMeta.Name, ReleaseOnCancel: true,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				leading.Add(1)
				defer leading.Done()
				log.Info("this replica holds the Lease")
				lead(logf.IntoContext(ctx, log))
			},
			OnStoppedLeading: func() { log.Info("this replica does not hold the Lease") },
		},
	})
	if err != nil {
		return fmt.Errorf("elect a leader with the Lease %q: %w", e.lock.LeaseMeta.Name, err)
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		elector.Run(ctx)
		leading.Wait()
	}, retryPeriod)
	return nil
}
