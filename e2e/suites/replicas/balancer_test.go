//go:build e2e

package replicas_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/wait"

	"warrantgate.dev/e2e/env/process"
	"warrantgate.dev/e2e/env/suite"
)

// probeInterval is the interval of the balancer's readiness probes.
const probeInterval = 50 * time.Millisecond

// balancer is the one address of all replicas. It balances connections as kube-proxy does: new ones go to the ready replicas in
// turn, and open ones stay. It does not read their content.
type balancer struct {
	listener net.Listener

	mu       sync.Mutex
	backends []*backend
	next     int
	// chosen is the only replica that gets connections, nil for all.
	chosen *backend
}

// backend is a replica behind the balancer.
type backend struct {
	address, probe string

	// The balancer's mutex guards the following fields.
	ready    bool
	accepted int
	// open are the API server's ends of the connections.
	open map[net.Conn]bool
}

// newBalancer listens on a port of the loopback interface until the end of the spec or container that calls it.
func newBalancer(ctx context.Context, address string) *balancer {
	GinkgoHelper()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	Expect(err).NotTo(HaveOccurred())
	b := &balancer{listener: listener}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var ended sync.WaitGroup
	ended.Go(func() { b.accept(running, &ended) })
	DeferCleanup(func() {
		stop()
		Expect(listener.Close()).To(Succeed())
		ended.Wait()
	})
	return b
}

// add makes the balancer send connections to an address while the URL of a probe responds with 200.
func (b *balancer) add(ctx context.Context, address, probe string) *backend {
	added := &backend{address: address, probe: probe, open: map[net.Conn]bool{}}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = append(b.backends, added)
	suite.InBackground(ctx, func(ctx context.Context) error {
		wait.UntilWithContext(ctx, func(ctx context.Context) { b.set(added, answers(ctx, probe)) }, probeInterval)
		return nil
	})
	return added
}

func (b *balancer) set(backend *backend, ready bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	backend.ready = ready
}

// isReady returns whether a replica gets new connections.
func (b *balancer) isReady(backend *backend) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return backend.ready
}

// connections returns the number of open connections of a replica, and the number of its connections since the start.
func (b *balancer) connections(backend *backend) (open, accepted int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(backend.open), backend.accepted
}

// choose sends all new connections to one replica, and closes those of the others. nil reverts this.
func (b *balancer) choose(chosen *backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.chosen = chosen
	for _, backend := range b.backends {
		for client := range backend.open {
			// Only one direction, so that the connection counts until the API server has closed it too.
			if half, ok := client.(*net.TCPConn); ok && chosen != nil && chosen != backend {
				_ = half.CloseWrite()
			}
		}
	}
}

// openBeside is the number of open connections of all replicas but one.
func (b *balancer) openBeside(backend *backend) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	open := 0
	for _, other := range b.backends {
		if other != backend {
			open += len(other.open)
		}
	}
	return open
}

// pick returns the replica for a connection, nil if none is ready.
func (b *balancer) pick(client net.Conn) *backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.backends {
		b.next = (b.next + 1) % len(b.backends)
		if picked := b.backends[b.next]; picked.ready && (b.chosen == nil || b.chosen == picked) {
			picked.accepted++
			picked.open[client] = true
			return picked
		}
	}
	return nil
}

func (b *balancer) closed(backend *backend, client net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(backend.open, client)
}

func (b *balancer) accept(ctx context.Context, ended *sync.WaitGroup) {
	for {
		client, err := b.listener.Accept()
		if err != nil {
			return // it is closed
		}
		backend := b.pick(client)
		if backend == nil {
			_ = client.Close()
			continue
		}
		ended.Go(func() {
			defer b.closed(backend, client)
			join(ctx, client, backend.address)
		})
	}
}

// join connects a client with an address until both have closed their ends. When one end closes, the other end gets only that, as
// from the kernel of a node whose process was killed.
func join(ctx context.Context, client net.Conn, address string) {
	defer client.Close()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	defer context.AfterFunc(ctx, func() {
		_ = client.Close()
		_ = server.Close()
	})()
	var both sync.WaitGroup
	for to, from := range map[net.Conn]net.Conn{client: server, server: client} {
		both.Go(func() {
			_, _ = io.Copy(to, from) // a broken end counts as closed
			if half, ok := to.(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
		})
	}
	both.Wait()
}

// prober opens a new connection for each probe, as a kubelet does.
var prober = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// answers returns whether a URL responds with 200.
func answers(ctx context.Context, url string) bool {
	return process.Send(ctx, prober, http.MethodGet, url, nil) == nil
}
