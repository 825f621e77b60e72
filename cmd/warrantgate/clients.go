package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"warrantgate.dev/internal/webhookserver"
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

// load reads the authorities. Both a file without names and names without a file are refused: an authority signs for others
// than API servers, too.
func (f clientFlags) load() (*webhookserver.Clients, error) {
	switch {
	case f.caFile == "" && len(f.names) == 0:
		return &webhookserver.Clients{}, nil
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
