package webhookserver

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Clients are API servers that show a certificate of a CA with one of the names. An API server has such a certificate if its
// AdmissionConfiguration names a kubeconfig for webhooks.
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
// request only: so an API server without one is told in HTTP, and the checks of load balancers, which ask nothing, fill no log
// with failed handshakes.
func (c *Clients) configure(config *tls.Config) {
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

// Start implements manager.Runnable. It reads the authorities again when their file changes.
func (c *Clients) Start(ctx context.Context) error {
	c.authorities.Run(ctx, 1)
	return nil
}

var _ manager.Runnable = &Clients{}

// knows says whether a connection is that of an API server.
func (c *Clients) knows(state *tls.ConnectionState) bool {
	name, verified := clientName(state)
	return verified && slices.Contains(c.names, name)
}

// clientName returns the name in a client's certificate. It is not verified where there was none.
func clientName(state *tls.ConnectionState) (name string, verified bool) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return "", false
	}
	return state.VerifiedChains[0][0].Subject.CommonName, true
}
