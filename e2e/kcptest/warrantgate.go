package kcptest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
)

// WarrantgateUser is whom warrantgate serves as. It is in no group, so that it can do only what install gave it.
const WarrantgateUser = "warrantgate"

// LogicalClusterAdmins is the group that kcp lets write LogicalClusters from outside.
const LogicalClusterAdmins = "system:kcp:external-logical-cluster-admin"

// defaultConfiguration is the shortest configuration file: all defaults.
const defaultConfiguration = "apiVersion: config.warrantgate.dev/v1alpha1\nkind: GateConfiguration\n"

// WarrantgateOptions say how to run warrantgate.
type WarrantgateOptions struct {
	// Binary is the path of warrantgate; see Asset.
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
	options WarrantgateOptions
	kcp     *Server
	dir     string
	process *process
	arguments
}

// arguments are what serve and install have to agree about, and what stays over a restart.
type arguments struct {
	webhookAddress, metricsAddress, healthAddress string
	configFile, kubeconfig                        string
	caFile, certFile, keyFile                     string
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
	w := &Warrantgate{options: options, kcp: kcp, dir: dir}
	if err := w.prepare(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

// prepare writes the files that warrantgate reads, and picks its ports.
func (w *Warrantgate) prepare(ctx context.Context) error {
	ports, err := freePorts(ctx, 3)
	if err != nil {
		return err
	}
	w.webhookAddress, w.metricsAddress, w.healthAddress = loopback(ports[0]), loopback(ports[1]), loopback(ports[2])

	ca, err := newAuthority("kcptest-serving")
	if err != nil {
		return err
	}
	pair, err := ca.servingPair("warrantgate")
	if err != nil {
		return err
	}
	configuration := w.options.Configuration
	if configuration == "" {
		configuration = defaultConfiguration
	}
	w.configFile, w.caFile = filepath.Join(w.dir, "config.yaml"), filepath.Join(w.dir, "ca.crt")
	w.certFile, w.keyFile = filepath.Join(w.dir, "tls.crt"), filepath.Join(w.dir, "tls.key")
	for path, content := range map[string][]byte{
		w.configFile: []byte(configuration), w.caFile: ca.pem(), w.certFile: pair.certificate, w.keyFile: pair.key,
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	if w.kubeconfig = w.options.Kubeconfig; w.kubeconfig != "" {
		return nil
	}
	w.kubeconfig, err = w.kcp.KubeconfigFile(filepath.Base(w.dir), w.kcp.Person("root", WarrantgateUser))
	return err
}

// Start runs "warrantgate serve" and waits until it is ready. After Stop or Kill it runs again where it was before.
func (w *Warrantgate) Start(ctx context.Context) error {
	process, err := startProcess("warrantgate", w.LogFile(), w.options.Binary, append([]string{
		"serve",
		"--config=" + w.configFile,
		"--kcp-kubeconfig=" + w.kubeconfig,
		"--webhook-address=" + w.webhookAddress,
		"--metrics-address=" + w.metricsAddress,
		"--health-address=" + w.healthAddress,
		"--tls-cert-file=" + w.certFile,
		"--tls-private-key-file=" + w.keyFile,
	}, w.options.Args...)...)
	if err != nil {
		return err
	}
	w.process = process
	if err := process.waitReady(ctx, "http://"+w.healthAddress+"/readyz", &rest.Config{}); err != nil {
		return errors.Join(err, process.stop())
	}
	return nil
}

// Stop ends warrantgate in order. It may be called when it does not run.
func (w *Warrantgate) Stop() error {
	if w.process == nil {
		return nil
	}
	if err := w.process.stop(); err != nil {
		return err
	}
	if w.process.err != nil {
		return fmt.Errorf("warrantgate ended in disorder: %w\n%s", w.process.err, w.process.logTail())
	}
	return nil
}

// Kill ends warrantgate as a crash would.
func (w *Warrantgate) Kill() { w.process.kill() }

// Restart kills warrantgate and starts it again.
func (w *Warrantgate) Restart(ctx context.Context) error {
	w.Kill()
	return w.Start(ctx)
}

// URL is where kcp calls warrantgate.
func (w *Warrantgate) URL() string { return "https://" + w.webhookAddress }

// PID is the process id, for measurements.
func (w *Warrantgate) PID() int { return w.process.cmd.Process.Pid }

// CAFile is the certificate authority of the serving certificate.
func (w *Warrantgate) CAFile() string { return w.caFile }

// LogFile is the log of warrantgate, over restarts.
func (w *Warrantgate) LogFile() string { return filepath.Join(w.dir, "warrantgate.log") }
