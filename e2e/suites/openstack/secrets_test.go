//go:build e2e

package openstack_test

import (
	"context"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/suite"
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

// expectNoLeaks searches all output of warrantgate for secrets.
func (w *world) expectNoLeaks(ctx context.Context, metrics string) {
	GinkgoHelper()
	var events corev1.EventList
	Expect(w.client.List(ctx, &events, client.MatchingFields{"source": "warrantgate"})).To(Succeed())
	var eventTexts strings.Builder
	for i := range events.Items {
		eventTexts.WriteString(events.Items[i].Message)
	}
	for where, text := range map[string]string{
		"the log": suite.Log(w.gate), "the metrics": metrics, "an error or a warning": w.recorder.Texts(), "an Event": eventTexts.String(),
	} {
		Expect(w.leaks(text)).To(BeEmpty(), "secrets in "+where)
	}
}
