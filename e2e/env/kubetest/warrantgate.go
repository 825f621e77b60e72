package kubetest

import (
	"context"

	"warrantgate.dev/e2e/env/warrantgatetest"
)

// WarrantgateUser is the user of warrantgate. It is in no group and has only the permissions that install grants.
const WarrantgateUser = warrantgatetest.User

// WarrantgateOptions configure warrantgate.
type WarrantgateOptions = warrantgatetest.Settings

// Warrantgate is a warrantgate that serves a kube-apiserver on this machine.
type Warrantgate struct {
	*warrantgatetest.Warrantgate
	server *Server
}

// StartWarrantgate installs warrantgate in a kube-apiserver and starts it. To do only one of both, use NewWarrantgate.
func StartWarrantgate(ctx context.Context, server *Server, options WarrantgateOptions) (*Warrantgate, error) {
	return warrantgatetest.InstallAndStart(ctx, func() (*Warrantgate, error) { return NewWarrantgate(ctx, server, options) })
}

// NewWarrantgate prepares a warrantgate for a kube-apiserver: its ports, certificates, configuration and kubeconfig. Call
// Start before Kill or PID.
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

// Install runs "warrantgate install kubernetes" with optional further arguments, and returns its output. An API server calls a new
// webhook with a short delay: wait for the first denial before you rely on it.
func (w *Warrantgate) Install(ctx context.Context, args ...string) (string, error) {
	return w.InstallIn(ctx, "kubernetes", []string{"--kubeconfig=" + w.server.adminKubeconfig}, args)
}

// Uninstall runs "warrantgate uninstall kubernetes", and returns its output.
func (w *Warrantgate) Uninstall(ctx context.Context) (string, error) {
	return w.Run(ctx, "uninstall", "kubernetes", "--kubeconfig="+w.server.adminKubeconfig)
}
