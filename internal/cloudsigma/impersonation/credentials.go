package impersonation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strings"
)

// Credentials are those of a service account at an identity provider. They can be logged: no verb, logger or encoder
// shows the secret.
type Credentials struct {
	// OAuthURL is the base URL of the identity provider, such as https://oauth.example.com/auth. Only https is accepted.
	OAuthURL string
	// ClientID names the service account.
	ClientID string
	// ClientSecret proves it.
	ClientSecret string
}

// FromFile returns the source of credentials whose secret is in a file. The file is read at each use, so that a new
// secret needs no restart. White space around the secret, such as the newline that editors leave, is no part of it.
func FromFile(oauthURL, clientID, secretFile string) func(context.Context) (Credentials, error) {
	return func(context.Context) (Credentials, error) {
		secret, err := os.ReadFile(secretFile)
		if err != nil {
			return Credentials{}, fmt.Errorf("read the client secret: %w", err)
		}
		found := Credentials{OAuthURL: oauthURL, ClientID: clientID, ClientSecret: strings.TrimSpace(string(secret))}
		if found.ClientSecret == "" {
			return Credentials{}, fmt.Errorf("read the client secret: file %q is empty", secretFile)
		}
		return found, nil
	}
}

// Fixed returns the source of credentials that never change, such as those of the environment.
func Fixed(credentials Credentials) func(context.Context) (Credentials, error) {
	return func(context.Context) (Credentials, error) { return credentials, nil }
}

// String says whose the credentials are.
func (c Credentials) String() string {
	return fmt.Sprintf("client %q at %q", c.ClientID, c.OAuthURL)
}

// GoString is what %#v prints.
func (c Credentials) GoString() string { return c.String() }

// Format implements fmt.Formatter: String is not asked for verbs such as %d, which would print the fields.
func (c Credentials) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, c.String()) }

// LogValue implements slog.LogValuer.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalJSON says whose the credentials are.
func (c Credentials) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

func (c Credentials) validate() error {
	switch {
	case c.ClientID == "":
		return errors.New("the client id is empty")
	case c.ClientSecret == "":
		return errors.New("the client secret is empty")
	}
	if _, err := parseURL(c.OAuthURL); err != nil {
		return fmt.Errorf("the OAuth URL %w", err)
	}
	return nil
}

// parseURL accepts a plain https URL. The error does not repeat the URL, which could hold a password.
func parseURL(raw string) (*url.URL, error) {
	parsed, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("cannot be parsed")
	case parsed.Scheme != "https":
		return nil, errors.New("must begin with https://")
	case parsed.Hostname() == "":
		return nil, errors.New("must name a host")
	case parsed.User != nil || parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "":
		return nil, errors.New("must have neither user, query nor fragment")
	}
	return parsed, nil
}
