//go:build e2e

package machine_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/process"
)

// The caches of machines and clusters are only as current as their watches.
var _ = Describe("The watches of warrantgate", Ordered, ContinueOnFailure, func() {
	var (
		w    *world
		line *connection
	)
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{
			configuration: `
audit: {mode: Off}
machine:
  kinds:
  - {group: metal.example.com, version: v1, kind: MetalMachine, resource: metalmachines, instanceIDPath: spec.instanceID, provider: cloudsigma}
`,
			credentials: func(w *world) (args, env []string) {
				line = newConnection(ctx, w.api.Config().Host)
				user, err := w.api.User(kubetest.WarrantgateUser)
				Expect(err).NotTo(HaveOccurred())
				user.Host = line.url()
				kubeconfig, err := w.api.KubeconfigFile("through-a-connection", user)
				Expect(err).NotTo(HaveOccurred())
				return []string{"--impersonation-enabled", "--impersonation-secret=" + secretNamespace + "/" + secretName, "--kubeconfig=" + kubeconfig}, nil
			},
			before: func(w *world) { Expect(w.api.ApplyCRDs(ctx, metalMachines())).To(Succeed()) },
		})
	}, NodeTimeout(setupTimeout))

	objects := func(ctx context.Context) (string, error) { return process.Body(ctx, w.health()+"/readyz/objects") }

	It("are reported as stale while the connection is lost for long, and recover afterwards", func(ctx SpecContext) {
		s := w.begin(ctx)
		machine, id := s.createMachine(ctx, "machine"), s.server("machine").UUID
		Expect(objects(ctx)).To(Equal("ok"))
		line.cut()
		DeferCleanup(line.mend)
		Eventually(objects).WithContext(ctx).WithTimeout(2 * time.Minute).Should(ContainSubstring("have not been watched for more than 30s"))
		err := w.setInstanceID(ctx, machine, id)
		Expect(apierrors.IsServiceUnavailable(err)).To(BeTrue(), "%v", err)
		Expect(apierrors.HasStatusCause(err, "ObjectsUnknown")).To(BeTrue(), "%v", err)
		Expect(s.instanceID(ctx, machine)).To(BeEmpty())

		line.mend()
		Eventually(objects).WithContext(ctx).WithTimeout(2 * time.Minute).Should(Equal("ok"))
		Expect(w.setInstanceID(ctx, machine, id)).To(Succeed())
	}, SpecTimeout(6*time.Minute))

	It("are incomplete if a kind is served in another version than the configured one", func(ctx SpecContext) {
		s := w.begin(ctx)
		machine, id := s.createMachine(ctx, "machine"), s.server("machine").UUID
		crd := &apiextensionsv1.CustomResourceDefinition{}
		serve := func(v1 bool) {
			GinkgoHelper()
			Expect(w.client.Get(ctx, client.ObjectKey{Name: "metalmachines.metal.example.com"}, crd)).To(Succeed())
			crd.Spec.Versions[0].Served = v1
			Expect(w.client.Update(ctx, crd)).To(Succeed())
		}
		serve(false)
		Eventually(objects).WithContext(ctx).WithTimeout(time.Minute).Should(ContainSubstring(
			"metalmachines.metal.example.com are served in version v1alpha1, and not in v1, which warrantgate reads"))
		err := w.setInstanceID(ctx, machine, id)
		Expect(apierrors.HasStatusCause(err, "ObjectsUnknown")).To(BeTrue(), "%v", err)

		serve(true)
		Eventually(objects).WithContext(ctx).WithTimeout(2 * time.Minute).Should(Equal("ok"))
		Expect(w.setInstanceID(ctx, machine, id)).To(Succeed())
	}, SpecTimeout(4*time.Minute))
})

// connection is a way to a server that can be cut.
type connection struct {
	listener net.Listener
	server   string

	mu    sync.Mutex
	isCut bool
	open  map[net.Conn]bool
}

// newConnection starts a connection. It ends with the spec or container that calls newConnection.
func newConnection(ctx context.Context, serverURL string) *connection {
	GinkgoHelper()
	server, err := url.Parse(serverURL)
	Expect(err).NotTo(HaveOccurred())
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	host := server.Host
	if host == "" {
		host = serverURL // without a scheme
	}
	c := &connection{listener: listener, server: host, open: map[net.Conn]bool{}}
	go c.serve() //nolint:contextcheck // it outlives the container's set-up
	DeferCleanup(func() {
		Expect(listener.Close()).To(Succeed())
		c.cut()
	})
	return c
}

func (c *connection) url() string { return "https://" + c.listener.Addr().String() }

func (c *connection) serve() {
	for {
		accepted, err := c.listener.Accept()
		if err != nil {
			return // closed
		}
		go c.forward(accepted)
	}
}

func (c *connection) forward(from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := new(net.Dialer).DialContext(context.Background(), "tcp", c.server)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	c.mu.Lock()
	isCut := c.isCut
	c.open[from] = !isCut
	c.mu.Unlock()
	if isCut {
		return
	}
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, from)
	}()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			done <- struct{}{}
		}()
	}
	<-done
}

// cut closes all connections and accepts none until mend is called.
func (c *connection) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = true
	for open := range c.open {
		_ = open.Close()
	}
}

func (c *connection) mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = false
}
