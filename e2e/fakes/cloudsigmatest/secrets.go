package cloudsigmatest

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// secrets records all secrets.
type secrets struct {
	mu   sync.Mutex
	seen map[string]struct{}
}

// Secrets returns, sorted, every secret, password and token that was ever issued here or presented by a client, including wrong
// ones. None of them may be in a log, an Event or a metric.
func (s *secrets) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]string, 0, len(s.seen))
	for secret := range s.seen {
		all = append(all, secret)
	}
	slices.Sort(all)
	return all
}

func (s *secrets) remember(values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[string]struct{}{}
	}
	for _, value := range values {
		if value != "" {
			s.seen[value] = struct{}{}
		}
	}
}

// random creates and records a secret.
func (s *secrets) random() string {
	secret := rand.Text()
	s.remember(secret)
	return secret
}

// rememberPresented records the credentials of a request. Its form must be parsed.
func (s *secrets) rememberPresented(r *http.Request) {
	scheme, credentials, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	s.remember(credentials)
	if _, password, ok := r.BasicAuth(); ok {
		s.remember(password)
	} else if !strings.EqualFold(scheme, "Bearer") {
		s.remember(r.Header.Get("Authorization"))
	}
	for _, name := range []string{"client_secret", "subject_token", "actor_token"} {
		s.remember(r.PostForm.Get(name))
	}
}

// bearer returns the bearer token of a request, "" if there is none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

// basicAuth is the header with a user and a password.
func basicAuth(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}
