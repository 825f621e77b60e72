package kcptest

import (
	"context"

	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/process"
)

// Metric returns the sum of a counter or gauge of kcp, of the root shard where there are several, as Warrantgate.Metric does.
func (s *Server) Metric(ctx context.Context, name string, labels map[string]string) (float64, error) {
	httpClient, err := rest.HTTPClientFor(s.ShardAdmin("root"))
	if err != nil {
		return 0, err
	}
	return process.Metric(ctx, httpClient, s.shards[0].url, name, labels)
}
