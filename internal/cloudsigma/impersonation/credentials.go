package impersonation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
)

// Credentials belong to a service account of an identity provider. They are safe to log: no fmt verb, logger or encoder prints the
// secret.
type Credentials struct {
	// OAuthURL is the base URL of the identity provider, such as https://oauth.example.com/auth. Only https is accepted.
	OAuthURL string
	// ClientID is the OAuth client ID of the service account.
	ClientID string
	// ClientSecret is the OAuth client secret.
	ClientSecret string
}

// FromFile returns a source of credentials with the secret in a file. It reads the file at each use, so that a new secret needs no
// restart. It trims white space, such as a trailing newline.
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

// Fixed returns a source of credentials that never change, such as those of environment variables.
func Fixed(credentials Credentials) func(context.Context) (Credentials, error) {
	return func(context.Context) (Credentials, error) { return credentials, nil }
}

// String returns the client ID and the URL.
func (c Credentials) String() string {
	return fmt.Sprintf("client %q at %q", c.ClientID, c.OAuthURL)
}

// Format implements fmt.Formatter. For verbs such as %d, fmt would print the fields instead of calling String.
func (c Credentials) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, c.String()) }

// MarshalJSON returns String as JSON.
func (c Credentials) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

func (c Credentials) validate() error {
	switch {
	case c.ClientID == "":
		return errors.New("the client id is empty")
	case c.ClientSecret == "":
		return errors.New("the client secret is empty")
	}
	// The error does not contain the URL, which could contain a password.
	issuer, err := url.Parse(c.OAuthURL)
	if err != nil || issuer.Scheme != "https" || issuer.Hostname() == "" || issuer.User != nil || issuer.RawQuery != "" || issuer.Fragment != "" {
		return errors.New("the OAuth URL has to be https://, a host and a path, without user, query and fragment")
	}
	return nil
}
