package impersonation

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"warrantgate.dev/internal/cloudhttp"
)

const (
	// grantUMATicket is the grant type of UMA 2.0 (Federated Authorization, section 3.3.1) as Keycloak implements it.
	grantUMATicket = "urn:ietf:params:oauth:grant-type:uma-ticket"
	// impersonatePath is relative to the URL of the service provider API.
	impersonatePath = "user/impersonate"
	// maxBodyBytes limits the size of a response. The oauth2 package has the same limit.
	maxBodyBytes = 1 << 20
)

// requestAccount requests the service account's own token (RFC 6749 section 4.4).
func (s *Source) requestAccount(ctx context.Context, credentials Credentials) (issued, error) {
	want := expectation{step: stepAccount, life: unknownLife}
	return s.requestToken(ctx, credentials.OAuthURL, want, "", &clientcredentials.Config{
		ClientID: credentials.ClientID, ClientSecret: credentials.ClientSecret,
	})
}

// requestTicket requests a ticket for the service provider API with the service account's token.
func (s *Source) requestTicket(ctx context.Context, issuer string, account issued) (issued, error) {
	want := expectation{step: stepTicket, life: unknownLife, audience: s.options.Audience}
	return s.requestToken(ctx, issuer, want, account.value, &clientcredentials.Config{
		EndpointParams: url.Values{"grant_type": {grantUMATicket}, "audience": {s.options.Audience}},
	})
}

// exchange exchanges the service account's token for a user token (RFC 8693). The parameter requested_subject contains the user. It
// is an extension of Keycloak.
func (s *Source) exchange(ctx context.Context, credentials Credentials, account issued, user string) (issued, error) {
	want := expectation{
		step: stepExchange, life: unknownLife, audience: s.options.Audience,
		user: user, client: credentials.ClientID, account: account.value,
	}
	return s.requestToken(ctx, credentials.OAuthURL, want, "", &clientcredentials.Config{
		ClientID: credentials.ClientID, ClientSecret: credentials.ClientSecret,
		EndpointParams: url.Values{
			"grant_type":           {string(oidc.GrantTypeTokenExchange)},
			"subject_token":        {account.value},
			"subject_token_type":   {string(oidc.AccessTokenType)},
			"requested_token_type": {string(oidc.AccessTokenType)},
			"requested_subject":    {user},
			"audience":             {s.options.Audience},
		},
	})
}

// requestToken sends a request to the token endpoint of an issuer. If bearer is not empty, it authenticates with this token.
func (s *Source) requestToken(
	ctx context.Context, issuer string, want expectation, bearer string, config *clientcredentials.Config,
) (issued, error) {
	endpoint, err := parseURL(issuer)
	if err != nil {
		return issued{}, err
	}
	endpoint = endpoint.JoinPath(s.options.TokenPath)
	config.TokenURL, config.AuthStyle = endpoint.String(), oauth2.AuthStyleInParams
	return s.guards.send(ctx, endpoint.Host, want.step, func(ctx context.Context) (issued, error) {
		want.began = time.Now()
		token, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, s.client(bearer)))
		if err != nil {
			return issued{}, errorOf(ctx, want.step, err)
		}
		got := answer{token: token.AccessToken, tokenType: token.TokenType}
		got.issuedTokenType, _ = token.Extra("issued_token_type").(string)
		if !token.Expiry.IsZero() {
			// The oauth2 package counts from the response, this package from the request. The server sent whole seconds.
			got.life = min(time.Until(token.Expiry).Round(time.Second), maxLife)
			if got.life == 0 {
				got.life = -1 // 0 means that the response had no expires_in
			}
		}
		return got.accept(want)
	})
}

// impersonate requests a user token from the service provider API of a region.
func (s *Source) impersonate(ctx context.Context, ticket, account issued, k key) (issued, error) {
	endpoint, err := serviceProviderURL(s.options.ServiceProviderAPI, k.region)
	if err != nil {
		return issued{}, err
	}
	body, err := json.Marshal(map[string]string{"user_email": k.subject, "subject_token": account.value})
	if err != nil {
		return issued{}, err
	}
	want := expectation{step: stepImpersonate, life: userLife, user: k.subject, client: k.client, account: account.value}
	return s.guards.send(ctx, endpoint.Host, stepImpersonate, func(ctx context.Context) (issued, error) {
		want.began = time.Now()
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint.JoinPath(impersonatePath).String(), bytes.NewReader(body))
		if err != nil {
			return issued{}, err
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json")
		got, err := s.ask(ctx, s.client(ticket.value), request)
		if err != nil {
			return issued{}, err
		}
		return got.accept(want)
	})
}

func (s *Source) ask(ctx context.Context, client *http.Client, request *http.Request) (answer, error) {
	response, err := client.Do(request)
	if err != nil {
		return answer{}, errorOfTransport(ctx, stepImpersonate, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBodyBytes))
	if response.StatusCode < 200 || response.StatusCode > 299 {
		var rejection struct {
			Error string `json:"error"`
		}
		_ = json.Unmarshal(body, &rejection) // the code is optional, the status is sufficient
		return answer{}, errorOfAnswer(stepImpersonate, response, rejection.Error)
	}
	if err != nil {
		return answer{}, errorOfTransport(ctx, stepImpersonate, err)
	}
	got, err := parseAnswer(body)
	if err != nil {
		return answer{}, errorOfTransport(ctx, stepImpersonate, err)
	}
	return got, nil
}

// client returns a client that sends a bearer token, if there is one. It does not follow redirects.
func (s *Source) client(bearer string) *http.Client {
	client := &http.Client{Transport: s.transport, CheckRedirect: cloudhttp.RefuseRedirect}
	if bearer != "" {
		client.Transport = &oauth2.Transport{
			Base: s.transport, Source: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: bearer}),
		}
	}
	return client
}

// regionPlaceholder is replaced with the region in URL templates.
const regionPlaceholder = "{region}"

// serviceProviderURL inserts a validated region into a URL template.
func serviceProviderURL(template, region string) (*url.URL, error) {
	return parseURL(strings.ReplaceAll(template, regionPlaceholder, region))
}
