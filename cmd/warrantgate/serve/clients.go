package serve

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/webhookserver"
)

// callerFlags define the clients whose requests the gates answer.
type callerFlags struct {
	caFile   string
	names    []string
	pathFile string
}

func (f *callerFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.pathFile, "webhook-path-file", "",
		"file of tokens, one per line; the request path must begin with one of them, or the response is 404; reloaded when it changes; "+
			"\"openssl rand -hex 32\" prints a token; required without --client-ca-file")
	flags.StringVar(&f.caFile, "client-ca-file", "",
		"CA certificates, in PEM, of the client certificates of API servers; the response to other callers is 404")
	flags.StringSliceVar(&f.names, "client-names", nil, "common names in the client certificates of those API servers; required with --client-ca-file")
}

// load reads the files. It returns an error if no option distinguishes API servers from other clients.
func (f callerFlags) load() (*webhookserver.Clients, *webhookserver.Tokens, error) {
	if f.pathFile == "" && f.caFile == "" && len(f.names) == 0 {
		return nil, nil, errors.New("no authentication of callers is configured: set --webhook-path-file, a file of tokens with which the request path begins " +
			"(\"openssl rand -hex 32\" prints a token; give the same file to install), or --client-ca-file and --client-names, the client certificates of API servers")
	}
	clients, err := f.clients()
	if err != nil || f.pathFile == "" {
		return clients, nil, err
	}
	tokens, err := cli.LoadTokens(f.pathFile)
	return clients, tokens, err
}

// clients returns nil without the flags. Both a file without names and names without a file are rejected: a CA also signs certificates of
// clients other than API servers.
func (f callerFlags) clients() (*webhookserver.Clients, error) {
	switch {
	case f.caFile == "" && len(f.names) == 0:
		return nil, nil
	case f.caFile == "":
		return nil, errors.New("--client-names needs --client-ca-file, the CA of the client certificates")
	case len(f.names) == 0 || slices.Contains(f.names, ""):
		return nil, fmt.Errorf("--client-ca-file needs --client-names, the common names of API servers, because the CA also signs other clients; got %q", f.names)
	}
	clients, err := webhookserver.NewClients(f.caFile, f.names)
	if err != nil {
		return nil, fmt.Errorf("--client-ca-file: %w", err)
	}
	return clients, nil
}
