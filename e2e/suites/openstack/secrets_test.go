//go:build e2e

package openstack_test

import (
	"slices"
	"strings"
	"sync"
)

// secrets are the passwords and the secrets of application credentials that stories have created.
var secrets struct {
	sync.Mutex
	all []string
}

func keepSecret(secret string) string {
	secrets.Lock()
	defer secrets.Unlock()
	secrets.all = append(secrets.all, secret)
	return secret
}

// leaks returns the secrets in a text. A truncated token is a secret as well.
func (w *world) leaks(text string) []string {
	const enough = 32
	secrets.Lock()
	all := slices.Clone(secrets.all)
	secrets.Unlock()
	for _, token := range w.front.Tokens() {
		all = append(all, token[len(token)-enough:], token[:enough])
	}
	return slices.DeleteFunc(all, func(secret string) bool { return !strings.Contains(text, secret) })
}
