package impersonation

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// cacheResult is the result of a lookup in the cache of user tokens.
type cacheResult string

const (
	cacheHit     cacheResult = "hit"
	cacheMiss    cacheResult = "miss"
	cacheRefresh cacheResult = "refresh" // a due token was returned, and a refresh started
)

// No label contains a user or a region: the number of series is the product of steps and outcomes.
var (
	requestsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "warrantgate_token_requests_total",
		Help: "Requests for tokens by step (account, ticket, impersonate, exchange) and outcome (ok, rejected, broken, unavailable, " +
			"timeout, limited, held: not sent because of a recent failure or Retry-After of the server).",
	}, []string{"step", "outcome"})
	cacheTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "warrantgate_token_cache_total",
		Help: "Lookups in the cache of users' tokens by result: hit, miss, refresh (started in the background).",
	}, []string{"result"})
)

func init() { //nolint:gochecknoinits // a collector belongs to the process, as its registry does
	metrics.Registry.MustRegister(requestsTotal, cacheTotal)
	for _, result := range []cacheResult{cacheHit, cacheMiss, cacheRefresh} {
		cacheTotal.WithLabelValues(string(result))
	}
}

func countRequest(at step, err error) {
	outcome := "ok"
	if failed, ok := errors.AsType[*requestError](err); ok {
		outcome = failed.fault.String()
		if failed.held {
			outcome = "held"
		}
	}
	requestsTotal.WithLabelValues(string(at), outcome).Inc()
}

func countCache(result cacheResult) {
	cacheTotal.WithLabelValues(string(result)).Inc()
}
