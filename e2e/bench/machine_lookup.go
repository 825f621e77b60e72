package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
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

	// cloudLatency is what a cloud typically takes for an answer. An emulator that answers at once would have the callers
	// use all that the processors can do, and what is measured then is not how long the gate takes but how often it can.
	cloudLatency = 100 * time.Millisecond
	// A round is so many lookups of each caller. The rounds are short, so that both take turns often.
	lookupRounds, lookupsPerRound = 16, 8
	lookupWarmUpRounds            = 2
)

// asker asks as one user whose an instance is: through the gate, as an API server does, or the cloud itself.
type asker struct {
	gate *caller
	// direct is the client with which the cloud is asked.
	direct     *http.Client
	url, token string
	asked      int64
	first      int64
}

// The two ways to ask.
const (
	throughGate = "gate"
	directly    = "direct"
)

// measureAdded compares the time of a change that the gate admits after a question to the cloud with that of the question
// itself. As many callers as there are users ask at the same time, each about another instance every time.
func (m *machines) measureAdded(ctx context.Context, out *figures) error {
	progress("warrantgate is installed and starts")
	if _, err := m.warrantgate.Install(ctx); err != nil {
		return err
	}
	if err := m.warrantgate.Start(ctx); err != nil {
		return err
	}
	askers, err := m.newAskers(ctx)
	if err != nil {
		return err
	}
	m.cloud.SetLatency(cloudLatency)
	defer m.cloud.SetLatency(0)
	before := m.cloud.Count(cloudsigmatest.GetServer)
	took, err := takeTurns(ctx, askers)
	if err != nil {
		return err
	}
	// Each change was a lookup, and one only.
	const want = 2 * (lookupWarmUpRounds + lookupRounds) * lookupsPerRound * users
	if got := m.cloud.Count(cloudsigmatest.GetServer) - before; got != want {
		return fmt.Errorf("the cloud was asked about %d servers, not about %d", got, want)
	}
	for _, way := range []string{throughGate, directly} {
		all := slices.Concat(took[way]...)
		out.show(way+"_lookup_p50_ms", median(all), "ms")
		out.show(way+"_lookup_p99_ms", quantile(all, 0.99), "ms")
	}
	out.atMost("gate_added_p50_ms", added(took[throughGate], took[directly], 0.5), "ms", gateAddedP50Bound)
	out.atMost("gate_added_p99_ms", added(took[throughGate], took[directly], 0.99), "ms", gateAddedP99Bound)
	return nil
}

// takeTurns returns how many milliseconds each question took, by way and round.
func takeTurns(ctx context.Context, askers []*asker) (map[string][][]float64, error) {
	took := map[string][][]float64{}
	for round := range lookupWarmUpRounds + lookupRounds {
		if round%6 == 0 {
			progress("changes of %d callers at once, and their lookups: round %d of %d", users, round+1, lookupWarmUpRounds+lookupRounds)
		}
		for _, way := range turns(round, throughGate, directly) {
			millis, err := askAll(ctx, askers, way)
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

// added is by how much a quantile is higher with the gate than without: the median of the rounds' own differences. Whatever
// else the machine does for a while makes all of a round slow, and would be all that a quantile of all rounds shows.
func added(with, without [][]float64, q float64) float64 {
	differences := make([]float64, len(with))
	for round := range differences {
		differences[round] = quantile(with[round], q) - quantile(without[round], q)
	}
	return median(differences)
}

// newAskers returns one for each user, and makes the servers that they are going to ask about.
func (m *machines) newAskers(ctx context.Context) ([]*asker, error) {
	gateRoots, err := rootsIn(m.warrantgate.CAFile())
	if err != nil {
		return nil, err
	}
	cloudRoots := x509.NewCertPool()
	cloudRoots.AppendCertsFromPEM(m.cloud.CAPEM())
	config := v1beta1.Default().CloudSigma
	tokens, err := impersonation.New(impersonation.Options{
		Flow: config.Flow, TokenPath: config.TokenPath, Audience: config.Audience,
		ServiceProviderAPI: m.cloud.ServiceProviderTemplate(), RootCAs: cloudRoots,
		Credentials: impersonation.Fixed(impersonation.Credentials{
			OAuthURL: m.cloud.OAuthURL(), ClientID: m.account.ID, ClientSecret: m.account.Secret,
		}),
	})
	if err != nil {
		return nil, err
	}
	askers := make([]*asker, users)
	for i, user := range m.users {
		token, err := tokens.Token(ctx, user.Email, region)
		if err != nil {
			return nil, err
		}
		reviews, err := machineReviews(namespaceOf(i), i)
		if err != nil {
			return nil, err
		}
		askers[i] = &asker{
			gate: newCaller(m.warrantgate.HookURL(""), gateRoots, reviews), direct: newClient(cloudRoots), token: token,
			url: strings.ReplaceAll(m.cloud.APITemplate(), "{region}", region) + "servers/", first: reviews.first,
		}
		for n := range int64((lookupWarmUpRounds + lookupRounds) * lookupsPerRound) {
			m.cloud.AddServer(region, user, machineOne, cloudsigmatest.WithUUID(instanceID(reviews.first+n)))
		}
	}
	return askers, nil
}

// askAll has all ask at the same time, and returns how many milliseconds each question took. They begin one after the
// other, spread over the time of an answer, because those who ask in step wait for each other's turn on the processors.
func askAll(ctx context.Context, askers []*asker, way string) ([]float64, error) {
	millis := make([][]float64, len(askers))
	group, ctx := errgroup.WithContext(ctx)
	for i, a := range askers {
		group.Go(func() error {
			if err := pause(ctx, cloudLatency*time.Duration(i)/time.Duration(len(askers))); err != nil {
				return err
			}
			for range lookupsPerRound {
				took, err := a.ask(ctx, way)
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

// ask asks about the next instance.
func (a *asker) ask(ctx context.Context, way string) (time.Duration, error) {
	start := time.Now()
	if way == throughGate {
		answer, err := a.gate.call(ctx, machinePath)
		took := time.Since(start)
		if err != nil {
			return took, err
		}
		return took, checkAllowed(answer, machinePath, false)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+instanceID(a.first+a.asked)+"/", http.NoBody)
	if err != nil {
		return 0, err
	}
	a.asked++
	request.Header.Set("Authorization", "Bearer "+a.token)
	_, err = send(a.direct, request)
	return time.Since(start), err
}
