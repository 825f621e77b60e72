package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
	"warrantgate.dev/webhooks"
)

const (
	writesAddedP99Bound = 20

	// pacedWriters is the number of writers, each with its own machine on its own connection.
	pacedWriters = 200
	// writesPerSecond is the rate of all writers together. It is well below the capacity of an API server with its etcd, a
	// warrantgate and the writers on two processors. At a higher rate, all wait for each other, and the measurement would show the
	// length of the queue instead of the time of a write.
	writesPerSecond = 100
	// Writes alternate, in short rounds, between an API server that calls the gate and one that does not.
	writingRounds, writingWarmUpRounds = 16, 1
	writingRoundTime                   = 4 * time.Second
)

// The two ways to write.
const (
	gated = "gated"
	plain = "plain"
)

// measureWrites compares writes to a real API server that calls the gate on machines with the same writes without the gate. Each of
// 200 writers names an instance of its user in the status of its machine, as a provider does, and another one the next time. The
// verdicts are in the gate's cache: the figures of machines include the latency of the cloud.
func measureWrites(ctx context.Context, out *figures) (err error) {
	m := &machines{}
	defer func() { err = errors.Join(err, m.stop()) }() //nolint:contextcheck // what was started is stopped also when ctx has ended
	if err := m.begin(ctx, pacedWriters/users); err != nil {
		return err
	}
	if _, err := m.warrantgate.Install(ctx); err != nil {
		return err
	}
	if err := m.warrantgate.Start(ctx); err != nil {
		return err
	}
	r, err := m.webhookConfiguration(ctx)
	if err != nil {
		return err
	}
	writers, err := m.newWriters(ctx)
	if err != nil {
		return err
	}
	took := map[string][][]float64{}
	failed := 0
	for n := range writingWarmUpRounds + writingRounds {
		if n%6 == 0 {
			progress("%d writers, %d writes/s: round %d of %d", pacedWriters, writesPerSecond, n+1, writingWarmUpRounds+writingRounds)
		}
		for _, way := range turns(n, gated, plain) {
			round, err := m.writeRound(ctx, r, writers, way)
			if err != nil {
				return err
			}
			if round.firstDrop != nil {
				progress("%s: %d writes failed, the first of them because of: %v", way, round.dropped, round.firstDrop)
			}
			failed += round.dropped
			if n >= writingWarmUpRounds {
				took[way] = append(took[way], round.millis)
			}
		}
	}
	out.atMost("writes_added_p99_ms", added(took[gated], took[plain], 0.99), "ms", writesAddedP99Bound)
	out.exactly("writes_failed", float64(failed), "writes", 0)
	return nil
}

// writeRound makes all writers write for a round, while the API server calls the gate or does not. It returns an error if the number
// of verdicts differs.
func (m *machines) writeRound(ctx context.Context, r *webhookConfiguration, writers []func(context.Context) error, way string) (loadRound, error) {
	if err := r.set(ctx, way == gated); err != nil {
		return loadRound{}, err
	}
	before, err := m.decisions(ctx)
	if err != nil {
		return loadRound{}, err
	}
	round := writePaced(ctx, writers, time.Second*pacedWriters/writesPerSecond, writingRoundTime)
	after, err := m.decisions(ctx)
	if err != nil {
		return loadRound{}, err
	}
	decided := int(after - before)
	// The API server calls the gate again if the first call had an outdated object.
	if decided < len(round.millis)-round.dropped && way == gated || decided > 0 && way == plain {
		return loadRound{}, fmt.Errorf("%s: the gate was called for %d of %d writes", way, decided, len(round.millis))
	}
	return round, ctx.Err()
}

// decisions is the number of decisions of the gate on machines.
func (m *machines) decisions(ctx context.Context) (float64, error) {
	return m.warrantgate.Metric(ctx, "warrantgate_admissions_total", map[string]string{"gate": "machine-ownership"})
}

// newWriters returns one writer for each machine.
func (m *machines) newWriters(ctx context.Context) ([]func(context.Context) error, error) {
	var all unstructured.UnstructuredList
	all.SetGroupVersionKind(infrastructure.WithKind(machineKind.Kind + "List"))
	if err := m.api.Client().List(ctx, &all); err != nil {
		return nil, err
	}
	owners := map[string]cloudsigmatest.User{}
	for i, user := range m.users {
		owners[namespaceOf(i)] = user
	}
	writers := make([]func(context.Context) error, 0, len(all.Items))
	for i := range all.Items {
		machine := &all.Items[i]
		c, err := m.ownClient()
		if err != nil {
			return nil, err
		}
		held, _, err := unstructured.NestedString(machine.Object, "status", "instanceID")
		if err != nil {
			return nil, err
		}
		other := m.cloud.AddServer(region, owners[machine.GetNamespace()], machine.GetName()).UUID
		instances := []string{other, held}
		writers = append(writers, func(ctx context.Context) error {
			named := instances[0]
			instances[0], instances[1] = instances[1], named
			return nameInStatus(ctx, c, machine, named)
		})
	}
	if len(writers) != pacedWriters {
		return nil, fmt.Errorf("there are %d machines, not %d", len(writers), pacedWriters)
	}
	return writers, nil
}

// ownClient returns a client with its own connection. It does not wait for the watch cache.
func (m *machines) ownClient() (client.Client, error) {
	config := rest.CopyConfig(m.api.Config())
	config.QPS = -1
	config.Dial = (&net.Dialer{}).DialContext // clients with the same function would share their connections
	return client.New(config, client.Options{Mapper: m.api.Client().RESTMapper()})
}

// nameInStatus names an instance in a machine's status.
func nameInStatus(ctx context.Context, c client.Client, machine *unstructured.Unstructured, id string, options ...client.SubResourcePatchOption) error {
	patched := &unstructured.Unstructured{}
	patched.SetGroupVersionKind(machineKind)
	patched.SetNamespace(machine.GetNamespace())
	patched.SetName(machine.GetName())
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"instanceID":%q}}`, id))
	return c.Status().Patch(ctx, patched, patch, options...)
}

// writePaced makes each writer write once per interval, for a time. The writers start one after the other, spread over the interval.
// The time of a write begins when it is due, so it includes the wait for an earlier one.
func writePaced(ctx context.Context, writers []func(context.Context) error, interval, duration time.Duration) loadRound {
	var all loadRound
	var lock sync.Mutex
	var group errgroup.Group
	start := time.Now()
	for i, write := range writers {
		group.Go(func() error {
			var own loadRound
			first := interval * time.Duration(i) / time.Duration(len(writers))
			for due := first; due < duration; due += interval {
				if err := pause(ctx, time.Until(start.Add(due))); err != nil {
					return err
				}
				err := write(ctx)
				own.add(time.Since(start.Add(due)), err)
			}
			lock.Lock()
			defer lock.Unlock()
			all.join(own)
			return nil
		})
	}
	_ = group.Wait() // the caller checks ctx
	return all
}

// webhookConfiguration is the webhook configuration of the gate.
type webhookConfiguration struct {
	client  client.Client
	held    *admissionregistrationv1.ValidatingWebhookConfiguration
	machine *unstructured.Unstructured
	// foreign is an instance that the machine may not name.
	foreign string
}

func (m *machines) webhookConfiguration(ctx context.Context) (*webhookConfiguration, error) {
	r := &webhookConfiguration{client: m.api.Client(), held: &admissionregistrationv1.ValidatingWebhookConfiguration{}, machine: &unstructured.Unstructured{}}
	r.machine.SetNamespace(namespaceOf(0))
	r.machine.SetName("pool-worker-0")
	r.foreign = m.cloud.AddServer(region, m.cloud.AddUser("another-user@example.com"), "foreign").UUID
	err := r.client.Get(ctx, client.ObjectKey{Name: webhooks.ConfigurationName}, r.held)
	return r, err
}

// set creates or deletes the webhook configuration, and returns once the API server has observed it.
func (r *webhookConfiguration) set(ctx context.Context, installed bool) error {
	changed := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: r.held.Name, Labels: r.held.Labels}, Webhooks: r.held.Webhooks,
	}
	var err error
	if installed {
		err = r.client.Create(ctx, changed)
	} else {
		err = client.IgnoreNotFound(r.client.Delete(ctx, changed))
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := nameInStatus(ctx, r.client, r.machine, r.foreign, client.DryRunAll)
		denied := apierrors.IsForbidden(err)
		if err != nil && !denied {
			return false, err
		}
		return denied == installed, nil
	})
	if err != nil {
		return fmt.Errorf("wait until the API server calls the gate, or no longer calls it: %w", err)
	}
	return nil
}
