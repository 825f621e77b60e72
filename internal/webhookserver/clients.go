package webhookserver

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Clients identifies API servers by their client certificate: its CA and common name. An API server has a client certificate if its
// AdmissionConfiguration names a kubeconfig for webhooks.
type Clients struct {
	cas   *dynamiccertificates.DynamicFileCAContent
	names []string
}

// NewClients returns clients whose certificate has one of the common names and is signed by a CA in the file (PEM). An error
// describes the problem with the file.
func NewClients(caFile string, names []string) (*Clients, error) {
	cas, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", caFile)
	if err != nil {
		return nil, err
	}
	return &Clients{cas: cas, names: names}, nil
}

// configure requests a client certificate in the TLS handshake, and verifies it if there is one. Only the HTTP handler requires it.
// So an API server without a certificate gets an HTTP response, and health checks of load balancers do not fill the log with failed
// handshakes.
func (c *Clients) configure(config *tls.Config) {
	config.ClientAuth = tls.VerifyClientCertIfGiven
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		options, loaded := c.cas.VerifyOptions()
		if !loaded || options.Roots == nil { // otherwise the CAs of the system would be trusted
			return nil, errors.New("no CA for client certificates is loaded")
		}
		current := config.Clone()
		current.ClientCAs = options.Roots
		return current, nil
	}
}

// Start implements manager.Runnable. It reloads the CAs when their file changes.
func (c *Clients) Start(ctx context.Context) error {
	c.cas.Run(ctx, 1)
	return nil
}

var _ manager.Runnable = &Clients{}

// knows reports whether the connection has the certificate of an API server.
func (c *Clients) knows(state *tls.ConnectionState) bool {
	name, verified := clientName(state)
	return verified && slices.Contains(c.names, name)
}

// clientName returns the common name of the client certificate. verified is false without a certificate.
func clientName(state *tls.ConnectionState) (name string, verified bool) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return "", false
	}
	return state.VerifiedChains[0][0].Subject.CommonName, true
}
