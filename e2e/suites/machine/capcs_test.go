//go:build e2e

package machine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	cloudsigma "github.com/cloudsigma/cloudsigma-sdk-go/cloudsigma"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// provider handles machines as Cluster API's provider for CloudSigma does: it acts as a user, creates a server for each machine, and writes
// the server's UUID into the machine's status.
type provider struct {
	objects client.Client
	servers *cloudsigma.ServersService
	// retry is the time after a write that was denied or failed: 10 seconds in the real provider. resync is the time until a machine without
	// problems is reconciled again: 10 minutes.
	retry, resync time.Duration
	// forgets is true if it creates another server for a machine that names none, instead of using the one that it created before.
	forgets bool
	// created, if it is set, is called after a server was created and before its UUID is written.
	created func(machine client.ObjectKey, server *cloudsigma.Server)

	mu sync.Mutex
	// failures are the errors by the name of the machine, observed the numbers of times that it had no problem.
	failures map[string][]error
	observed map[string]int
	stop     func()
}

// All intervals are shorter than in the real provider: retry is a hundredth of 10 seconds.
const (
	providerRetry  = 100 * time.Millisecond
	providerResync = 200 * time.Millisecond
)

// newProvider returns the provider that acts as a user.
func (w *world) newProvider(ctx context.Context, email string) *provider {
	GinkgoHelper()
	token, err := w.impersonate(ctx, email)
	Expect(err).NotTo(HaveOccurred())
	return w.newProviderWith(token)
}

// newProviderWith returns the provider that acts with a token.
func (w *world) newProviderWith(token string) *provider {
	httpClient := &http.Client{Transport: toCloud{cloud: w.cloud}}
	sdk := cloudsigma.NewClient(cloudsigma.NewTokenCredentialsProvider(token), cloudsigma.WithLocation("direct."+region), cloudsigma.WithHTTPClient(httpClient))
	return &provider{
		objects: w.client, servers: sdk.Servers, retry: providerRetry, resync: providerResync, failures: map[string][]error{}, observed: map[string]int{},
	}
}

// start reconciles machines until halt is called, or the spec ends.
func (p *provider) start(ctx context.Context, machines ...*unstructured.Unstructured) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for _, machine := range machines {
		running.Go(func() { p.reconcileLoop(ctx, client.ObjectKeyFromObject(machine)) })
	}
	p.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	DeferCleanup(p.halt)
}

func (p *provider) halt() { p.stop() }

func (p *provider) reconcileLoop(ctx context.Context, machine client.ObjectKey) {
	for {
		after, err := p.reconcile(ctx, machine)
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		switch {
		case err != nil:
			after = p.retry
			p.failures[machine.Name] = append(p.failures[machine.Name], err)
		case after > 0:
			p.observed[machine.Name]++
		}
		p.mu.Unlock()
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return
		}
	}
}

// failed returns the errors of a machine so far.
func (p *provider) failed(machine *unstructured.Unstructured) []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.failures[machine.GetName()])
}

// timesObserved returns how often it found no problem with a machine so far.
func (p *provider) timesObserved(machine *unstructured.Unstructured) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.observed[machine.GetName()]
}

// reconcile does the next step for a machine, and returns when to reconcile it again.
func (p *provider) reconcile(ctx context.Context, key client.ObjectKey) (time.Duration, error) {
	machine := newObject(machineKind, key.Namespace, key.Name)
	if err := p.objects.Get(ctx, key, machine); err != nil {
		return 0, err
	}
	named, _, _ := unstructured.NestedString(machine.Object, "status", "instanceID")
	if named != "" {
		server, response, err := p.servers.Get(ctx, named)
		switch {
		case err == nil:
			return p.resync, p.observe(ctx, machine, server)
		case response == nil || response.StatusCode != http.StatusForbidden && response.StatusCode != http.StatusNotFound:
			return 0, err
		}
	}
	// The machine names no server, or a server of another user. A server for it may exist all the same, because the write of its UUID may have
	// been lost.
	server, err := p.find(ctx, machine)
	switch {
	case err != nil:
		return 0, err
	case server == nil && named != "":
		return 0, p.name(ctx, machine, "")
	case server == nil:
		if server, err = p.create(ctx, machine); err != nil {
			return 0, err
		}
		if p.created != nil {
			p.created(key, server)
		}
	}
	return 0, p.name(ctx, machine, server.UUID)
}

// find returns the user's server with the machine's UID, or with its name and no UID. A provider that does not record UIDs finds none.
func (p *provider) find(ctx context.Context, machine *unstructured.Unstructured) (*cloudsigma.Server, error) {
	if p.forgets {
		return nil, nil
	}
	servers, _, err := p.servers.List(ctx)
	if err != nil {
		return nil, err
	}
	var sameName *cloudsigma.Server
	for i := range servers {
		uid, _ := servers[i].Meta[cloudsigmatest.MachineUID].(string)
		switch {
		case uid == string(machine.GetUID()):
			return &servers[i], nil
		case uid == "" && servers[i].Name == machine.GetName():
			sameName = &servers[i]
		}
	}
	return sameName, nil
}

func (p *provider) create(ctx context.Context, machine *unstructured.Unstructured) (*cloudsigma.Server, error) {
	created, _, err := p.servers.Create(ctx, &cloudsigma.ServerCreateRequest{Servers: []cloudsigma.Server{{
		Name: machine.GetName(), CPU: 2000, Memory: 4 << 30, VNCPassword: "console-of-" + machine.GetName(),
		Meta: map[string]any{cloudsigmatest.MachineUID: string(machine.GetUID())},
	}}})
	if err != nil {
		return nil, err
	}
	return &created[0], nil
}

// name writes the server of a machine into it. Both fields are cleared before they name another one, and at once if the machine has none.
func (p *provider) name(ctx context.Context, machine *unstructured.Unstructured, id string) error {
	if old, found, _ := unstructured.NestedString(machine.Object, "spec", "providerID"); found && old != "cloudsigma://"+id {
		unstructured.RemoveNestedField(machine.Object, "spec", "providerID")
		if err := p.objects.Update(ctx, machine); err != nil {
			return err
		}
	}
	if id == "" {
		unstructured.RemoveNestedField(machine.Object, "status", "instanceID")
	} else if err := unstructured.SetNestedField(machine.Object, id, "status", "instanceID"); err != nil {
		return err
	}
	return p.objects.Status().Update(ctx, machine)
}

// observe writes the state of a machine's server if it changed.
func (p *provider) observe(ctx context.Context, machine *unstructured.Unstructured, server *cloudsigma.Server) error {
	if state, _, _ := unstructured.NestedString(machine.Object, "status", "instanceState"); state != server.Status {
		with("status.instanceState", server.Status)(machine)
		if err := p.objects.Status().Update(ctx, machine); err != nil {
			return err
		}
	}
	if id, _, _ := unstructured.NestedString(machine.Object, "spec", "providerID"); id != "cloudsigma://"+server.UUID {
		providerID(server.UUID)(machine)
		return p.objects.Update(ctx, machine)
	}
	return nil
}

// impersonate returns a token of a user, by the way of the service provider API.
func (w *world) impersonate(ctx context.Context, email string) (string, error) {
	account := w.cloud.AddClient(serviceAccount)
	ctx = context.WithValue(ctx, oauth2.HTTPClient, w.cloud.HTTPClient())
	own, err := (&clientcredentials.Config{
		ClientID: account.ID, ClientSecret: account.Secret, TokenURL: w.cloud.TokenURL(), AuthStyle: oauth2.AuthStyleInParams,
	}).Token(ctx)
	if err != nil {
		return "", err
	}
	ticket := url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:uma-ticket"}, "audience": {cloudsigmatest.AudienceServiceProvider},
	}
	rpt, err := w.postForToken(ctx, w.cloud.TokenURL(), own.AccessToken, "application/x-www-form-urlencoded", ticket.Encode())
	if err != nil {
		return "", err
	}
	request, err := json.Marshal(map[string]string{"user_email": email, "subject_token": own.AccessToken})
	if err != nil {
		return "", err
	}
	at := strings.ReplaceAll(w.cloud.ServiceProviderTemplate(), "{region}", region) + "user/impersonate"
	return w.postForToken(ctx, at, rpt, "application/json", string(request))
}

// exchange returns a token of a user, by RFC 8693, as the provider of the incident did.
func (w *world) exchange(ctx context.Context, account cloudsigmatest.Client, email string) (string, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, w.cloud.HTTPClient())
	own, err := (&clientcredentials.Config{
		ClientID: account.ID, ClientSecret: account.Secret, TokenURL: w.cloud.TokenURL(), AuthStyle: oauth2.AuthStyleInParams,
	}).Token(ctx)
	if err != nil {
		return "", err
	}
	form := url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "client_id": {account.ID}, "client_secret": {account.Secret},
		"subject_token": {own.AccessToken}, "subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
		"requested_subject": {email}, "audience": {cloudsigmatest.AudienceAPI},
	}
	return w.postForToken(ctx, w.cloud.TokenURL(), "", "application/x-www-form-urlencoded", form.Encode())
}

func (w *world) postForToken(ctx context.Context, at, bearer, contentType, body string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header = http.Header{"Content-Type": {contentType}}
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	response, err := w.cloud.HTTPClient().Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return "", err
	}
	if answer.Token == "" {
		return "", errors.New("no token: " + response.Status)
	}
	return answer.Token, nil
}

// toCloud sends requests for https://<location>.cloudsigma.com, the only hosts that the SDK knows, to the fake cloud.
type toCloud struct{ cloud *cloudsigmatest.Cloud }

// RoundTrip implements http.RoundTripper.
func (t toCloud) RoundTrip(request *http.Request) (*http.Response, error) {
	location := strings.TrimSuffix(request.URL.Host, ".cloudsigma.com")
	target, err := url.Parse(fmt.Sprintf("%s/%s%s", t.cloud.OAuthURL(), location, request.URL.Path))
	if err != nil {
		return nil, err
	}
	target.RawQuery = request.URL.RawQuery
	request = request.Clone(request.Context())
	request.URL, request.Host = target, ""
	return t.cloud.HTTPClient().Transport.RoundTrip(request)
}
