package webhookserver

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Reasons why the server rejects a caller, as label values of the metric.
const (
	wrongCertificate = "certificate"
	wrongPath        = "path"
)

// rejectionLogInterval is the time between two log lines about rejected callers. The metric counts every rejected request.
const rejectionLogInterval = time.Minute

var rejected = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
	Name: "warrantgate_rejected_callers_total",
	Help: "Requests with the response 404, without a read of their body, because they did not come from an API server.",
}, []string{"reason"})

// callers serves the hooks to API servers only. All other callers get the same response for every path: 404 without a body, and the
// server closes the connection. It does not read their request bodies.
//
// The paths with a wildcard have tokens of their own for each value of it; see TokenFor.
//
// The path is compared without cleaning or decoding. Otherwise responses would reveal which paths are hooks.
type callers struct {
	clients *Clients
	tokens  *Tokens
	// paths are the paths of the hooks. One segment of a path, in braces, can be a wildcard, as in http.ServeMux.
	paths map[string]bool
	hooks http.Handler
	log   rate.Sometimes
}

func (c *callers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.clients != nil && !c.clients.knows(r.TLS) {
		c.reject(w, r, wrongCertificate)
		return
	}
	path, token := r.URL.EscapedPath(), ""
	if c.tokens != nil {
		token, path = cut(path)
	}
	name, served := c.match(path)
	known := c.clients != nil
	if c.tokens != nil {
		known = c.tokens.accept(token, name)
	}
	if !known || !served {
		c.reject(w, r, wrongPath)
		return
	}
	know(r.Context())
	// This copies the request as http.StripPrefix does. The hooks do not see the token.
	inner := new(http.Request)
	*inner = *r
	inner.URL = &url.URL{Path: path, RawQuery: r.URL.RawQuery}
	inner.RequestURI = inner.URL.RequestURI()
	c.hooks.ServeHTTP(w, inner)
}

// match reports whether path is the path of a hook, and returns the value of the wildcard, if the path has one.
func (c *callers) match(path string) (name string, served bool) {
	if strings.ContainsAny(path, "{}") {
		return "", false
	}
	if c.paths[path] {
		return "", true
	}
	for pattern := range c.paths {
		before, rest, wild := strings.Cut(pattern, "{")
		_, after, _ := strings.Cut(rest, "}")
		name, begins := strings.CutPrefix(path, before)
		name, ends := strings.CutSuffix(name, after)
		if wild && begins && ends && wildcardValue.MatchString(name) {
			return name, true
		}
	}
	return "", false
}

// wildcardValue matches the values of the wildcard. Cleaning and decoding do not change such a value.
var wildcardValue = regexp.MustCompile(`^[a-z0-9-]+$`)

// reject responds without reading the body. Without the read deadline, net/http would read a small body after the response.
func (c *callers) reject(w http.ResponseWriter, r *http.Request, reason string) {
	rejected.WithLabelValues(reason).Inc()
	log := logf.FromContext(r.Context())
	c.log.Do(func() {
		name, verified := clientName(r.TLS)
		log.Info("denied a caller that is not an API server, or that uses another webhook path or client certificate; "+
			"for a while, further callers are only counted", "reason", reason, "address", r.RemoteAddr, "verified", verified, "name", name)
	})
	// A recorder in a test supports no deadline, and has no body to wait for.
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	w.Header().Set("Connection", "close")
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusNotFound)
}
