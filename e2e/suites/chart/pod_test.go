//go:build e2e

package chart_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/podtest"
	"warrantgate.dev/e2e/env/process"
)

// pod is a container of the chart's Deployment as a process. Only its folder and its ports differ, because several processes share
// this machine.
type pod struct {
	dir, binary string
	deployment  client.ObjectKey
	// addresses are the addresses of the process, by those of the container.
	addresses map[string]string
}

// mount writes the files of the volumes of the Deployment's pods, or only of those with the given names.
func (p pod) mount(ctx context.Context, reader client.Client, only ...string) {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	Expect(reader.Get(ctx, p.deployment, deployment)).To(Succeed())
	Expect(podtest.Mount(ctx, reader, p.deployment.Namespace, deployment.Spec.Template.Spec, p.dir, only...)).To(Succeed())
}

// start runs serve with the arguments of the Deployment in the API server. It stops at the latest with the spec or container that
// calls it.
func (p pod) start(ctx context.Context, reader client.Client) *process.Process {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	Expect(reader.Get(ctx, p.deployment, deployment)).To(Succeed())
	container := deployment.Spec.Template.Spec.Containers[0]
	env := make([]string, 0, len(container.Env))
	for _, variable := range container.Env {
		if variable.ValueFrom != nil {
			secret := &corev1.Secret{}
			Expect(reader.Get(ctx, client.ObjectKey{Namespace: p.deployment.Namespace, Name: variable.ValueFrom.SecretKeyRef.Name}, secret)).To(Succeed())
			variable.Value = string(secret.Data[variable.ValueFrom.SecretKeyRef.Key])
		}
		env = append(env, variable.Name+"="+variable.Value)
	}
	args := podtest.Args(container, p.dir, p.addresses)
	Expect(os.Remove(p.log())).To(Or(Succeed(), MatchError(os.ErrNotExist)))
	serve, err := process.Start(process.Options{Name: "warrantgate", LogFile: p.log(), Binary: p.binary, Args: args, Env: env})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(serve.Stop)
	return serve
}

// startReady starts the pod and waits until the readiness probe succeeds.
func (p pod) startReady(ctx context.Context, reader client.Client) *process.Process {
	GinkgoHelper()
	serve := p.start(ctx, reader)
	Expect(serve.WaitReady(ctx, "http://"+p.addresses[":8081"]+"/readyz", &rest.Config{})).To(Succeed())
	return serve
}

// probe is the status of a probe, 0 without a response.
func (p pod) probe(ctx context.Context, path string) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addresses[":8081"]+path, http.NoBody)
	if err != nil {
		return 0
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

// metric is the sum of a metric over all series with the given labels.
func (p pod) metric(ctx context.Context, name string, labels map[string]string) (float64, error) {
	return process.Metric(ctx, http.DefaultClient, "http://"+p.addresses[":8080"], name, labels)
}

func (p pod) log() string { return filepath.Join(p.dir, "warrantgate.log") }

func (p pod) logged() (string, error) {
	content, err := os.ReadFile(p.log())
	return string(content), err
}
