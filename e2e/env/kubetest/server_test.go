//go:build e2e

package kubetest_test

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kubetest"
)

const infrastructure = "infrastructure.cluster.x-k8s.io"

// start starts a server for one test. At the end, it fails if a process or a file of the server remains.
func start(t *testing.T, args ...string) *kubetest.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := kubetest.Start(ctx, options(t, args...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if processes := processesOf(t, s.Dir()); len(processes) == 0 {
			t.Error("no process has the directory of the server in its command line, so the check after Stop() proves nothing")
		}
		if err := s.Stop(); err != nil {
			t.Errorf("Stop() error = %v", err)
		}
		if left := processesOf(t, s.Dir()); len(left) > 0 {
			t.Errorf("processes are left:\n%s", strings.Join(left, "\n"))
		}
		if _, err := os.Stat(s.Dir()); !os.IsNotExist(err) {
			t.Errorf("the directory is left: %v", err)
		}
	})
	return s
}

func options(t *testing.T, args ...string) kubetest.Options {
	t.Helper()
	kubeAPIServer, err := asset.Path(asset.KubeAPIServer)
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := asset.Path(asset.Etcd)
	if err != nil {
		t.Fatal(err)
	}
	return kubetest.Options{KubeAPIServer: kubeAPIServer, Etcd: etcd, Args: args}
}

// processesOf returns the command lines of all processes that contain a directory.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	output, err := exec.CommandContext(context.WithoutCancel(t.Context()), "ps", "-A", "-o", "pid=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(output)) {
		if strings.Contains(line, dir) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func TestServer(t *testing.T) {
	auditDir := t.TempDir()
	policy, audit := filepath.Join(auditDir, "policy.yaml"), filepath.Join(auditDir, "audit.log")
	content := "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"
	if err := os.WriteFile(policy, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, "--audit-policy-file="+policy, "--audit-log-path="+audit)

	t.Run("it reports the version of the module that it is built from", func(t *testing.T) { version(t, s) })
	t.Run("it serves the kinds of Cluster API and its providers", func(t *testing.T) { serves(t, s) })
	t.Run("the status of a machine is a subresource", func(t *testing.T) { machineStatus(t, s) })
	t.Run("no controller creates Pods for a Deployment", func(t *testing.T) { deployment(t, s) })
	t.Run("a user has the permissions of RBAC", func(t *testing.T) { user(t, s) })
	t.Run("a service account has the permissions of RBAC", func(t *testing.T) { serviceAccount(t, s) })
	t.Run("a write returns when the cache contains the change", func(t *testing.T) { changesAreCached(t, s) })
	t.Run("more kinds can be added", func(t *testing.T) { furtherKind(t, s) })
	t.Run("the administrator installs warrantgate, which serves as its own user", func(t *testing.T) { warrantgate(t, s) })
	t.Run("arguments reach kube-apiserver", func(t *testing.T) {
		log, err := os.ReadFile(audit)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(log), "cloudsigmamachines") {
			t.Error("the audit log contains no machine")
		}
	})
}

func TestCanceledStartLeavesNoProcesses(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	options := options(t)
	options.Dir = t.TempDir()
	cause := errors.New("given up")
	go func() {
		// Its log shows that etcd has been started.
		_ = wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
			info, err := os.Stat(filepath.Join(options.Dir, "etcd.log"))
			return err == nil && info.Size() > 0, nil
		})
		cancel(cause)
	}()
	if _, err := kubetest.Start(ctx, options); !errors.Is(err, cause) {
		t.Errorf("Start() error = %v, want %v", err, cause)
	}
	if left := processesOf(t, options.Dir); len(left) > 0 {
		t.Errorf("processes are left:\n%s", strings.Join(left, "\n"))
	}
}

func TestStartReportsWhyAServerExited(t *testing.T) {
	options := options(t, "--authorization-mode=Nonsense")
	_, err := kubetest.Start(t.Context(), options)
	if err == nil || !strings.Contains(err.Error(), "is not a valid mode") {
		t.Errorf("Start() error = %v, want the message of kube-apiserver", err)
	}
}

// version also works for releases, whose module has no version.
func version(t *testing.T, s *kubetest.Server) {
	t.Helper()
	info, err := buildinfo.ReadFile(options(t).KubeAPIServer)
	if err != nil {
		t.Fatal(err)
	}
	c, err := discovery.NewDiscoveryClientForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range info.Deps {
		if module.Path == "k8s.io/kubernetes" && got.GitVersion != module.Version {
			t.Errorf("version = %s, want %s", got.GitVersion, module.Version)
		}
	}
	if want := "v" + got.Major + "." + got.Minor + "."; !strings.HasPrefix(got.GitVersion, want) {
		t.Errorf("version = %s, want %sx", got.GitVersion, want)
	}
}

func newObject(group, version, kind, name string, content map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: content}
	object.SetAPIVersion(group + "/" + version)
	object.SetKind(kind)
	object.SetNamespace(metav1.NamespaceDefault)
	object.SetName(name)
	return object
}

func newMachine(version, name string) *unstructured.Unstructured {
	return newObject(infrastructure, version, "CloudSigmaMachine", name, map[string]any{
		"spec": map[string]any{"providerID": "cloudsigma://63dd227a-9502-4311-919e-cd49f3416753", "cpu": int64(2000)},
	})
}

func serves(t *testing.T, s *kubetest.Server) {
	t.Helper()
	for _, object := range []*unstructured.Unstructured{
		newMachine("v1beta1", "beta"),
		newMachine("v1alpha4", "alpha"),
		newObject(infrastructure, "v1beta1", "CloudSigmaCluster", "cluster", map[string]any{
			"spec": map[string]any{"region": "next", "userRef": map[string]any{"name": "owner", "namespace": "tenant"}},
		}),
		newObject("k8s.kube-dc.com", "v1alpha1", "KdcCluster", "cluster", map[string]any{}),
		newObject("cluster.x-k8s.io", "v1beta1", "Cluster", "cluster", map[string]any{
			"spec": map[string]any{"infrastructureRef": map[string]any{"kind": "KdcCluster", "name": "cluster"}},
		}),
		newObject("cluster.x-k8s.io", "v1beta1", "Machine", "machine", map[string]any{
			"spec": map[string]any{"clusterName": "cluster", "bootstrap": map[string]any{"dataSecretName": "data"}},
		}),
	} {
		want, _, err := unstructured.NestedMap(object.Object, "spec")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Client().Create(t.Context(), object); err != nil {
			t.Errorf("create %s %s: %v", object.GetKind(), object.GetName(), err)
			continue
		}
		got, _, err := unstructured.NestedMap(object.Object, "spec")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("spec of %s is not kept (-want +got):\n%s", object.GetKind(), diff)
		}
	}
}

func machineStatus(t *testing.T, s *kubetest.Server) {
	t.Helper()
	status := map[string]any{
		"instanceID": "63dd227a-9502-4311-919e-cd49f3416753", "instanceState": "running",
		"addresses": []any{map[string]any{"type": "InternalIP", "address": "10.0.0.7"}},
		"ready":     true,
	}
	machine := newMachine("v1beta1", "with-status")
	machine.Object["status"] = status
	if err := s.Client().Create(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	if _, found := machine.Object["status"]; found {
		t.Error("the status was written with the machine")
	}
	machine.Object["status"] = status
	if err := s.Client().Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	other := newMachine("v1alpha4", machine.GetName())
	if err := s.Client().Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(status, other.Object["status"]); diff != "" {
		t.Errorf("status through the other version (-want +got):\n%s", diff)
	}
}

func deployment(t *testing.T, s *kubetest.Server) {
	t.Helper()
	labels := map[string]string{"app": "ccm"}
	ccm := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "ccm"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "ccm", Image: "ccm"}}},
			},
		},
	}
	if err := s.Client().Create(t.Context(), ccm); err != nil {
		t.Fatal(err)
	}
}

func user(t *testing.T, s *kubetest.Server) {
	t.Helper()
	alice, err := s.User("alice", "operators")
	if err != nil {
		t.Fatal(err)
	}
	path, err := s.KubeconfigFile("alice", alice)
	if err != nil {
		t.Fatal(err)
	}
	if alice, err = clientcmd.BuildConfigFromFlags("", path); err != nil {
		t.Fatal(err)
	}
	mayRead(t, s, alice, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "operators"})
}

func serviceAccount(t *testing.T, s *kubetest.Server) {
	t.Helper()
	capcs, err := s.ServiceAccount(t.Context(), "capcs-system", "capcs")
	if err != nil {
		t.Fatal(err)
	}
	mayRead(t, s, capcs, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "capcs-system", Name: "capcs"})
}

// mayRead expects that config may not read machines until subject has the permission, and may then only read them.
func mayRead(t *testing.T, s *kubetest.Server, config *rest.Config, subject rbacv1.Subject) {
	t.Helper()
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(newMachine("v1beta1", "").GroupVersionKind())
	if err := c.List(t.Context(), list); !apierrors.IsForbidden(err) {
		t.Fatalf("List() without the permission: error = %v, want Forbidden", err)
	}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "read-machines-" + subject.Name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{infrastructure}, Resources: []string{"cloudsigmamachines"}, Verbs: []string{"list"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{subject},
	}
	for _, object := range []client.Object{role, binding} {
		if err := s.Client().Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	var last error
	err = wait.PollUntilContextTimeout(t.Context(), pollInterval, patience, true, func(ctx context.Context) (bool, error) {
		last = c.List(ctx, list)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("List() with the permission: %v: %v", err, last)
	}
	if err := c.Create(t.Context(), newMachine("v1beta1", "of-"+subject.Name)); !apierrors.IsForbidden(err) {
		t.Errorf("Create() without the permission: error = %v, want Forbidden", err)
	}
}

func furtherKind(t *testing.T, s *kubetest.Server) {
	t.Helper()
	preserve := true
	err := s.ApplyCRDs(t.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "openstackmachines." + infrastructure},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: infrastructure, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "OpenStackMachine", Plural: "openstackmachines"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1beta1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve},
				},
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	machine := newObject(infrastructure, "v1beta1", "OpenStackMachine", "machine", map[string]any{})
	if err := s.Client().Create(t.Context(), machine); err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.ApplyCRDs(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("ApplyCRDs() after the end of its context: error = %v", err)
	}
}

func warrantgate(t *testing.T, s *kubetest.Server) {
	t.Helper()
	w, err := kubetest.StartWarrantgate(t.Context(), s, kubetest.WarrantgateOptions{
		Binary: os.Args[0], Args: []string{"--log-format=text"}, Env: []string{standInEnv + "=gate"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Kill)
	log, err := os.ReadFile(w.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("gate serve as warrantgate: --log-format=text\n", string(log)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	output, err := w.Install(t.Context(), "--dry-run")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("gate install kubernetes as kubetest-admin: %s --user=warrantgate --config=%s --dry-run\n",
		strings.Join(w.InstallArgs(), " "), w.ConfigFile())
	if diff := cmp.Diff(want, output); diff != "" {
		t.Errorf("Install() (-want +got):\n%s", diff)
	}
	// Installation comes first, and its failure is reported.
	_, err = kubetest.StartWarrantgate(t.Context(), s, kubetest.WarrantgateOptions{Binary: filepath.Join(s.Dir(), "missing")})
	if err == nil || !strings.Contains(err.Error(), "warrantgate install kubernetes") {
		t.Errorf("StartWarrantgate() without a binary: error = %v", err)
	}
	alice, err := s.KubeconfigFile("alice", s.Config())
	if err != nil {
		t.Fatal(err)
	}
	_, err = kubetest.StartWarrantgate(t.Context(), s, kubetest.WarrantgateOptions{
		Binary: os.Args[0], Kubeconfig: alice, Env: []string{standInEnv + "=gate"}, Args: []string{"--fail"},
	})
	if err == nil || !strings.Contains(err.Error(), "gate serve as kubetest-admin: --fail") {
		t.Errorf("StartWarrantgate() with a serve that fails: error = %v", err)
	}
}
