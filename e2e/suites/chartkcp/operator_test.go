//go:build e2e

package chartkcp_test

import (
	"context"
	"strings"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"warrantgate.dev/charts/charttest"
	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/process"
	"warrantgate.dev/e2e/env/suite"
)

// worksWithOperator installs the chart with the example for Argo CD, on a kcp of two shards. A kcp of kcp-operator has its shards behind a
// front-proxy, whose URL is in the kubeconfigs that the operator writes.
func (w *world) worksWithOperator(ctx context.Context) {
	GinkgoHelper()
	sharded, err := kcptest.StartSharded(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(sharded.Stop)
	beside := *w
	w = &beside
	w.kcp = sharded.Server
	w.put(ctx, webhookPath, map[string][]byte{"tokens": []byte(charttest.Token)})

	kubeconfigs := exampleObjects("kcp-operator/kubeconfigs.yaml")
	// Each further shard needs a Kubeconfig like the last one.
	further := kubeconfigs[len(kubeconfigs)-1].DeepCopy()
	further.SetName("warrantgate-" + kcptest.SecondShard)
	Expect(unstructured.SetNestedField(further.Object, further.GetName(), "spec", "secretRef", "name")).To(Succeed())
	Expect(unstructured.SetNestedMap(further.Object, map[string]any{"shardRef": map[string]any{"name": kcptest.SecondShard}}, "spec", "target")).To(Succeed())
	for _, object := range append(kubeconfigs, further) {
		w.actAsOperator(ctx, sharded, object)
	}

	bot := w.bot(ctx, kcptest.OnShard(kcptest.SecondShard))
	suite.CreateWorkspace(ctx, bot, "before", kcptest.OnShard(kcptest.SecondShard))
	Eventually(kcptest.GetWorkspace).WithContext(ctx).WithArguments(w.kcp.Admin("root:provider"), "before").
		Should(HaveField("Status.Phase", corev1alpha1.LogicalClusterPhaseInitializing))

	application := exampleObjects("gitops/argocd.yaml")[0]
	Expect(strict(w.host).Create(ctx, application)).To(Succeed())
	values, found, err := unstructured.NestedMap(application.Object, "spec", "source", "helm", "valuesObject")
	Expect(found, err).To(BeTrue())
	shards, _, err := unstructured.NestedStringSlice(values, "kcp", "install", "shardKubeconfigSecrets")
	Expect(err).NotTo(HaveOccurred())
	below(values, "kcp", "install")["shardKubeconfigSecrets"] = append(shards, further.GetName())
	argo := newArgoCD(ctx, w.host, w.local(values))

	var serving *process.Process
	argo.sync(ctx, func() { serving = w.serve(ctx) })
	w.expectGates(ctx, bot, "by-argo-cd", kcptest.OnShard(kcptest.RootShard))
	By("waiting for the repair of the workspace from before the installation")
	suite.WaitReady(ctx, w.kcp.Admin("root:provider"), "before")
	Eventually(kcptest.Describe).WithContext(ctx).WithArguments(w.kcp.Admin("root:provider"), "before").
		Should(ContainSubstring("event Normal OwnerRewritten: Repaired: "))

	argo.remove(ctx)
	w.expectNoGates(ctx)
	Expect(serving.Stop()).To(Succeed())
}

// actAsOperator writes the Secret of a Kubeconfig, as kcp-operator does (internal/resources/kubeconfig). One CA signs the client certificates
// of all users, and the front-proxy and the shards accept it, as they do from kcp-operator v0.8.0 on.
func (w *world) actAsOperator(ctx context.Context, kcp *kcptest.Sharded, object *unstructured.Unstructured) {
	GinkgoHelper()
	kubeconfig, err := charttest.DecodeKubeconfig(object)
	Expect(err).NotTo(HaveOccurred())
	user, target := kubeconfig.Spec.Username, kubeconfig.Spec.Target
	config := kcp.User("root", user, append(kubeconfig.Spec.Groups, "kubeconfig:"+kubeconfig.Name)...)
	switch {
	case target.RootShardRef != nil:
		config.Host = kcp.ShardAdmin(target.RootShardRef.Name, "root").Host
	case target.ShardRef != nil:
		config.Host = kcp.ShardAdmin(target.ShardRef.Name, "root").Host
	}
	base, _, _ := strings.Cut(config.Host, "/clusters/")
	file := clientcmdapi.NewConfig()
	file.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	for name, server := range map[string]string{"base": base, "default": config.Host} {
		file.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: config.CAData}
		file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	}
	file.CurrentContext = "default"
	content, err := clientcmd.Write(*file)
	Expect(err).NotTo(HaveOccurred())
	w.put(ctx, kubeconfig.Spec.SecretRef.Name, map[string][]byte{"kubeconfig": content})
}
