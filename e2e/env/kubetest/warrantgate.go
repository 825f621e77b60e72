package kubetest

import (
	"context"
	"slices"

	"warrantgate.dev/e2e/env/warrantgatetest"
)

// WarrantgateUser is whom warrantgate serves as. It is in no group, so that it can do only what install gave it.
const WarrantgateUser = warrantgatetest.User

// WarrantgateOptions say how to run warrantgate.
type WarrantgateOptions = warrantgatetest.Settings

// Warrantgate is a warrantgate that serves a kube-apiserver on this machine.
type Warrantgate struct {
	*warrantgatetest.Warrantgate
	server *Server
}

// StartWarrantgate installs warrantgate in a kube-apiserver and starts it; see NewWarrantgate for doing only one of both.
func StartWarrantgate(ctx context.Context, server *Server, options WarrantgateOptions) (*Warrantgate, error) {
	w, err := NewWarrantgate(ctx, server, options)
	if err != nil {
		return nil, err
	}
	if _, err := w.Install(ctx); err != nil {
		return nil, err
	}
	if err := w.Start(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

// NewWarrantgate prepares a warrantgate for a kube-apiserver: its ports, certificates, configuration and kubeconfig. Start has
// to follow before Stop, Kill or PID.
func NewWarrantgate(ctx context.Context, server *Server, options WarrantgateOptions) (*Warrantgate, error) {
	w, err := warrantgatetest.Beside(ctx, server.Dir(), "--kubeconfig", options, func(name string) (string, error) {
		user, err := server.User(WarrantgateUser)
		if err != nil {
			return "", err
		}
		return server.KubeconfigFile(name, user)
	})
	if err != nil {
		return nil, err
	}
	return &Warrantgate{Warrantgate: w, server: server}, nil
}

// Install runs "warrantgate install kubernetes", as a person at a terminal would, and returns what it printed. Further
// arguments may be given. An API server calls a new webhook only a moment later: wait for the first refusal before you
// count on one.
func (w *Warrantgate) Install(ctx context.Context, args ...string) (string, error) {
	return w.Run(ctx, slices.Concat(
		[]string{"install", "kubernetes", "--kubeconfig=" + w.server.adminKubeconfig}, w.InstallArgs(),
		[]string{"--user=" + WarrantgateUser, "--config=" + w.ConfigFile()}, args,
	)...)
}
