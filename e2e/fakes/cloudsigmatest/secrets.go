package cloudsigmatest

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// secrets remembers everything that nobody may see.
type secrets struct {
	mu   sync.Mutex
	seen map[string]struct{}
}

// Secrets returns, sorted, every secret, password and token that was ever issued here or presented by a client, also the
// wrong ones: none of them may be found in a log, an Event or a metric.
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

// random makes a secret and remembers it.
func (s *secrets) random() string {
	secret := rand.Text()
	s.remember(secret)
	return secret
}

// rememberPresented remembers what a request proves itself with. Its form has been parsed.
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

// bearer returns the bearer token of a request, "" where there is none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

// basicAuth is the header by which a user and password are presented.
func basicAuth(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}
