//go:build e2e

// Package suite starts end-to-end suites and their servers. It is the Ginkgo side of packages kcptest and kubetest: every failure ends
// the spec, and each server stops at the end of the suite or spec that starts it.
package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/describe"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/volume"
)

// Run runs the specs of a suite, without those that package volume keeps for "make test-all". timeout and interval are the defaults of
// Eventually.
func Run(t *testing.T, name string, timeout, interval time.Duration) {
	t.Helper()
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(timeout)
	SetDefaultEventuallyPollingInterval(interval)
	selected, _ := GinkgoConfiguration()
	selected.LabelFilter = volume.Filter(selected.LabelFilter)
	if volume.All() && selected.Timeout == time.Hour { // Ginkgo's default
		selected.Timeout = 3 * time.Hour
	}
	RunSpecs(t, name, selected)
}

// Binary returns the path of a binary; see package asset.
func Binary(name string) string {
	GinkgoHelper()
	path, err := asset.Path(name)
	Expect(err).NotTo(HaveOccurred())
	return path
}

// Output is the output of a command of warrantgate, and its exit status.
type Output struct {
	Stdout, Stderr string
	Status         int
}

// Warrantgate runs a command of warrantgate, which must exit by itself.
func Warrantgate(ctx context.Context, args ...string) Output {
	GinkgoHelper()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, Binary(asset.Warrantgate), args...)
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); !exited {
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(command.ProcessState.Exited()).To(BeTrue(), "%v\n%s", err, &stderr)
	return Output{Stdout: stdout.String(), Stderr: stderr.String(), Status: command.ProcessState.ExitCode()}
}

// KCP starts a kcp of one shard with further arguments.
func KCP(ctx context.Context, args ...string) *kcptest.Server {
	GinkgoHelper()
	server, err := kcptest.Start(ctx, args...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Stop)
	return server
}

// UninstallAtEnd uninstalls and stops a warrantgate of a kcp at the end of the spec or container that calls UninstallAtEnd.
func UninstallAtEnd(w *kcptest.Warrantgate, timeout time.Duration) {
	DeferCleanup(func(ctx SpecContext) {
		_, err := w.Uninstall(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.Stop()).To(Succeed())
	}, NodeTimeout(timeout))
}

// KubeAPIServer starts a kube-apiserver with further arguments.
func KubeAPIServer(ctx context.Context, args ...string) *kubetest.Server {
	GinkgoHelper()
	server, err := kubetest.Start(ctx, args...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Stop)
	return server
}

// InBackground runs a function until the end of the spec or container that calls InBackground, and expects it to succeed.
func InBackground(ctx context.Context, run func(context.Context) error) {
	running, halt := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- run(running) }()
	DeferCleanup(func() error {
		halt()
		return <-ended
	})
}

// NewNamespace creates a namespace for a spec, and returns its name.
func NewNamespace(ctx context.Context, c client.Client) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "story-"}}
	Expect(c.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

// RouteService makes an API server reach this machine by a Service. The address of a Service has no route here, but the API server resolves a
// Service of this type itself.
func RouteService(ctx context.Context, c client.Client, namespace, name string) {
	GinkgoHelper()
	service := &corev1.Service{}
	Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, service)).To(Succeed())
	service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost", Ports: service.Spec.Ports}
	Expect(c.Update(ctx, service)).To(Succeed())
}

// KubectlDescribe returns the output of "kubectl describe" of an object for the user of config. The namespace is "" for kinds without namespaces.
func KubectlDescribe(config *rest.Config, kind schema.GroupVersionKind, namespace, name string) (string, error) {
	mapping := &meta.RESTMapping{
		Resource: kind.GroupVersion().WithResource(strings.ToLower(kind.Kind) + "s"), GroupVersionKind: kind, Scope: meta.RESTScopeNamespace,
	}
	if namespace == "" {
		mapping.Scope = meta.RESTScopeRoot
	}
	describer, found := describe.GenericDescriberFor(mapping, config)
	if !found {
		return "", fmt.Errorf("nothing describes %s", kind)
	}
	return describer.Describe(namespace, name, describe.DescriberSettings{ShowEvents: true, ChunkSize: 100})
}

// KCPClient returns a client for a workspace of kcp.
func KCPClient(config *rest.Config) client.Client {
	GinkgoHelper()
	c, err := kcptest.NewClient(config)
	Expect(err).NotTo(HaveOccurred())
	return c
}

// KubeClient returns a client for a kube-apiserver; see NewClient of package kubetest.
func KubeClient(server *kubetest.Server, config *rest.Config) client.Client {
	GinkgoHelper()
	c, err := server.NewClient(config)
	Expect(err).NotTo(HaveOccurred())
	return c
}

// NewEditor creates a user who has every verb on every resource in a namespace, and no permission elsewhere: not even that to impersonate users,
// which are not namespaced. The recorder records the denials and warnings of the client.
func NewEditor(ctx context.Context, server *kubetest.Server, recorder *kubetest.Recorder, namespace, name string) (*rest.Config, client.Client) {
	GinkgoHelper()
	config, err := server.User(name)
	Expect(err).NotTo(HaveOccurred())
	c := KubeClient(server, recorder.Listen(config))
	Expect(server.Client().Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	})).To(Succeed())
	Eventually(func() error { return c.List(ctx, &corev1.SecretList{}, client.InNamespace(namespace)) }).WithContext(ctx).Should(Succeed())
	return config, c
}

// UnstructuredClient returns a client for the kinds that are served at this time. It does not wait for caches.
func UnstructuredClient(config *rest.Config) client.Client {
	GinkgoHelper()
	c, err := client.New(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// ByPolicy returns whether admission policies rewrite the owners of plain service accounts and restore annotations, as since kcp v0.32.
func ByPolicy(kcp *kcptest.Server) bool {
	GinkgoHelper()
	has, err := kcp.HasMutatingPolicies()
	Expect(err).NotTo(HaveOccurred())
	return has
}

// Log returns what a server has logged since its start.
func Log(server interface{ LogFile() string }) string {
	GinkgoHelper()
	content, err := os.ReadFile(server.LogFile())
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}
