//go:build e2e

// Package policies_test shows what the admission policies do on a real kcp while no warrantgate runs.
package policies_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"warrantgate.dev/e2e/asset"
	"warrantgate.dev/e2e/kcptest"
	"warrantgate.dev/internal/kcp"
)

// TestAServiceAccountsWorkspaceWithPoliciesAlone: only kcp runs, and "install kcp --policies-only" was called once.
func TestAServiceAccountsWorkspaceWithPoliciesAlone(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	binary, err := asset.Path(asset.KCP)
	must(err)
	server, err := kcptest.Start(ctx, kcptest.Options{Binary: binary})
	must(err)
	defer func() { must(server.Stop()) }()
	warrantgate, err := asset.Path(asset.Warrantgate)
	must(err)
	install := func(args ...string) (string, error) {
		output, err := exec.CommandContext(ctx, warrantgate, append(args, "--kubeconfig="+server.AdminKubeconfig(), "--context=root")...).CombinedOutput()
		return string(output), err
	}
	output, err := install("install", "kcp", "--policies-only")

	d, discoveryErr := discovery.NewDiscoveryClientForConfig(server.Admin("root"))
	must(discoveryErr)
	has, discoveryErr := kcp.HasMutatingPolicies(d)
	must(discoveryErr)
	if !has {
		if err == nil || !strings.Contains(output+err.Error(), "from v0.32 on") {
			t.Fatalf("install: %v, want an error that says that kcp is too old\n%s", err, output)
		}
		return
	}
	must(err)
	t.Log(output)

	_, err = kcptest.CreateWorkspace(ctx, server.Admin("root"), "home")
	must(err)
	home, err := kcptest.WaitReady(ctx, server.Admin("root"), "home")
	must(err)
	bot, err := kcptest.ServiceAccount(ctx, server.Admin("root:home"), metav1.NamespaceDefault, "bot")
	must(err)
	must(kcptest.Grant(ctx, server.Admin("root:home"), kcptest.ServiceAccountSubject(metav1.NamespaceDefault, "bot"), kcptest.CreatorRules()...))

	for _, name := range []string{"one", "two", "three"} {
		started := time.Now()
		_, err = kcptest.CreateWorkspace(ctx, bot, name)
		must(err)
		waiting, cancelWait := context.WithTimeout(ctx, 30*time.Second)
		child, err := kcptest.WaitReady(waiting, server.Admin("root:home"), name)
		cancelWait()
		must(err)
		t.Logf("Ready after %s", time.Since(started))
		if got, want := child.Annotations[kcptest.CreatedByAnnotation], home.Spec.Cluster+":default:bot"; got != want {
			t.Errorf("created by %q, want %q", got, want)
		}
		inChild, err := kcptest.NewClient(kcptest.In(bot, child.Spec.Cluster))
		must(err)
		must(inChild.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "made-by-its-creator"}}))
		impostor, err := kcptest.ServiceAccount(ctx, server.Admin(child.Spec.Cluster), metav1.NamespaceDefault, "bot")
		must(err)
		asImpostor, err := kcptest.NewClient(impostor)
		must(err)
		if err := asImpostor.List(ctx, &corev1.NamespaceList{}); !apierrors.IsForbidden(err) {
			t.Errorf("a service account of the creator's name in the workspace: %v, want forbidden", err)
		}
	}
	output, err = install("uninstall", "kcp")
	must(err)
	if !strings.Contains(output, `MutatingAdmissionPolicy "warrantgate-owner-rewrite" deleted`) {
		t.Errorf("uninstall: %s", output)
	}
}
