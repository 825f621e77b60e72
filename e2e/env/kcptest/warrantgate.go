package kcptest

import (
	"context"

	"warrantgate.dev/e2e/env/warrantgatetest"
)

// WarrantgateUser is the user of warrantgate. It is in no group and has only the permissions that install grants.
const WarrantgateUser = warrantgatetest.User

// LogicalClusterAdmins is the group whose members may write LogicalClusters through the API.
const LogicalClusterAdmins = "system:kcp:external-logical-cluster-admin"

// WarrantgateOptions configure warrantgate.
type WarrantgateOptions = warrantgatetest.Settings

// Warrantgate is a warrantgate that serves a kcp on this machine.
type Warrantgate struct {
	*warrantgatetest.Warrantgate
	kcp *Server
}

// StartWarrantgate installs warrantgate in a kcp and starts it. To do only one of both, use NewWarrantgate.
func StartWarrantgate(ctx context.Context, kcp *Server, options WarrantgateOptions) (*Warrantgate, error) {
	return warrantgatetest.InstallAndStart(ctx, func() (*Warrantgate, error) { return NewWarrantgate(ctx, kcp, options) })
}

// NewWarrantgate prepares a warrantgate for a kcp: its ports, certificates, configuration and kubeconfig.
func NewWarrantgate(ctx context.Context, kcp *Server, options WarrantgateOptions) (*Warrantgate, error) {
	w, err := warrantgatetest.Beside(ctx, kcp.Dir(), "--kcp-kubeconfig", options, func(name string) (string, error) {
		return kcp.KubeconfigFile(name, kcp.User("root", WarrantgateUser))
	})
	if err != nil {
		return nil, err
	}
	return &Warrantgate{Warrantgate: w, kcp: kcp}, nil
}
