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
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/podtest"
	"warrantgate.dev/e2e/env/process"
)

// pod is a container of the chart's Deployment as a process. Its folder and its ports are others, as several share this
// machine; everything else is the container's.
type pod struct {
	dir, binary string
	deployment  client.ObjectKey
	// addresses are those that it listens on, by those that the container would.
	addresses map[string]string
}

// mount writes what the volumes of the Deployment's pods have, or only those of the names.
func (p pod) mount(ctx context.Context, reader client.Client, only ...string) {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	Expect(reader.Get(ctx, p.deployment, deployment)).To(Succeed())
	Expect(podtest.Mount(ctx, reader, p.deployment.Namespace, deployment.Spec.Template.Spec, p.dir, only...)).To(Succeed())
}

// start runs serve with the arguments that the Deployment has in the API server. It ends with the spec or container that it
// is called from, if not before.
func (p pod) start(ctx context.Context, reader client.Client) *process.Process {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	Expect(reader.Get(ctx, p.deployment, deployment)).To(Succeed())
	container := deployment.Spec.Template.Spec.Containers[0]
	Expect(container.Env).To(BeEmpty())
	args := podtest.Args(container, p.dir, p.addresses)
	Expect(os.Remove(p.log())).To(Or(Succeed(), MatchError(os.ErrNotExist)))
	serve, err := process.Start(process.Options{Name: "warrantgate", LogFile: p.log(), Binary: p.binary, Args: args})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(serve.Stop)
	return serve
}

// startReady waits until it is ready, by the address of the probe.
func (p pod) startReady(ctx context.Context, reader client.Client) *process.Process {
	GinkgoHelper()
	serve := p.start(ctx, reader)
	Expect(serve.WaitReady(ctx, "http://"+p.addresses[":8081"]+"/readyz", &rest.Config{})).To(Succeed())
	return serve
}

// probe is the status of a probe, 0 where nobody answers.
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

// metric is the sum of a metric over all series with the labels.
func (p pod) metric(ctx context.Context, name string, labels map[string]string) (float64, error) {
	return process.Metric(ctx, http.DefaultClient, "http://"+p.addresses[":8080"], name, labels)
}

func (p pod) log() string { return filepath.Join(p.dir, "warrantgate.log") }

func (p pod) logged() (string, error) {
	content, err := os.ReadFile(p.log())
	return string(content), err
}
