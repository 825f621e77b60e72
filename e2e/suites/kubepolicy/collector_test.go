//go:build e2e

package kubepolicy_test

import (
	"context"
	"encoding/hex"
	"net"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

// collector receives spans by OTLP over gRPC and keeps their trace IDs.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer
	address string

	mu     sync.Mutex
	traces map[string]bool
}

// newCollector starts a collector, which ends with the suite or the spec that calls it.
func newCollector(ctx context.Context) *collector {
	GinkgoHelper()
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	c := &collector{address: listener.Addr().String(), traces: map[string]bool{}}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, c)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	DeferCleanup(func() error {
		server.Stop()
		return <-served
	})
	return c
}

// Export implements collectorv1.TraceServiceServer.
func (c *collector) Export(_ context.Context, request *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.traces[hex.EncodeToString(span.GetTraceId())] = true
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// has returns whether there is a span of a trace.
func (c *collector) has(trace string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.traces[trace]
}
