package kubetest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// Heard records the denials and warnings that clients receive from API servers. The zero value is empty.
type Heard struct {
	mu       sync.Mutex
	texts    strings.Builder
	warnings []string
}

// Listen returns a config whose clients record their denials and warnings here.
func (h *Heard) Listen(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{} // RoundTrip records them
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err != nil {
				return nil, err
			}
			return response, h.keep(response)
		})
	})
	return config
}

// Texts are all denials and warnings, one after the other.
func (h *Heard) Texts() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.texts.String()
}

// TakeWarnings returns the warnings since the last call.
func (h *Heard) TakeWarnings() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	warnings := h.warnings
	h.warnings = nil
	return warnings
}

func (h *Heard) keep(response *http.Response) error {
	warnings, errs := utilnet.ParseWarningHeaders(response.Header.Values("Warning"))
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	var body []byte
	if response.StatusCode >= http.StatusBadRequest {
		var err error
		if body, err = io.ReadAll(response.Body); err != nil {
			return err
		}
		_ = response.Body.Close()
		response.Body = io.NopCloser(bytes.NewReader(body))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.texts.Write(body)
	for _, warning := range warnings {
		h.warnings = append(h.warnings, warning.Text)
		h.texts.WriteString(warning.Text)
	}
	return nil
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
