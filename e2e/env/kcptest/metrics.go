package kcptest

import (
	"context"

	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/process"
)

// Metric returns the sum of a counter or gauge of kcp over all series with the given labels. If there are several shards, it reads
// the root shard.
func (s *Server) Metric(ctx context.Context, name string, labels map[string]string) (float64, error) {
	httpClient, err := rest.HTTPClientFor(s.ShardAdmin("root"))
	if err != nil {
		return 0, err
	}
	return process.Metric(ctx, httpClient, s.shards[0].url, name, labels)
}
