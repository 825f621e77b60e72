package kcptest

import (
	"context"
	"os"
	"path/filepath"

	"warrantgate.dev/e2e/warrantgatetest"
)

// WarrantgateUser is whom warrantgate serves as. It is in no group, so that it can do only what install gave it.
const WarrantgateUser = warrantgatetest.User

// LogicalClusterAdmins is the group that kcp lets write LogicalClusters from outside.
const LogicalClusterAdmins = "system:kcp:external-logical-cluster-admin"

// WarrantgateOptions say how to run warrantgate.
type WarrantgateOptions struct {
	// Binary is the path of warrantgate; see package asset.
	Binary string
	// Configuration is the content of the configuration file. Default: all defaults.
	Configuration string
	// Kubeconfig is the file that warrantgate serves with. Default: one of WarrantgateUser.
	Kubeconfig string
	// Args are further arguments for "warrantgate serve".
	Args []string
}

// Warrantgate is a warrantgate that serves a kcp on this machine.
type Warrantgate struct {
	*warrantgatetest.Warrantgate
	kcp *Server
}

// StartWarrantgate installs warrantgate in a kcp and starts it; see Install and Start for doing only one of both.
func StartWarrantgate(ctx context.Context, kcp *Server, options WarrantgateOptions) (*Warrantgate, error) {
	w, err := NewWarrantgate(ctx, kcp, options)
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

// NewWarrantgate prepares a warrantgate for a kcp: its ports, certificates, configuration and kubeconfig.
func NewWarrantgate(ctx context.Context, kcp *Server, options WarrantgateOptions) (*Warrantgate, error) {
	dir, err := os.MkdirTemp(kcp.Dir(), "warrantgate-")
	if err != nil {
		return nil, err
	}
	kubeconfig := options.Kubeconfig
	if kubeconfig == "" {
		if kubeconfig, err = kcp.KubeconfigFile(filepath.Base(dir), kcp.Person("root", WarrantgateUser)); err != nil {
			return nil, err
		}
	}
	w, err := warrantgatetest.New(ctx, warrantgatetest.Options{
		Binary: options.Binary, Dir: dir, Configuration: options.Configuration,
		Args: append([]string{"--kcp-kubeconfig=" + kubeconfig}, options.Args...),
	})
	if err != nil {
		return nil, err
	}
	return &Warrantgate{Warrantgate: w, kcp: kcp}, nil
}
