package webhookserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Clients are whom the hooks answer: those with a certificate of an authority and one of the names, or everybody where there
// is no authority, which is what the zero value is. An API server has such a certificate if its AdmissionConfiguration names a
// kubeconfig for webhooks.
type Clients struct {
	authorities *dynamiccertificates.DynamicFileCAContent
	names       []string
}

// NewClients returns clients with one of the common names in a certificate of one of the authorities in the file, in PEM. The
// error tells what is wrong with the file.
func NewClients(caFile string, names []string) (*Clients, error) {
	authorities, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", caFile)
	if err != nil {
		return nil, err
	}
	return &Clients{authorities: authorities, names: names}, nil
}

// configure has a certificate asked for in the handshake and, if there is one, verified. That there is one is checked for each
// request only: so an API server without one is told in HTTP what is missing, which it passes on to its users, and the checks
// of load balancers, which ask nothing, fill no log with failed handshakes.
func (c *Clients) configure(config *tls.Config) {
	if c.authorities == nil {
		return
	}
	config.ClientAuth = tls.VerifyClientCertIfGiven
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		options, loaded := c.authorities.VerifyOptions()
		if !loaded || options.Roots == nil { // or the system's would hold
			return nil, errors.New("no authority for client certificates is loaded")
		}
		current := config.Clone()
		current.ClientCAs = options.Roots
		return current, nil
	}
}

// Start implements manager.Runnable. It reads the authorities again when their file changes, or warns that there are none.
func (c *Clients) Start(ctx context.Context) error {
	if c.authorities == nil {
		logf.FromContext(ctx).Info("warning: whoever reaches the webhooks is answered; --client-ca-file and --client-names restrict that to API servers")
		return nil
	}
	c.authorities.Run(ctx, 1)
	return nil
}

var _ manager.Runnable = &Clients{}

// only returns a hook that answers nobody else.
func (c *Clients) only(path string, hook http.Handler) http.Handler {
	if c.authorities == nil {
		return hook
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, verified := clientName(r.TLS)
		if verified && slices.Contains(c.names, name) {
			hook.ServeHTTP(w, r)
			return
		}
		logf.FromContext(r.Context()).Info("refused a client", "path", path, "address", r.RemoteAddr, "verified", verified, "name", name)
		code, message := http.StatusForbidden, fmt.Sprintf("warrantgate does not answer %q, which is none of its --client-names", name)
		if !verified {
			code, message = http.StatusUnauthorized, "warrantgate answers only clients with a certificate of an authority of its --client-ca-file"
		}
		http.Error(w, message, code)
	})
}

// clientName returns the name in a client's certificate. It is not verified where there was none.
func clientName(state *tls.ConnectionState) (name string, verified bool) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return "", false
	}
	return state.VerifiedChains[0][0].Subject.CommonName, true
}
