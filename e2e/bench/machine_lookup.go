package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
	"warrantgate.dev/internal/cloudsigma/impersonation"
	"warrantgate.dev/internal/config/v1beta1"
)

const (
	gateAddedP50Bound = 2
	gateAddedP99Bound = 10

	// cloudLatency is a typical latency of a cloud. Without it, the callers would use all processors, and the measurement would show
	// the throughput of the gate instead of its latency.
	cloudLatency = 100 * time.Millisecond
	// A round is a number of lookups of each caller. The rounds are short, so that both ways alternate often.
	lookupRounds, lookupsPerRound = 16, 8
	lookupWarmUpRounds            = 2
)

// requester looks up the owner of an instance as one user: through the gate, as an API server does, or directly in the cloud.
type requester struct {
	gate *caller
	// direct is the client of the cloud.
	direct     *http.Client
	url, token string
	sent       int64
	first      int64
}

// The two ways of a lookup.
const (
	throughGate = "gate"
	directly    = "direct"
)

// measureAdded compares the time of a change for which the gate sends a request to the cloud with the time of the request itself.
// There are as many concurrent callers as users, each with another instance every time.
func (m *machines) measureAdded(ctx context.Context, out *figures) error {
	progress("warrantgate is installed and starts")
	if _, err := m.warrantgate.Install(ctx); err != nil {
		return err
	}
	if err := m.warrantgate.Start(ctx); err != nil {
		return err
	}
	requesters, err := m.newRequesters(ctx)
	if err != nil {
		return err
	}
	m.cloud.SetLatency(cloudLatency)
	defer m.cloud.SetLatency(0)
	before := m.cloud.Count(cloudsigmatest.GetServer)
	took, err := takeTurns(ctx, requesters)
	if err != nil {
		return err
	}
	// Each change caused exactly one lookup.
	const want = 2 * (lookupWarmUpRounds + lookupRounds) * lookupsPerRound * users
	if got := m.cloud.Count(cloudsigmatest.GetServer) - before; got != want {
		return fmt.Errorf("the cloud got lookups of %d servers, want %d", got, want)
	}
	out.atMost("gate_added_p50_ms", added(took[throughGate], took[directly], 0.5), "ms", gateAddedP50Bound)
	out.atMost("gate_added_p99_ms", added(took[throughGate], took[directly], 0.99), "ms", gateAddedP99Bound)
	return nil
}

// takeTurns returns the milliseconds of each lookup, by way and round.
func takeTurns(ctx context.Context, requesters []*requester) (map[string][][]float64, error) {
	took := map[string][][]float64{}
	for round := range lookupWarmUpRounds + lookupRounds {
		if round%6 == 0 {
			progress("changes of %d callers at once, and their lookups: round %d of %d", users, round+1, lookupWarmUpRounds+lookupRounds)
		}
		for _, way := range turns(round, throughGate, directly) {
			millis, err := lookUpAll(ctx, requesters, way)
			if err != nil {
				return nil, err
			}
			if round >= lookupWarmUpRounds {
				took[way] = append(took[way], millis)
			}
		}
	}
	return took, nil
}

// added is the difference of a quantile with and without the gate: the median of the differences of the rounds. Other load of the
// machine slows down a whole round, and would dominate a quantile of all rounds.
func added(with, without [][]float64, q float64) float64 {
	differences := make([]float64, len(with))
	for round := range differences {
		differences[round] = quantile(with[round], q) - quantile(without[round], q)
	}
	return median(differences)
}

// newRequesters returns one requester for each user, and creates the servers of their lookups.
func (m *machines) newRequesters(ctx context.Context) ([]*requester, error) {
	gateRoots, err := rootsIn(m.warrantgate.CAFile())
	if err != nil {
		return nil, err
	}
	cloudRoots := x509.NewCertPool()
	cloudRoots.AppendCertsFromPEM(m.cloud.CAPEM())
	config := v1beta1.Default().CloudSigma
	tokens := impersonation.New(impersonation.Options{
		Flow: config.Flow, TokenPath: config.TokenPath, Audience: config.Audience,
		ServiceProviderAPI: m.cloud.ServiceProviderTemplate(), RootCAs: cloudRoots,
		Credentials: impersonation.Fixed(impersonation.Credentials{
			OAuthURL: m.cloud.OAuthURL(), ClientID: m.account.ID, ClientSecret: m.account.Secret,
		}),
	})
	requesters := make([]*requester, users)
	for i, user := range m.users {
		token, err := tokens.Token(ctx, user.Email, region)
		if err != nil {
			return nil, err
		}
		reviews, err := machineReviews(machineKind, "cloudsigmamachines", namespaceOf(i), i)
		if err != nil {
			return nil, err
		}
		requesters[i] = &requester{
			gate: newCaller(m.warrantgate.HookURL(""), gateRoots, reviews), direct: newClient(cloudRoots), token: token,
			url: strings.ReplaceAll(m.cloud.APITemplate(), "{region}", region) + "servers/", first: reviews.first,
		}
		for n := range int64((lookupWarmUpRounds + lookupRounds) * lookupsPerRound) {
			m.cloud.AddServer(region, user, machineOne, cloudsigmatest.WithUUID(instanceID(reviews.first+n)))
		}
	}
	return requesters, nil
}

// lookUpAll makes all requesters send lookups at the same time, and returns the milliseconds of each lookup. They start one after the
// other, spread over the latency of the cloud, because otherwise they would compete for the processors.
func lookUpAll(ctx context.Context, requesters []*requester, way string) ([]float64, error) {
	millis := make([][]float64, len(requesters))
	group, ctx := errgroup.WithContext(ctx)
	for i, a := range requesters {
		group.Go(func() error {
			if err := pause(ctx, cloudLatency*time.Duration(i)/time.Duration(len(requesters))); err != nil {
				return err
			}
			for range lookupsPerRound {
				took, err := a.lookUp(ctx, way)
				if err != nil {
					return err
				}
				millis[i] = append(millis[i], milliseconds(took))
			}
			return nil
		})
	}
	err := group.Wait()
	var all []float64
	for _, some := range millis {
		all = append(all, some...)
	}
	return all, err
}

// lookUp looks up the next instance.
func (a *requester) lookUp(ctx context.Context, way string) (time.Duration, error) {
	start := time.Now()
	if way == throughGate {
		answer, err := a.gate.call(ctx, machinePath)
		took := time.Since(start)
		if err != nil {
			return took, err
		}
		return took, checkAllowed(answer, machinePath, false)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+instanceID(a.first+a.sent)+"/", http.NoBody)
	if err != nil {
		return 0, err
	}
	a.sent++
	request.Header.Set("Authorization", "Bearer "+a.token)
	_, err = send(a.direct, request)
	return time.Since(start), err
}
