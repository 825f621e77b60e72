package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
	"warrantgate.dev/internal/clusterapi"
)

const (
	// users is the number of users, each with a cluster in its own namespace.
	users = 50
	// machinesOfUser is the number of machines of each user in the audit. A page of the audit's lists has as many servers.
	machinesOfUser = 100
	// region is the region of all servers.
	region = "next"
	// serviceAccount is the service account that warrantgate uses to impersonate users.
	serviceAccount = "kube-dc-partner"
	// writers is the number of concurrent writes of machines.
	writers = 16
)

// machines is an API server with machines, and a CloudSigma with their servers.
type machines struct {
	api   *kubetest.Server
	cloud *cloudsigmatest.Cloud
	users []cloudsigmatest.User
	// account is the service account.
	account     cloudsigmatest.Client
	warrantgate *kubetest.Warrantgate
	// binary is the path of warrantgate. flags and env are its credentials for CloudSigma.
	binary     string
	flags, env []string
}

// measureMachines measures on a real API server the cost of an audit of all machines, and the time that the gate adds to the latency
// of CloudSigma.
func measureMachines(ctx context.Context, out *figures) (err error) {
	m := &machines{}
	defer func() { err = errors.Join(err, m.stop()) }() //nolint:contextcheck // what was started is stopped also when ctx has ended
	if err := m.begin(ctx, machinesOfUser); err != nil {
		return err
	}
	if err := m.measureAudit(ctx, out); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if err := m.measureReports(ctx, out); err != nil {
		return fmt.Errorf("reports: %w", err)
	}
	if err := m.measureAdded(ctx, out); err != nil {
		return fmt.Errorf("look up instances: %w", err)
	}
	if violations := m.cloud.Violations(); len(violations) > 0 {
		return fmt.Errorf("CloudSigma received unknown requests: %q", violations)
	}
	return nil
}

// begin starts the servers, gives each user a number of machines, and prepares a warrantgate.
func (m *machines) begin(ctx context.Context, each int) error {
	if err := m.start(ctx); err != nil {
		return err
	}
	if err := m.populate(ctx, each); err != nil {
		return err
	}
	return m.prepare(ctx)
}

func (m *machines) start(ctx context.Context) (err error) {
	progress("kube-apiserver and CloudSigma start")
	if m.cloud, err = cloudsigmatest.Start(ctx); err != nil {
		return err
	}
	m.cloud.SetTokenLife(2 * patience) // longer than the measurement, so that each is requested once
	m.api, err = kubetest.Start(ctx)
	return err
}

func (m *machines) stop() error {
	var errs []error
	if m.warrantgate != nil {
		errs = append(errs, m.warrantgate.Stop())
	}
	if m.api != nil {
		errs = append(errs, m.api.Stop())
	}
	if m.cloud != nil {
		errs = append(errs, m.cloud.Stop())
	}
	return errors.Join(errs...)
}

// populate creates users with their clusters and machines. warrantgate is not installed yet, so that no gate evaluates them.
func (m *machines) populate(ctx context.Context, each int) error {
	progress("%d machines of %d users", users*each, users)
	m.account = m.cloud.AddClient(serviceAccount)
	for i := range users {
		user := m.cloud.AddUser(fmt.Sprintf("user-%d@example.com", i))
		m.users = append(m.users, user)
		if err := m.cloud.AllowImpersonation(serviceAccount, user.Email); err != nil {
			return err
		}
		cluster := &unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{"region": region, "userEmail": user.Email},
		}}
		cluster.SetGroupVersionKind(infrastructure.WithKind("CloudSigmaCluster"))
		cluster.SetNamespace(namespaceOf(i))
		cluster.SetName(pool)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceOf(i)}}
		for _, object := range []client.Object{namespace, cluster, ownerOf(i)} {
			if err := m.api.Client().Create(ctx, object); err != nil {
				return err
			}
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range users * each {
		group.Go(func() error { return m.addMachine(ctx, i%users, i/users) })
	}
	return group.Wait()
}

// ownerOf is the Machine of Cluster API that owns the machines of a user. The gate reads it at each claim.
func ownerOf(user int) *unstructured.Unstructured {
	owner := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterName": pool}}}
	owner.SetAPIVersion(clusterapi.OwnerMachines.Group + "/v1beta1")
	owner.SetKind(clusterapi.OwnerKind)
	owner.SetNamespace(namespaceOf(user))
	owner.SetName(machineOne)
	owner.SetLabels(map[string]string{clusterapi.ClusterNameLabel: pool})
	return owner
}

// addMachine creates a machine with its server, as a provider does.
func (m *machines) addMachine(ctx context.Context, user, number int) error {
	machine, err := newMachine(namespaceOf(user), fmt.Sprintf("pool-worker-%d", number))
	if err != nil {
		return err
	}
	machine.SetUID("")
	machine.SetResourceVersion("")
	machine.SetManagedFields(nil)
	if err := m.api.Client().Create(ctx, machine); err != nil {
		return err
	}
	server := m.cloud.AddServer(region, m.users[user], machine.GetName(),
		cloudsigmatest.WithMeta(cloudsigmatest.MachineUID, string(machine.GetUID())))
	if err := nameInstance(machine, server.UUID); err != nil {
		return err
	}
	return m.api.Client().Status().Update(ctx, machine)
}

// prepare prepares a warrantgate without installing it.
func (m *machines) prepare(ctx context.Context) error {
	binary, err := asset.Path(asset.Warrantgate)
	if err != nil {
		return err
	}
	if m.binary, err = installed(binary, m.api.Dir()); err != nil {
		return err
	}
	caFile, err := m.cloud.CAFile(m.api.Dir())
	if err != nil {
		return err
	}
	m.flags = []string{"--impersonation-enabled", "--oauth-url=" + m.cloud.OAuthURL(), "--client-id=" + m.account.ID}
	m.env = []string{"CLOUDSIGMA_CLIENT_SECRET=" + m.account.Secret}
	// By default, warrantgate sends at most 16 requests to the cloud at once. This benchmark measures the gate, so each caller can send its request.
	configuration := fmt.Sprintf("apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"+
		"audit: {mode: \"Off\"}\ncloudSigma: {api: %q, serviceProviderAPI: %q, caFile: %q, concurrency: %d}\n",
		m.cloud.APITemplate(), m.cloud.ServiceProviderTemplate(), caFile, users)
	m.warrantgate, err = kubetest.NewWarrantgate(ctx, m.api, kubetest.WarrantgateOptions{
		Binary: m.binary, Configuration: configuration, Args: m.flags, Env: m.env,
	})
	return err
}

func namespaceOf(user int) string { return fmt.Sprintf("user-%d", user) }

// rootsIn returns the CAs in a file.
func rootsIn(file string) (*x509.CertPool, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(content)
	return roots, nil
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, duration time.Duration) error {
	select {
	case <-time.After(duration):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
