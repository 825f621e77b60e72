package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/google/uuid"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/fakes/capcstest"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

const (
	// The tenant's cluster and its namespace.
	tenant, pool = "tenant", "metal"

	// replacement is a machine that the tenant adds.
	replacement = "metal-worker-pool-1-hl9tl-x7k2p"

	// The Secret with warrantgate's credentials at CloudSigma.
	credentialsNamespace, credentialsName = "capcs-system", "cloudsigma-impersonation"
)

var (
	infrastructure = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}
	clusterAPI     = schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta1"}
)

// machines contains the servers and objects of the demos for Cluster API.
type machines struct {
	api         *kubetest.Server
	cloud       *cloudsigmatest.Cloud
	incident    cloudsigmatest.Incident
	provider    *capcstest.Provider
	warrantgate *kubetest.Warrantgate
}

// startMachines starts an API server, a CloudSigma and warrantgate.
func startMachines(ctx context.Context, d *demo) (err error) {
	start := time.Now()
	m := &d.machines
	if m.cloud, err = cloudsigmatest.Start(ctx); err != nil {
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
	crd, err := kubetest.ReportCRD(ctx)
	if err != nil {
		return err
	}
	if err := m.api.ApplyCRDs(ctx, crd); err != nil {
		return err
	}
	if err := d.populate(ctx); err != nil {
		return err
	}
	caFile, err := m.cloud.CAFile(m.api.Dir())
	if err != nil {
		return err
	}
	if err := d.startGates(ctx, fmt.Sprintf("cloudSigma: {api: %q, serviceProviderAPI: %q, caFile: %q}\naudit: {reports: true}\n",
		m.cloud.APITemplate(), m.cloud.ServiceProviderTemplate(), caFile),
		"--impersonation-enabled", "--impersonation-secret="+credentialsNamespace+"/"+credentialsName); err != nil {
		return err
	}
	return m.awaitGate(ctx)
}

// startAPI starts an API server with the kinds of Cluster API.
func (m *machines) startAPI(ctx context.Context) (err error) {
	m.api, err = kubetest.Start(ctx)
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

// populate creates the tenant's cluster with the machine of the incident, and the Secret with warrantgate's credentials.
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
	}
	for _, o := range objects {
		if err := m.api.Client().Create(ctx, o); err != nil {
			return err
		}
	}
	if err := m.createMachine(ctx, m.incident.Created.Name); err != nil {
		return err
	}
	if err := m.setInstanceID(ctx, m.incident.Created.Name, m.incident.Stale.UUID); err != nil {
		return err
	}
	d.say("In namespace %s, cluster %s acts as user %s. CloudSigma has two servers with the name of its machine %s: %s, which belongs to "+
		"this user, and %s, which an earlier attempt created as another user. A status update failed, and since then the machine names the wrong one.",
		tenant, pool, m.incident.User.Email, m.incident.Created.Name, m.incident.Created.UUID, m.incident.Stale.UUID)
	return nil
}

// createMachine creates a machine of the tenant's cluster, with the Machine of Cluster API that owns it.
func (m *machines) createMachine(ctx context.Context, name string) error {
	owner := object("Machine", name, map[string]any{"clusterName": pool})
	owner.SetGroupVersionKind(clusterAPI.WithKind("Machine"))
	if err := m.api.Client().Create(ctx, owner); err != nil {
		return err
	}
	machine := object("CloudSigmaMachine", name, map[string]any{})
	machine.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())})
	return m.api.Client().Create(ctx, machine)
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

// nameServer lets the provider create the server of a new machine.
func nameServer(ctx context.Context, d *demo) error {
	m := &d.machines
	if err := capcstest.Install(ctx, m.api.Client()); err != nil {
		return err
	}
	config, err := m.api.ServiceAccount(ctx, capcstest.Namespace, capcstest.ServiceAccount)
	if err != nil {
		return err
	}
	objects, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	m.provider = capcstest.New(objects, capcstest.Options{Cloud: m.cloud, Account: m.incident.Client})
	if err := m.createMachine(ctx, replacement); err != nil {
		return err
	}
	d.say("The provider creates the server of a new machine, and names it in two writes. An emulation of the provider makes the same ones:")
	return d.reconcile(ctx, replacement)
}

// reconcile lets the provider reconcile a machine, and shows its writes. All of them must be accepted, and the last one names one server.
func (d *demo) reconcile(ctx context.Context, name string) error {
	provider, key := d.machines.provider, client.ObjectKey{Namespace: tenant, Name: name}
	_, err := provider.Reconcile(ctx, reconcile.Request{NamespacedName: key})
	if err := errors.Join(append(provider.Errors(key), err)...); err != nil {
		return err
	}
	var last capcstest.Write
	for i, write := range provider.Writes(key) {
		switch {
		case write.Err != nil:
			return write.Err
		case i == 0: // it adds the finalizer
		case write.InstanceID != last.InstanceID:
			d.quote("PUT " + name + "/status: status.instanceID: " + write.InstanceID)
		case write.ProviderID != last.ProviderID:
			d.quote("PUT " + name + ": spec.providerID: " + write.ProviderID)
		}
		last = write
	}
	if last.InstanceID == "" || last.ProviderID != "cloudsigma://"+last.InstanceID {
		return fmt.Errorf("the provider did not name one server in both fields: %+v", last)
	}
	return nil
}

// denyStaleServer repeats the incident with another machine of the cluster.
func denyStaleServer(ctx context.Context, d *demo) error {
	m := &d.machines
	sibling := m.incident.Sibling
	if err := m.createMachine(ctx, sibling.Name); err != nil {
		return err
	}
	foreign := m.cloud.AddServer(m.incident.Region, m.incident.Other, sibling.Name).UUID
	d.say("The server of another machine is %s. For this machine, too, an earlier attempt created a server as another user: %s. "+
		"A controller with a stale status names it in the first of the two writes:", sibling.UUID, foreign)
	d.quote("PATCH " + sibling.Name + "/status: status.instanceID: " + foreign)
	err := m.setInstanceID(ctx, sibling.Name, foreign)
	return d.showDenial(err, "InstanceNotOwned", foreign, m.incident.User.Email, sibling.UUID)
}

// setInstanceID writes the ID of a server into a machine.
func (m *machines) setInstanceID(ctx context.Context, name, uuid string) error {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"instanceID":%q}}`, uuid))
	return m.api.Client().Status().Patch(ctx, object("CloudSigmaMachine", name, nil), patch)
}

// describeMachine shows the reason in "kubectl describe".
func describeMachine(ctx context.Context, d *demo) error {
	m := &d.machines
	name := m.incident.Sibling.Name
	var text string
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		var err error
		text, err = describeObject(m.api.Config(), infrastructure.WithKind("CloudSigmaMachine"), "cloudsigmamachines", tenant, name)
		return strings.Contains(text, "Denied: "), err
	})
	if err != nil {
		return fmt.Errorf("wait for the Event of the denial: %w\n%s", err, text)
	}
	d.quote("$ kubectl describe cloudsigmamachine -n " + tenant + " " + name + "\n" + text)
	return nil
}

// explainMachine shows what is wrong with the machine of the incident.
func explainMachine(ctx context.Context, d *demo) error {
	m := &d.machines
	d.say("In %s, such a write was stored before warrantgate was installed:", m.incident.Created.Name)
	return d.command(ctx, 1, m.incident.Stale.UUID, "explain", "machine", tenant+"/"+m.incident.Created.Name)
}

// showReport shows the report of the audit about the machine of the incident.
func showReport(ctx context.Context, d *demo) error {
	m := &d.machines
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(openreports.SchemeGroupVersion.WithKind("Report"))
	var report openreports.Report
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		err := m.api.Client().Get(ctx, client.ObjectKey{Namespace: tenant, Name: "warrantgate"}, stored)
		if client.IgnoreNotFound(err) != nil {
			return false, err
		}
		report = openreports.Report{}
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, &report)
		return report.Summary.Fail > 0, err
	})
	if err != nil {
		return fmt.Errorf("wait for the report of namespace %s: %w", tenant, err)
	}
	var text strings.Builder
	for _, result := range report.Results {
		fmt.Fprintf(&text, "%s %s/%s %s: %s\n", result.Result, result.Policy, result.Rule, result.Subjects[0].Name, result.Description)
	}
	d.say("The audit keeps a report of each namespace, for Policy Reporter and similar programs. The results of Report %s/warrantgate:", tenant)
	d.quote(text.String())
	return nil
}

// repairMachine lets the provider reconcile the machine of the incident, and the one whose wrong server was denied.
func repairMachine(ctx context.Context, d *demo) error {
	m := &d.machines
	d.say("The cloud answers the provider that the user may not see the server. It adopts the server of this name that it finds:")
	if err := d.reconcile(ctx, m.incident.Created.Name); err != nil {
		return err
	}
	d.say("It also names the server of the machine whose write was denied:")
	if err := d.reconcile(ctx, m.incident.Sibling.Name); err != nil {
		return err
	}
	return d.command(ctx, 0, "Nothing is wrong", "explain", "machine", tenant+"/"+m.incident.Created.Name)
}

// audit shows the findings of the audit, after a machine was deleted without its server.
func audit(ctx context.Context, d *demo) error {
	m := &d.machines
	machine := object("CloudSigmaMachine", replacement, nil)
	if err := m.api.Client().Get(ctx, client.ObjectKeyFromObject(machine), machine); err != nil {
		return err
	}
	left, _, _ := unstructured.NestedString(machine.Object, "status", "instanceID")
	machine.SetFinalizers(nil)
	if err := errors.Join(m.api.Client().Update(ctx, machine), m.api.Client().Delete(ctx, machine)); err != nil {
		return err
	}
	d.say("Somebody removes the finalizer of %s and deletes it, but not its server %s:", replacement, left)
	if err := d.command(ctx, 1, left, "audit"); err != nil {
		return err
	}
	if violations := m.cloud.Violations(); len(violations) > 0 {
		return fmt.Errorf("CloudSigma received unknown requests: %q", violations)
	}
	return nil
}

// command runs a command of warrantgate with the flags of serve, and shows it. It must exit with a status, and print a text.
func (d *demo) command(ctx context.Context, status int, part string, args ...string) error {
	m := &d.machines
	binary, err := asset.Path(asset.Warrantgate)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, binary, append(args, "--kubeconfig="+m.api.AdminKubeconfig(), "--config="+m.warrantgate.ConfigFile(),
		"--impersonation-enabled", "--impersonation-secret="+credentialsNamespace+"/"+credentialsName)...)
	d.showCommand(command.Args)
	output, err := command.CombinedOutput()
	d.show(string(output))
	if command.ProcessState == nil || command.ProcessState.ExitCode() != status || !strings.Contains(string(output), part) {
		return fmt.Errorf("it did not exit with %d and print %q: %w", status, part, err)
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
