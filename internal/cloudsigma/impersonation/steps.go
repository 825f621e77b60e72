package impersonation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

// The requests to get a user token.
const (
	stepAccount     cloudhttp.Operation = "account"     // the service account's token for its client credentials
	stepTicket      cloudhttp.Operation = "ticket"      // a UMA ticket of the service provider API for that token
	stepImpersonate cloudhttp.Operation = "impersonate" // the user token for that ticket
	stepExchange    cloudhttp.Operation = "exchange"    // the user token for the service account's token (RFC 8693)
)

var requests = cloudhttp.NewRequests("cloudsigma", stepAccount, stepTicket, stepImpersonate, stepExchange)

const (
	// grantUMATicket is the grant type of UMA 2.0 (Federated Authorization, section 3.3.1) as Keycloak implements it.
	grantUMATicket = "urn:ietf:params:oauth:grant-type:uma-ticket"
	// impersonatePath is relative to the URL of the service provider API.
	impersonatePath = "user/impersonate"
	// regionPlaceholder is replaced with the region in URL templates.
	regionPlaceholder = "{region}"
)

// requestUser requests a user token. If the service account's tokens came from the cache and may be the reason for a rejection, it drops them
// and repeats all steps once.
func (s *Source) requestUser(ctx context.Context, k key) (issued, error) {
	began := time.Now()
	token, err := s.requestUserOnce(ctx, k)
	if token.stale && s.drop(key{Credentials: k.Credentials}, began) {
		return s.requestUserOnce(ctx, k)
	}
	return token, err
}

func (s *Source) requestUserOnce(ctx context.Context, k key) (issued, error) {
	account, err := s.get(ctx, key{Credentials: k.Credentials}, s.requestAccount)
	switch {
	case err != nil:
		return issued{}, err
	case s.options.Flow == v1beta1.TokenExchange:
		return s.exchange(ctx, account, k)
	}
	return s.impersonate(ctx, account, k)
}

// requestAccount requests the service account's own token (RFC 6749 section 4.4), and a ticket for the service provider API with it.
func (s *Source) requestAccount(ctx context.Context, k key) (issued, error) {
	account, err := s.requestToken(ctx, k.OAuthURL, "", expectation{step: stepAccount, life: unknownLife}, clientcredentials.Config{
		ClientID: k.ClientID, ClientSecret: k.ClientSecret,
	})
	if err != nil || account.rejection != nil || s.options.Flow == v1beta1.TokenExchange {
		return account, err
	}
	want := expectation{step: stepTicket, life: unknownLife, audience: s.options.Audience}
	ticket, err := s.requestToken(ctx, k.OAuthURL, account.value, want, clientcredentials.Config{
		EndpointParams: url.Values{"grant_type": {grantUMATicket}, "audience": {s.options.Audience}},
	})
	if err != nil || ticket.rejection != nil {
		return ticket, err
	}
	account.ticket = ticket.value
	if ticket.expires.Before(account.expires) {
		account.refresh, account.expires = ticket.refresh, ticket.expires
	}
	return account, nil
}

// exchange exchanges the service account's token for a user token (RFC 8693). The parameter requested_subject contains the user. It
// is an extension of Keycloak.
func (s *Source) exchange(ctx context.Context, account issued, k key) (issued, error) {
	want := expectation{
		step: stepExchange, life: unknownLife, audience: s.options.Audience, user: k.user, client: k.ClientID, account: account.value,
	}
	return s.requestToken(ctx, k.OAuthURL, "", want, clientcredentials.Config{
		ClientID: k.ClientID, ClientSecret: k.ClientSecret,
		EndpointParams: url.Values{
			"grant_type":           {string(oidc.GrantTypeTokenExchange)},
			"subject_token":        {account.value},
			"subject_token_type":   {string(oidc.AccessTokenType)},
			"requested_token_type": {string(oidc.AccessTokenType)},
			"requested_subject":    {k.user},
			"audience":             {s.options.Audience},
		},
	})
}

// requestToken sends a request to the token endpoint of an issuer. If bearer is not empty, it authenticates with this token.
func (s *Source) requestToken(
	ctx context.Context, issuer, bearer string, want expectation, config clientcredentials.Config,
) (issued, error) {
	config.TokenURL, config.AuthStyle = strings.TrimSuffix(issuer, "/")+s.options.TokenPath, oauth2.AuthStyleInParams
	return s.send(ctx, config.TokenURL, bearer, want, func(ctx context.Context, client *http.Client) (answer, error) {
		token, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
		if err != nil {
			return answer{}, err
		}
		got := answer{token: token.AccessToken, tokenType: token.TokenType}
		got.issuedTokenType, _ = token.Extra("issued_token_type").(string)
		if !token.Expiry.IsZero() {
			// The oauth2 package counts from the response, this package from the request. The server sent whole seconds.
			got.life = cmp.Or(min(time.Until(token.Expiry).Round(time.Second), maxLife), -1) // 0 means that the response had no expires_in
		}
		return got, nil
	})
}

// impersonate requests a user token from the service provider API of a region.
func (s *Source) impersonate(ctx context.Context, account issued, k key) (issued, error) {
	body, err := json.Marshal(map[string]string{"user_email": k.user, "subject_token": account.value})
	if err != nil {
		return issued{}, err
	}
	endpoint := strings.TrimSuffix(strings.ReplaceAll(s.options.ServiceProviderAPI, regionPlaceholder, k.region), "/") + "/" + impersonatePath
	want := expectation{step: stepImpersonate, life: userLife, user: k.user, client: k.ClientID, account: account.value}
	return s.send(ctx, endpoint, account.ticket, want, func(ctx context.Context, client *http.Client) (answer, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
		if err != nil {
			return answer{}, err
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json")
		response, err := client.Do(request)
		if err != nil {
			return answer{}, err
		}
		defer response.Body.Close()
		if response.StatusCode < 200 || response.StatusCode > 299 {
			return answer{}, errors.New(response.Status)
		}
		content, err := io.ReadAll(response.Body)
		if err != nil {
			return answer{}, err
		}
		return parseAnswer(content)
	})
}

// send sends a request to a server, unless the server has failed recently, and repeats it if there is no answer.
func (s *Source) send(
	ctx context.Context, endpoint, bearer string, want expectation, request func(context.Context, *http.Client) (answer, error),
) (issued, error) {
	target, err := url.Parse(endpoint)
	if err != nil || target.Scheme != "https" { // impossible: configuration and credentials are validated
		return issued{}, cloudhttp.Unknown(ownership.CauseIdentityProvider, "", "%s request: the URL has to begin with https://", want.step)
	}
	return s.server(target.Host).send(ctx, func(ctx context.Context) (issued, *ownership.UnknownError) {
		x := &cloudhttp.Exchange{Next: s.transport, Operation: want.step, Limit: cloudhttp.MaxBytes, KindOf: codeOf}
		client := cloudhttp.NewClient(x)
		if bearer != "" {
			client.Transport = &oauth2.Transport{Base: x, Source: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: bearer})}
		}
		want.began = time.Now()
		got, err := request(ctx, client)
		requests.Observe(want.step, x.Status, err == nil, time.Since(want.began))
		if err != nil {
			return failed(x, err)
		}
		return got.accept(want)
	})
}
