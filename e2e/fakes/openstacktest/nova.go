package openstacktest

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"warrantgate.dev/e2e/fakes/faults"
)

// version is the path of the API, which is part of the endpoint in a catalog.
const version = "/v2.1"

// Validate asks Keystone whose a token is: the ID of its project, "" if it is for none. It is not ok if Keystone does not know
// the token.
type Validate func(ctx context.Context, token string) (projectID string, ok bool, err error)

// Options say what a Nova is like.
type Options struct {
	// Validate checks the token of each request.
	Validate Validate
	// Plain is true for http instead of https.
	Plain bool
}

// Nova is a Nova in one region.
type Nova struct {
	*inventory
	*journal
	*faults.Failures[Operation]

	validate Validate
	server   *httptest.Server
}

// Start starts a Nova without servers on a free port of the loopback interface. It runs until Stop.
func Start(options Options) (*Nova, error) {
	if options.Validate == nil {
		return nil, errors.New("nothing to check tokens with")
	}
	n := &Nova{inventory: newInventory(), journal: &journal{}, Failures: faults.New[Operation](), validate: options.Validate}
	n.server = httptest.NewUnstartedServer(http.HandlerFunc(n.serve))
	n.server.Config.ErrorLog = log.New(io.Discard, "", 0) // failed handshakes are the clients' to tell
	if options.Plain {
		n.server.Start()
	} else {
		n.server.StartTLS()
	}
	return n, nil
}

// Stop ends Nova and all requests that hang in it.
func (n *Nova) Stop() {
	n.ReleaseAll()
	n.server.CloseClientConnections()
	n.server.Close()
}

// Endpoint is the URL for the catalog, as the endpoint of a service of the type compute.
func (n *Nova) Endpoint() string { return n.server.URL + version }

// CAPEM is the certificate authority of Nova, in PEM, nil if it needs none.
func (n *Nova) CAPEM() []byte {
	certificate := n.server.Certificate()
	if certificate == nil {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}
