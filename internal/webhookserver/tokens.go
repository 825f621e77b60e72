package webhookserver

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// tokenSyntax makes a token one path segment that needs no escaping, and at least 128 bits long even if it is hexadecimal. API
// servers allow no other characters in the path of a webhook that refers to a Service.
var tokenSyntax = regexp.MustCompile(`^[a-z0-9]{32,128}$`)

// derived matches the tokens of TokenFor in a path.
var derived = regexp.MustCompile(`/[0-9a-f]{64}/`)

// reloadInterval is how often the file is read. A kubelet needs up to two minutes to update the file of a changed Secret.
const reloadInterval = time.Second

// Tokens are secret first segments of the webhooks' URL paths, one per line of a file. The webhook configurations contain the first
// token. A caller that knows a token is an API server, or may read webhook configurations. All tokens are accepted, so that API
// servers can change from one to the next without a failed request.
type Tokens struct {
	file    string
	current atomic.Pointer[[]string]
}

// NewTokens reads the tokens of a file. Errors name the line, never its content.
func NewTokens(file string) (*Tokens, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	t, err := ParseTokens(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	t.file = file
	return t, nil
}

// ParseTokens returns the tokens of the content of a file. They are never reloaded.
func ParseTokens(content []byte) (*Tokens, error) {
	var all []string
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		token := strings.TrimSpace(line)
		if token == "" {
			continue
		}
		if !tokenSyntax.MatchString(token) {
			return nil, fmt.Errorf("line %d is not a token: it must be 32 to 128 lower-case letters and digits, such as the output of \"openssl rand -hex 32\"", number)
		}
		all = append(all, token)
	}
	if len(all) == 0 {
		return nil, errors.New("it contains no token; create one with \"openssl rand -hex 32\"")
	}
	t := &Tokens{}
	t.current.Store(&all)
	return t, nil
}

// First returns the token for webhook configurations that only administrators can read.
func (t *Tokens) First() string { return (*t.current.Load())[0] }

// TokenFor returns the token for a webhook configuration that others than administrators can read, such as the owner of a provider's
// workspace on kcp. It is valid only for the paths with that name in place of the wildcard, and the given token is not valid there. The
// given token cannot be computed from it (HMAC-SHA256, RFC 2104).
func TokenFor(token, name string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte(name))
	return hex.EncodeToString(mac.Sum(nil))
}

// cut splits an escaped path into its first segment and the rest. Both are empty if there is no rest.
func cut(path string) (first, rest string) {
	path, rooted := strings.CutPrefix(path, "/")
	first, rest, found := strings.Cut(path, "/")
	if !rooted || !found {
		return "", ""
	}
	return first, "/" + rest
}

// accept reports whether given is one of the tokens, or, for paths with a wildcard, one of those for the name in place of it.
func (t *Tokens) accept(given, name string) bool {
	equal := 0
	for _, token := range *t.current.Load() { // compares with all tokens, so that the duration reveals nothing
		if name != "" {
			token = TokenFor(token, name)
		}
		equal |= subtle.ConstantTimeCompare([]byte(given), []byte(token))
	}
	return equal == 1
}

// Hide returns text without the tokens. API servers include the URL of a webhook in errors, which may be logged.
func (t *Tokens) Hide(text []byte) []byte {
	for _, token := range *t.current.Load() {
		text = bytes.ReplaceAll(text, []byte(token), []byte("TOKEN"))
	}
	return derived.ReplaceAll(text, []byte("/TOKEN/"))
}

var _ manager.Runnable = &Tokens{}

// Start implements manager.Runnable. It reloads the file until ctx ends. While the file cannot be read, the previous tokens stay
// valid. New content is used only after two equal reads, because the first read may see a partly written file.
func (t *Tokens) Start(ctx context.Context) error {
	if t.file == "" {
		return nil
	}
	log := logf.FromContext(ctx).WithName("webhook-path")
	last, taken := "", strings.Join(*t.current.Load(), "\n") // the last content or error
	wait.UntilWithContext(ctx, func(context.Context) {
		next, err := NewTokens(t.file)
		read := fmt.Sprint(err)
		if err == nil {
			read = strings.Join(*next.current.Load(), "\n")
		}
		if again := read == last; !again || read == taken {
			last = read
			return
		}
		taken = read
		if err != nil {
			log.Error(err, "cannot read the tokens of the webhook path; the previous tokens stay valid")
			return
		}
		t.current.Store(next.current.Load())
		log.Info("loaded the tokens of the webhook path", "tokens", len(*next.current.Load()))
	}, reloadInterval)
	return nil
}
