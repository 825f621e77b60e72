package webhookserver

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Reasons why a caller is refused, as the metric has them.
const (
	wrongCertificate = "certificate"
	wrongPath        = "path"
)

// refusedLogInterval is how often a refused caller is logged. Every one of them is counted.
const refusedLogInterval = time.Minute

var refused = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "warrantgate_refused_callers_total",
	Help: "Requests that were answered 404 and not read, because no API server sent them.",
}, []string{"reason"})

func init() { //nolint:gochecknoinits // a collector belongs to the process, like the registry that it is put into
	metrics.Registry.MustRegister(refused)
}

// callers lets API servers through to the hooks. All others get the same answer whatever they ask for: 404, without a body, on
// a connection that is closed. Nothing of their requests' bodies is read.
//
// The path is compared as it was sent: a server that cleans or decodes it would answer differently where there is a hook.
type callers struct {
	clients *Clients
	tokens  *Tokens
	// paths are those of the hooks. A segment in braces is a wildcard, as in http.ServeMux.
	paths map[string]bool
	hooks http.Handler
	log   rate.Sometimes
}

func (c *callers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.clients != nil && !c.clients.knows(r.TLS) {
		c.refuse(w, r, wrongCertificate)
		return
	}
	path, known := r.URL.EscapedPath(), c.clients != nil
	if c.tokens != nil {
		path, known = c.tokens.cut(path)
	}
	if !known || !c.serves(path) {
		c.refuse(w, r, wrongPath)
		return
	}
	// As http.StripPrefix does. The hooks do not see the token.
	inner := new(http.Request)
	*inner = *r
	inner.URL = &url.URL{Path: path, RawQuery: r.URL.RawQuery}
	inner.RequestURI = inner.URL.RequestURI()
	c.hooks.ServeHTTP(w, inner)
}

// serves tells whether a path is that of a hook.
func (c *callers) serves(path string) bool {
	if strings.ContainsAny(path, "{}") {
		return false
	}
	if c.paths[path] {
		return true
	}
	for pattern := range c.paths {
		if strings.Contains(pattern, "{") && matches(pattern, path) {
			return true
		}
	}
	return false
}

// wildcardValue is what a wildcard takes. Nothing of it is written otherwise when it is cleaned or decoded.
var wildcardValue = regexp.MustCompile(`^[a-z0-9-]+$`)

func matches(pattern, path string) bool {
	wanted, segments := strings.Split(pattern, "/"), strings.Split(path, "/")
	return slices.EqualFunc(wanted, segments, func(want, segment string) bool {
		return want == segment || strings.HasPrefix(want, "{") && wildcardValue.MatchString(segment)
	})
}

// refuse answers without reading the body: net/http would read what is small of it after the answer.
func (c *callers) refuse(w http.ResponseWriter, r *http.Request, reason string) {
	refused.WithLabelValues(reason).Inc()
	log := logf.FromContext(r.Context())
	c.log.Do(func() {
		name, verified := clientName(r.TLS)
		log.Info("refused a caller that is no API server, or one that is registered with another webhook path or certificate; "+
			"further ones are only counted for a while", "reason", reason, "address", r.RemoteAddr, "verified", verified, "name", name)
	})
	// A connection that cannot have a deadline (a test's recorder) has no body to wait for either.
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	w.Header().Set("Connection", "close")
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusNotFound)
}
