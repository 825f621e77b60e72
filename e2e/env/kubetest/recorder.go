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

// Recorder records the denials and warnings that clients receive from API servers. The zero value is empty.
type Recorder struct {
	mu       sync.Mutex
	texts    strings.Builder
	warnings []string
}

// Listen returns a config whose clients record their denials and warnings here.
func (r *Recorder) Listen(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{} // RoundTrip records them
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err != nil {
				return nil, err
			}
			return response, r.keep(response)
		})
	})
	return config
}

// Texts are all denials and warnings, one after the other.
func (r *Recorder) Texts() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.texts.String()
}

// TakeWarnings returns the warnings since the last call.
func (r *Recorder) TakeWarnings() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	warnings := r.warnings
	r.warnings = nil
	return warnings
}

func (r *Recorder) keep(response *http.Response) error {
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
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts.Write(body)
	for _, warning := range warnings {
		r.warnings = append(r.warnings, warning.Text)
		r.texts.WriteString(warning.Text)
	}
	return nil
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
