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
		"file of tokens, one a line, with one of which the path of a request has to begin, or it is answered 404; read again when it changes; "+
			"\"openssl rand -hex 32\" prints one; required without --client-ca-file")
	flags.StringVar(&f.caFile, "client-ca-file", "",
		"CA certificates, in PEM, of the API servers that the webhooks answer; other callers are answered 404")
	flags.StringSliceVar(&f.names, "client-names", nil, "common names in the client certificates of those API servers; required with --client-ca-file")
}

// load reads the files. It returns an error if no option distinguishes API servers from other clients.
func (f callerFlags) load() (*webhookserver.Clients, *webhookserver.Tokens, error) {
	if f.pathFile == "" && f.caFile == "" && len(f.names) == 0 {
		return nil, nil, errors.New("the webhooks have no callers configured: --webhook-path-file names a file of tokens that the path has to begin with " +
			"(\"openssl rand -hex 32\" prints one; give the same file to install), --client-ca-file and --client-names say which client certificates API servers have")
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
		return nil, errors.New("--client-names needs --client-ca-file, the authorities that vouch for the names")
	case len(f.names) == 0 || slices.Contains(f.names, ""):
		return nil, fmt.Errorf("--client-ca-file needs --client-names: the common names, not %q, of the API servers among all that the authorities sign for", f.names)
	}
	clients, err := webhookserver.NewClients(f.caFile, f.names)
	if err != nil {
		return nil, fmt.Errorf("--client-ca-file: %w", err)
	}
	return clients, nil
}
