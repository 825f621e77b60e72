package capcstest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	cloudsigma "github.com/cloudsigma/cloudsigma-sdk-go/cloudsigma"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// account returns the servers of the account that a cluster acts with: the user that the CloudSigmaCluster of that name names or, without
// such a cluster or user, the legacy account.
func (p *Provider) account(ctx context.Context, key client.ObjectKey) (*cloudsigma.ServersService, error) {
	region, email := p.options.Region, ""
	if cluster, err := p.get(ctx, clusterKind, key); err == nil { // without it, the legacy account
		region = cmp.Or(get(cluster, "spec", "region"), region)
		email = p.email(ctx, cluster)
	}
	switch {
	case p.options.Account.ID != "" && email != "":
		token, err := p.tokens.of(ctx, email, region)
		if err != nil {
			return nil, fmt.Errorf("impersonate user %s: %w", email, err)
		}
		return p.servers(cloudsigma.NewTokenCredentialsProvider(token), "direct."+region), nil
	case p.options.Username != "":
		return p.servers(cloudsigma.NewUsernamePasswordCredentialsProvider(p.options.Username, p.options.Password), region), nil
	default:
		return nil, errors.New("no account: the CloudSigmaCluster names no user, and legacy credentials are not enabled")
	}
}

// email returns the user of a cluster as it is written, with all blanks.
func (p *Provider) email(ctx context.Context, cluster *unstructured.Unstructured) string {
	if email := get(cluster, "spec", "userEmail"); email != "" {
		return email
	}
	name := get(cluster, "spec", "userRef", "name")
	if name == "" {
		return ""
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: cmp.Or(get(cluster, "spec", "userRef", "namespace"), cluster.GetNamespace()), Name: name}
	if err := p.objects.Get(ctx, key, secret); err != nil {
		return ""
	}
	return string(secret.Data["userEmail"])
}

func (p *Provider) servers(credentials cloudsigma.CredentialsProvider, location string) *cloudsigma.ServersService {
	return cloudsigma.NewClient(credentials, cloudsigma.WithLocation(location), cloudsigma.WithHTTPClient(p.tokens.client)).Servers
}

// tokens gets the tokens of users, by the service provider API, and keeps them until 5 minutes before they expire.
type tokens struct {
	cloud   *cloudsigmatest.Cloud
	account cloudsigmatest.Client
	client  *http.Client

	mu   sync.Mutex
	kept map[string]token
}

type token struct {
	AccessToken string `json:"access_token"`
	ExpiresIn   int    `json:"expires_in"`
	expires     time.Time
}

const (
	// margin is the time before the expiry of a token from which on it is not used.
	margin = 5 * time.Minute
	// defaultLife is the lifetime of a token without one.
	defaultLife = 15 * time.Minute
)

func newTokens(cloud *cloudsigmatest.Cloud, account cloudsigmatest.Client) *tokens {
	return &tokens{
		cloud: cloud, account: account, client: &http.Client{Transport: toCloud{cloud}, Timeout: 30 * time.Second},
		kept: map[string]token{},
	}
}

// of returns a token of a user.
func (t *tokens) of(ctx context.Context, email, region string) (string, error) {
	return t.keep(email+":"+region, func() (token, error) {
		account, err := t.keep("account", func() (token, error) {
			return t.grant(ctx, "", url.Values{
				"grant_type": {"client_credentials"}, "client_id": {t.account.ID}, "client_secret": {t.account.Secret},
			})
		})
		if err != nil {
			return token{}, err
		}
		ticket, err := t.keep("ticket", func() (token, error) {
			return t.grant(ctx, account, url.Values{
				"grant_type": {"urn:ietf:params:oauth:grant-type:uma-ticket"}, "audience": {cloudsigmatest.AudienceServiceProvider},
			})
		})
		if err != nil {
			return token{}, err
		}
		body, err := json.Marshal(map[string]string{"user_email": email, "subject_token": account})
		if err != nil {
			return token{}, err
		}
		// The region goes into the host as it is written.
		at := fmt.Sprintf("https://direct.%s.cloudsigma.com/service_provider/api/v1/user/impersonate", region)
		return t.post(ctx, at, ticket, "application/json", body)
	})
}

// keep returns a token that was kept, or a new one.
func (t *tokens) keep(key string, get func() (token, error)) (string, error) {
	t.mu.Lock()
	kept, ok := t.kept[key]
	t.mu.Unlock()
	if ok && time.Now().Add(margin).Before(kept.expires) {
		return kept.AccessToken, nil
	}
	fresh, err := get()
	if err != nil {
		return "", err
	}
	fresh.expires = time.Now().Add(cmp.Or(time.Duration(fresh.ExpiresIn)*time.Second, defaultLife))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept[key] = fresh
	return fresh.AccessToken, nil
}

func (t *tokens) grant(ctx context.Context, bearer string, form url.Values) (token, error) {
	return t.post(ctx, t.cloud.TokenURL(), bearer, "application/x-www-form-urlencoded", []byte(form.Encode()))
}

func (t *tokens) post(ctx context.Context, at, bearer, contentType string, body []byte) (token, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
	if err != nil {
		return token{}, err
	}
	request.Header = http.Header{"Content-Type": {contentType}}
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	response, err := t.client.Do(request)
	if err != nil {
		return token{}, err
	}
	defer response.Body.Close()
	var answer token
	if response.StatusCode != http.StatusOK {
		return token{}, fmt.Errorf("no token from %s: %s", request.URL.Host, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return token{}, err
	}
	if answer.AccessToken == "" {
		return token{}, fmt.Errorf("no token from %s", request.URL.Host)
	}
	return answer, nil
}

// toCloud sends the requests for the hosts of CloudSigma's regions to the fake cloud. All other hosts are those that the URL names.
type toCloud struct{ cloud *cloudsigmatest.Cloud }

// RoundTrip implements http.RoundTripper.
func (t toCloud) RoundTrip(request *http.Request) (*http.Response, error) {
	if location, ok := strings.CutSuffix(request.URL.Host, ".cloudsigma.com"); ok {
		target, err := url.Parse(t.cloud.OAuthURL() + "/" + location + request.URL.Path)
		if err != nil {
			return nil, err
		}
		target.RawQuery = request.URL.RawQuery
		request = request.Clone(request.Context())
		request.URL, request.Host = target, ""
	}
	return t.cloud.HTTPClient().Transport.RoundTrip(request)
}
