//go:build e2e

package readme_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// network is an HTTP proxy that connects the names of Services to processes of this machine. It rejects all other addresses.
type network struct {
	url string

	mu sync.Mutex
	// services are the addresses of processes, by the name and port of the Service.
	services map[string]string
}

// startNetwork starts a network, which ends with the spec.
func startNetwork(ctx context.Context) *network {
	GinkgoHelper()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	n := &network{url: "http://" + listener.Addr().String(), services: map[string]string{}}
	server := &http.Server{Handler: http.HandlerFunc(n.connect), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(server.Close)
	return n
}

// add connects a Service, at the port of https, to a process.
func (n *network) add(service, address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.services[service+":443"] = address
}

// connect answers the method CONNECT with a connection to the process of a Service.
func (n *network) connect(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	address := n.services[r.Host]
	n.mu.Unlock()
	if r.Method != http.MethodConnect || address == "" {
		http.Error(w, "no such Service", http.StatusBadGateway)
		return
	}
	process, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer process.Close()
	w.WriteHeader(http.StatusOK)
	caller, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer caller.Close()
	done := make(chan struct{}, 2)
	for _, ends := range [][2]net.Conn{{process, caller}, {caller, process}} {
		go func() {
			_, _ = io.Copy(ends[0], ends[1])
			done <- struct{}{}
		}()
	}
	<-done
}
