// Package warrantgatetest runs a real warrantgate on this machine. It knows nothing of the server that it is installed in:
// see packages kcptest and kubetest.
package warrantgatetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/access"
	"warrantgate.dev/e2e/env/process"
)

// User is whom warrantgate serves as. It is in no group, so that it can do only what install gave it.
const User = "warrantgate"

// defaultConfiguration is the shortest configuration file: all defaults.
const defaultConfiguration = "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"

// Options say how to run warrantgate.
type Options struct {
	// Binary is the path of warrantgate; see package asset.
	Binary string
	// Dir is an existing directory for its files and its log, which nobody else uses.
	Dir string
	// Configuration is the content of the configuration file. Default: all defaults.
	Configuration string
	// Args are arguments for "warrantgate serve" beside those for its configuration, addresses and certificate: as whom it
	// serves, above all.
	Args []string
	// Env are environment variables of all its commands, as KEY=value, beside those of this process.
	Env []string
}

// Warrantgate is a warrantgate on this machine. What serve and install have to agree about stays over a restart.
type Warrantgate struct {
	options                                       Options
	process                                       *process.Process
	webhookAddress, metricsAddress, healthAddress string
	configFile, caFile, certFile, keyFile         string
	pathFile, token                               string
}

// New prepares a warrantgate: it picks its ports and writes the files that it reads. Start has to follow before Stop, Kill
// or PID.
func New(ctx context.Context, options Options) (*Warrantgate, error) {
	ports, err := process.FreePorts(ctx, 3)
	if err != nil {
		return nil, err
	}
	if options.Configuration == "" {
		options.Configuration = defaultConfiguration
	}
	file := func(name string) string { return filepath.Join(options.Dir, name) }
	w := &Warrantgate{
		options:        options,
		webhookAddress: process.Loopback(ports[0]),
		metricsAddress: process.Loopback(ports[1]),
		healthAddress:  process.Loopback(ports[2]),
		configFile:     file("config.yaml"),
		caFile:         file("ca.crt"), certFile: file("tls.crt"), keyFile: file("tls.key"),
		pathFile: file("webhook-path"), token: NewToken(),
	}
	ca, err := access.NewAuthority("warrantgatetest-serving")
	if err != nil {
		return nil, err
	}
	pair, err := ca.ServingPair("warrantgate")
	if err != nil {
		return nil, err
	}
	for path, content := range map[string][]byte{
		w.configFile: []byte(options.Configuration), w.caFile: ca.PEM(), w.certFile: pair.Certificate, w.keyFile: pair.Key,
		w.pathFile: []byte(w.token + "\n"),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// Run runs another command of warrantgate, as a person at a terminal would, and returns what it printed.
func (w *Warrantgate) Run(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, w.options.Binary, args...)
	command.Env = append(command.Environ(), w.options.Env...)
	output, err := command.CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("warrantgate %s: %w\n%s", strings.Join(args, " "), err, output)
	}
	return string(output), nil
}

// Start runs "warrantgate serve" and waits until it is ready. After Stop or Kill it runs again where it was before.
func (w *Warrantgate) Start(ctx context.Context) error {
	serve, err := process.Start(process.Options{
		Name: "warrantgate", LogFile: w.LogFile(), Binary: w.options.Binary, Env: w.options.Env,
		Args: append([]string{
			"serve",
			"--config=" + w.configFile,
			"--webhook-address=" + w.webhookAddress,
			"--metrics-address=" + w.metricsAddress,
			"--health-address=" + w.healthAddress,
			"--tls-cert-file=" + w.certFile,
			"--tls-private-key-file=" + w.keyFile,
			"--webhook-path-file=" + w.pathFile,
		}, w.options.Args...),
	})
	if err != nil {
		return err
	}
	w.process = serve
	if err := serve.WaitReady(ctx, "http://"+w.healthAddress+"/readyz", &rest.Config{}); err != nil {
		return errors.Join(err, serve.Stop())
	}
	return nil
}

// Stop ends warrantgate in order. It may be called when it does not run.
func (w *Warrantgate) Stop() error {
	if w.process == nil {
		return nil
	}
	if err := w.process.Stop(); err != nil {
		return err
	}
	return errors.Join(w.process.Disorder(), w.hidden())
}

// hidden returns an error if the log has the token.
func (w *Warrantgate) hidden() error {
	log, err := os.ReadFile(w.LogFile())
	if err == nil && bytes.Contains(log, []byte(w.token)) {
		err = errors.New("the token of the webhook path is in the log")
	}
	return err
}

// Kill ends warrantgate as a crash would.
func (w *Warrantgate) Kill() { w.process.Kill() }

// Restart kills warrantgate and starts it again.
func (w *Warrantgate) Restart(ctx context.Context) error {
	w.Kill()
	return w.Start(ctx)
}

// Metric returns the sum of a counter or gauge over all series that carry the given labels, 0 where there is none.
func (w *Warrantgate) Metric(ctx context.Context, name string, labels map[string]string) (float64, error) {
	return process.Metric(ctx, http.DefaultClient, "http://"+w.metricsAddress, name, labels)
}

// NewToken returns a token for the path of webhooks.
func NewToken() string { return strings.ToLower(rand.Text() + rand.Text()) }

// URL is where warrantgate serves its webhooks, without their path.
func (w *Warrantgate) URL() string { return "https://" + w.webhookAddress }

// HookURL is where an API server calls the webhook of a path.
func (w *Warrantgate) HookURL(path string) string { return w.URL() + "/" + w.token + path }

// PathFile is the file with the token that the path of a webhook begins with.
func (w *Warrantgate) PathFile() string { return w.pathFile }

// InstallArgs are the flags by which each "warrantgate install" is told where serve is, and how it is asked.
func (w *Warrantgate) InstallArgs() []string {
	return []string{"--url=" + w.URL(), "--ca-file=" + w.CAFile(), "--webhook-path-file=" + w.PathFile()}
}

// PID is the process id, for measurements.
func (w *Warrantgate) PID() int { return w.process.PID() }

// ServeCommand is the command line that serve was started with.
func (w *Warrantgate) ServeCommand() []string { return w.process.Command() }

// ConfigFile is the configuration file that warrantgate serves by.
func (w *Warrantgate) ConfigFile() string { return w.configFile }

// CAFile is the certificate authority of the serving certificate.
func (w *Warrantgate) CAFile() string { return w.caFile }

// LogFile is the log of warrantgate, over restarts.
func (w *Warrantgate) LogFile() string { return filepath.Join(w.options.Dir, "warrantgate.log") }
