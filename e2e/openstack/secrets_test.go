//go:build e2e

package openstack_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// secrets are the passwords and the secrets of application credentials that stories have made.
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

// leaks returns the secrets that a text has. A token that was cut off is one as well.
func (w *world) leaks(text string) []string {
	const enough = 32
	secrets.Lock()
	all := slices.Clone(secrets.all)
	secrets.Unlock()
	for _, token := range w.front.given() {
		all = append(all, token[len(token)-enough:], token[:enough])
	}
	return slices.DeleteFunc(all, func(secret string) bool { return !strings.Contains(text, secret) })
}

// expectNoLeaks looks for secrets in all that warrantgate has written.
func (w *world) expectNoLeaks(ctx context.Context, metrics string) {
	GinkgoHelper()
	var events corev1.EventList
	Expect(w.client.List(ctx, &events, client.MatchingFields{"source": "warrantgate"})).To(Succeed())
	var told strings.Builder
	for i := range events.Items {
		told.WriteString(events.Items[i].Message)
	}
	for where, text := range map[string]string{
		"the log": w.log(), "the metrics": metrics, "an error or a warning": w.heard.all(), "an Event": told.String(),
	} {
		Expect(w.leaks(text)).To(BeEmpty(), "secrets in "+where)
	}
}

// metrics is the page that Prometheus reads.
func (w *world) metrics(ctx context.Context) string {
	GinkgoHelper()
	for _, arg := range w.gate.ServeCommand() {
		if address, is := strings.CutPrefix(arg, "--metrics-address="); is {
			page, err := body(ctx, "http://"+address+"/metrics")
			Expect(err).NotTo(HaveOccurred())
			return page
		}
	}
	Fail("serve was not told where its metrics are")
	return ""
}

// body is what an address answers.
func body(ctx context.Context, at string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return string(content), err
}

// heard keeps what an API server has told: refusals and warnings.
type heard struct {
	mu       sync.Mutex
	texts    strings.Builder
	warnings []string
}

func (h *heard) all() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.texts.String()
}

// takeWarnings returns the warnings since the last call.
func (h *heard) takeWarnings() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	warnings := h.warnings
	h.warnings = nil
	return warnings
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (h *heard) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.warnings = append(h.warnings, text)
	h.texts.WriteString(text)
}

// listening is a client of the administrator, whose refusals and warnings are kept.
func (w *world) listening() client.Client {
	GinkgoHelper()
	config := w.api.Config()
	config.WarningHandlerWithContext = w.heard
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &listener{heard: w.heard, next: next} })
	listening, err := w.api.NewClient(config)
	Expect(err).NotTo(HaveOccurred())
	return listening
}

// listener keeps the bodies of refusals.
type listener struct {
	heard *heard
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (l *listener) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(request)
	if err != nil || response.StatusCode < http.StatusBadRequest {
		return response, err
	}
	content, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(content))
	l.heard.mu.Lock()
	defer l.heard.mu.Unlock()
	l.heard.texts.Write(content)
	return response, err
}
