package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// clientFlags say whom the gates answer.
type clientFlags struct {
	caFile string
	names  []string
}

func (f *clientFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.caFile, "client-ca-file", "",
		"certificate authorities, in PEM, of the API servers that the webhooks answer; without it they answer whoever reaches them")
	flags.StringSliceVar(&f.names, "client-names", nil, "common names in the client certificates of those API servers; required with --client-ca-file")
}

// clients are whom the gates answer: those with a certificate of an authority and one of the names, or everybody where there
// is no authority. An API server has one if its AdmissionConfiguration names a kubeconfig for webhooks.
type clients struct {
	authorities *dynamiccertificates.DynamicFileCAContent
	names       []string
}

// load reads the authorities. Both a file without names and names without a file are refused: an authority signs for others
// than API servers, too.
func (f clientFlags) load() (*clients, error) {
	switch {
	case f.caFile == "" && len(f.names) == 0:
		return &clients{}, nil
	case f.caFile == "":
		return nil, errors.New("--client-names needs --client-ca-file, the authorities that vouch for the names")
	case len(f.names) == 0 || slices.Contains(f.names, ""):
		return nil, fmt.Errorf("--client-ca-file needs --client-names: the common names, not %q, of the API servers among all that the authorities sign for", f.names)
	}
	authorities, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", f.caFile)
	if err != nil {
		return nil, fmt.Errorf("--client-ca-file: %w", err)
	}
	return &clients{authorities: authorities, names: f.names}, nil
}

// configure has a certificate asked for in the handshake and, if there is one, verified. That there is one is checked for each
// request only: so an API server without one is told in HTTP what is missing, which it passes on to its users, and the checks
// of load balancers, which ask nothing, fill no log with failed handshakes.
func (c *clients) configure(config *tls.Config) {
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
func (c *clients) Start(ctx context.Context) error {
	if c.authorities == nil {
		logf.FromContext(ctx).Info("warning: whoever reaches the webhooks is answered; --client-ca-file and --client-names restrict that to API servers")
		return nil
	}
	c.authorities.Run(ctx, 1)
	return nil
}

var _ manager.Runnable = &clients{}

// only returns a server whose hooks answer nobody else.
func (c *clients) only(server webhook.Server) webhook.Server {
	if c.authorities == nil {
		return server
	}
	return &guarded{Server: server, clients: c}
}

// guarded is a webhook server that answers some clients only.
type guarded struct {
	webhook.Server
	clients *clients
}

// Register implements webhook.Server.
func (g *guarded) Register(path string, hook http.Handler) {
	g.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, verified := clientName(r.TLS)
		if verified && slices.Contains(g.clients.names, name) {
			hook.ServeHTTP(w, r)
			return
		}
		logf.FromContext(r.Context()).Info("refused a client", "path", path, "address", r.RemoteAddr, "verified", verified, "name", name)
		code, message := http.StatusForbidden, fmt.Sprintf("warrantgate does not answer %q, which is none of its --client-names", name)
		if !verified {
			code, message = http.StatusUnauthorized, "warrantgate answers only clients with a certificate of an authority of its --client-ca-file"
		}
		http.Error(w, message, code)
	}))
}

// clientName returns the name in a client's certificate. It is not verified where there was none.
func clientName(state *tls.ConnectionState) (name string, verified bool) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return "", false
	}
	return state.VerifiedChains[0][0].Subject.CommonName, true
}
