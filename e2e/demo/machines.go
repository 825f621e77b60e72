package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

const (
	// The tenant's cluster and its namespace.
	tenant, pool = "tenant", "metal"
	// clusterAuthor is a user who may write clusters there, and may not impersonate any user.
	clusterAuthor = "carol"

	// The Secret with warrantgate's credentials at CloudSigma.
	credentialsNamespace, credentialsName = "capcs-system", "cloudsigma-impersonation"
)

var infrastructure = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}

// machines contains the servers and objects of the demos for Cluster API.
type machines struct {
	api         *kubetest.Server
	cloud       *cloudsigmatest.Cloud
	incident    cloudsigmatest.Incident
	warrantgate *kubetest.Warrantgate
}

// startMachines starts an API server, a CloudSigma and warrantgate.
func startMachines(ctx context.Context, d *demo) (err error) {
	start := time.Now()
	m := &d.machines
	if m.cloud, err = cloudsigmatest.Start(ctx, cloudsigmatest.Options{}); err != nil {
		return err
	}
	if m.incident, err = m.cloud.Incident(); err != nil {
		return err
	}
	if err := m.startAPI(ctx); err != nil {
		return err
	}
	d.say("A kube-apiserver is ready at %s after %s, with the kinds of Cluster API and its provider for CloudSigma. An emulated "+
		"CloudSigma and a real OpenID provider are at %s.", m.api.Config().Host, seconds(time.Since(start)), m.cloud.OAuthURL())
	if err := d.populate(ctx); err != nil {
		return err
	}
	caFile, err := m.cloud.CAFile(m.api.Dir())
	if err != nil {
		return err
	}
	if err := d.startGates(ctx, fmt.Sprintf("cloudSigma: {api: %q, serviceProviderAPI: %q, caFile: %q}\n",
		m.cloud.APITemplate(), m.cloud.ServiceProviderTemplate(), caFile),
		"--impersonation-enabled", "--impersonation-secret="+credentialsNamespace+"/"+credentialsName); err != nil {
		return err
	}
	return m.awaitGate(ctx)
}

// startAPI starts an API server with the kinds of Cluster API.
func (m *machines) startAPI(ctx context.Context) error {
	apiServer, err := asset.Path(asset.KubeAPIServer)
	if err != nil {
		return err
	}
	etcd, err := asset.Path(asset.Etcd)
	if err != nil {
		return err
	}
	m.api, err = kubetest.Start(ctx, kubetest.Options{KubeAPIServer: apiServer, Etcd: etcd})
	return err
}

// startGates installs warrantgate in the API server and starts it.
func (d *demo) startGates(ctx context.Context, configuration string, args ...string) error {
	binary, err := asset.Path(asset.Warrantgate)
	if err != nil {
		return err
	}
	m := &d.machines
	m.warrantgate, err = kubetest.NewWarrantgate(ctx, m.api, kubetest.WarrantgateOptions{
		Binary:        binary,
		Configuration: "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n" + configuration,
		Args:          append(args, "--log-format=text"),
	})
	if err != nil {
		return err
	}
	d.say("An administrator installs warrantgate there once. It serves as the user %q:", kubetest.WarrantgateUser)
	output, err := m.warrantgate.Install(ctx)
	if err != nil {
		return err
	}
	d.show(output)
	if err := m.warrantgate.Start(ctx); err != nil {
		return err
	}
	d.showCommand(m.warrantgate.ServeCommand())
	return nil
}

// populate creates the tenant's cluster, and the Secret with warrantgate's credentials.
func (d *demo) populate(ctx context.Context) error {
	m := &d.machines
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: credentialsNamespace}},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: credentialsNamespace, Name: credentialsName},
			StringData: map[string]string{
				"oauth-url": m.cloud.OAuthURL(), "client-id": m.incident.Client.ID, "client-secret": m.incident.Client.Secret,
			},
		},
		object("CloudSigmaCluster", pool, map[string]any{"region": m.incident.Region, "userEmail": m.incident.User.Email}),
		object("CloudSigmaMachine", m.incident.Created.Name, map[string]any{}),
	}
	for _, o := range objects {
		if err := m.api.Client().Create(ctx, o); err != nil {
			return err
		}
	}
	d.say("In namespace %s, cluster %s acts as user %s. CloudSigma has two servers with the name of its machine %s: %s, which belongs to "+
		"this user, and %s, which an earlier attempt created as another user.", tenant, pool, m.incident.User.Email, m.incident.Created.Name,
		m.incident.Created.UUID, m.incident.Stale.UUID)
	return nil
}

// awaitGate waits until the API server calls the gate, a moment after the installation of the webhook configuration.
func (m *machines) awaitGate(ctx context.Context) error {
	canary := object("CloudSigmaMachine", "canary", map[string]any{"providerID": "cloudsigma://" + uuid.NewString()})
	canary.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "no-cluster"})
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		err := m.api.Client().Create(ctx, canary.DeepCopy(), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "machine.warrantgate.dev"), nil
	})
}

// denyStaleServer replays the incident: a controller writes the stale server's UUID into the machine.
func denyStaleServer(ctx context.Context, d *demo) error {
	m := &d.machines
	d.say("The provider's controller writes its recorded UUID into the machine's status:")
	d.quote("PATCH status.instanceID: " + m.incident.Stale.UUID)
	err := m.setInstanceID(ctx, m.incident.Stale.UUID)
	if err := d.showDenial(err, "InstanceNotOwned", m.incident.Stale.UUID, m.incident.User.Email, m.incident.Created.UUID); err != nil {
		return err
	}
	d.say("It writes the UUID of the user's own server instead, which is accepted:")
	d.quote("PATCH status.instanceID: " + m.incident.Created.UUID)
	return m.setInstanceID(ctx, m.incident.Created.UUID)
}

func (m *machines) setInstanceID(ctx context.Context, uuid string) error {
	machine := object("CloudSigmaMachine", m.incident.Created.Name, nil)
	patch := client.RawPatch("application/merge-patch+json", []byte(fmt.Sprintf(`{"status":{"instanceID":%q}}`, uuid)))
	return m.api.Client().Status().Patch(ctx, machine, patch)
}

// describeMachine shows the reason in "kubectl describe".
func describeMachine(ctx context.Context, d *demo) error {
	m := &d.machines
	name := m.incident.Created.Name
	var text string
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		var err error
		text, err = describeObject(m.api.Config(), infrastructure.WithKind("CloudSigmaMachine"), "cloudsigmamachines", tenant, name)
		return strings.Contains(text, "InstanceNotOwned"), err
	})
	if err != nil {
		return fmt.Errorf("wait for the Event InstanceNotOwned: %w\n%s", err, text)
	}
	d.quote("$ kubectl describe cloudsigmamachine -n " + tenant + " " + name + "\n" + text)
	return nil
}

// denyForeignUser creates a cluster that names a user that its author may not impersonate.
func denyForeignUser(ctx context.Context, d *demo) error {
	m := &d.machines
	if err := m.letWriteClusters(ctx); err != nil {
		return err
	}
	config, err := m.api.User(clusterAuthor)
	if err != nil {
		return err
	}
	author, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	d.say("%s may write clusters. She creates one that acts as %s, to use servers of that account:", clusterAuthor, m.incident.User.Email)
	d.quote("CREATE CloudSigmaCluster with spec.userEmail: " + m.incident.User.Email)
	err = author.Create(ctx, object("CloudSigmaCluster", "hers", map[string]any{
		"region": m.incident.Region, "userEmail": m.incident.User.Email,
	}))
	return d.denied(err, clusterAuthor, "may not impersonate", m.incident.User.Email) // the denial of an admission policy, which has no cause
}

// audit shows the findings of the audit, after a machine was deleted without its server.
func audit(ctx context.Context, d *demo) error {
	m := &d.machines
	left := m.cloud.AddServer(m.incident.Region, m.incident.User, "metal-worker-pool-1-hl9tl-x7k2p",
		cloudsigmatest.WithMeta(cloudsigmatest.MachineUID, "0f4e4f5c-54a1-4b57-8c2d-3f2c1c0b7a11"))
	d.say("A machine was deleted by hand, but not its server %s. The audit reports it:", left.UUID)
	kubeconfig, err := m.api.KubeconfigFile("admin", m.api.Config())
	if err != nil {
		return err
	}
	binary, err := asset.Path(asset.Warrantgate)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, binary, "audit", "--kubeconfig="+kubeconfig, "--config="+m.warrantgate.ConfigFile(),
		"--impersonation-enabled", "--impersonation-secret="+credentialsNamespace+"/"+credentialsName)
	d.showCommand(command.Args)
	output, err := command.CombinedOutput()
	d.show(string(output))
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(output), left.UUID) {
		return fmt.Errorf("the audit does not report %s by its exit code 1: %w", left.UUID, err)
	}
	if violations := m.cloud.Violations(); len(violations) > 0 {
		return fmt.Errorf("CloudSigma received unknown requests: %q", violations)
	}
	return nil
}

// showDenial prints a denial as kubectl does, if it has the cause and the expected text.
func (d *demo) showDenial(err error, cause string, parts ...string) error {
	if err == nil {
		return fmt.Errorf("it was not denied as %s", cause)
	}
	if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, metav1.CauseType(cause)) {
		return fmt.Errorf("it was not denied as %s: %w", cause, err)
	}
	return d.denied(err, parts...)
}

// object is an object of the tenant, of the provider's kinds. Machines belong to its cluster.
func object(kind, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(infrastructure.WithKind(kind))
	o.SetNamespace(tenant)
	o.SetName(name)
	o.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": pool})
	if spec != nil {
		o.Object["spec"] = spec
	}
	return o
}

func (m *machines) cleanUp() error {
	var err error
	if m.warrantgate != nil {
		err = m.warrantgate.Stop()
	}
	if m.api != nil {
		err = errors.Join(err, m.api.Stop())
	}
	if m.cloud != nil {
		err = errors.Join(err, m.cloud.Stop())
	}
	return err
}

// letWriteClusters gives the author the permission to write clusters of the tenant.
func (m *machines) letWriteClusters(ctx context.Context) error {
	const name = "cluster-author"
	for _, o := range []client.Object{
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: name}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{infrastructure.Group}, Resources: []string{"cloudsigmaclusters"}, Verbs: []string{"create"}},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: clusterAuthor}},
		},
	} {
		if err := m.api.Client().Create(ctx, o); err != nil {
			return err
		}
	}
	return nil
}
