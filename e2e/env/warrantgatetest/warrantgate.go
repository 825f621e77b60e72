// Package warrantgatetest runs a real warrantgate on this machine. It does not depend on the kind of server: packages kcptest and
// kubetest install it in theirs.
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
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/e2e/env/access"
	"warrantgate.dev/e2e/env/process"
	"warrantgate.dev/internal/config/v1beta1"
)

// User is the user of warrantgate. It is in no group and has only the permissions that install grants.
const User = "warrantgate"

// defaultConfiguration is a configuration file without any field: all defaults.
const defaultConfiguration = "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"

// installing is the name of the log and the configuration of a serve that runs during an installation only.
const installing = "installing"

// Warrantgate is a warrantgate on this machine. Its addresses, certificate and webhook path stay the same after a restart.
type Warrantgate struct {
	settings                                      Settings
	dir                                           string
	process                                       *process.Process
	webhookAddress, metricsAddress, healthAddress string
	configFile, caFile, certFile, keyFile         string
	pathFile, token                               string
}

// newIn prepares a warrantgate in a directory: it picks its ports and writes the files that it reads.
func newIn(ctx context.Context, dir string, settings Settings) (*Warrantgate, error) {
	ports, err := process.FreePorts(ctx, 3)
	if err != nil {
		return nil, err
	}
	if settings.Configuration == "" {
		settings.Configuration = defaultConfiguration
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	w := &Warrantgate{
		settings:       settings,
		dir:            dir,
		webhookAddress: process.Loopback(ports[0]),
		metricsAddress: process.Loopback(ports[1]),
		healthAddress:  process.Loopback(ports[2]),
		configFile:     file("config.yaml"),
		caFile:         file("ca.crt"), certFile: file("tls.crt"), keyFile: file("tls.key"),
		pathFile: file("webhook-path"), token: NewToken(),
	}
	ca, err := access.NewCA("warrantgatetest-serving")
	if err != nil {
		return nil, err
	}
	pair, err := ca.ServingPair("warrantgate")
	if err != nil {
		return nil, err
	}
	for path, content := range map[string][]byte{
		w.configFile: []byte(settings.Configuration), w.caFile: ca.PEM(), w.certFile: pair.Certificate, w.keyFile: pair.Key,
		w.pathFile: []byte(w.token + "\n"),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// Run runs another command of warrantgate and returns its output.
func (w *Warrantgate) Run(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, w.settings.Binary, args...)
	command.Env = append(command.Environ(), w.settings.Env...)
	output, err := command.CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("warrantgate %s: %w\n%s", strings.Join(args, " "), err, output)
	}
	return string(output), nil
}

// Start runs "warrantgate serve" and waits until it is ready and has metrics. After Stop or Kill, it starts again with the same addresses.
func (w *Warrantgate) Start(ctx context.Context) error {
	return w.start(ctx, w.configFile, w.LogFile())
}

// WhileServing calls do while "warrantgate serve" runs. If it does not run yet, it runs until do returns, with a log of its own. It repairs
// nothing then, because the suites look at what the serve that they start repairs.
func (w *Warrantgate) WhileServing(ctx context.Context, do func() error) error {
	if w.process != nil && w.process.Alive() == nil {
		return do()
	}
	configFile, err := w.withoutRepair()
	if err != nil {
		return err
	}
	if err := w.start(ctx, configFile, filepath.Join(w.dir, installing+".log")); err != nil {
		return err
	}
	err = do()
	serve := w.process
	w.process = nil
	return errors.Join(err, serve.Stop())
}

// withoutRepair writes the configuration without the repair, and returns the file.
func (w *Warrantgate) withoutRepair() (file string, err error) {
	content, err := os.ReadFile(w.configFile)
	if err != nil {
		return "", err
	}
	configuration := map[string]any{}
	if err := yaml.Unmarshal(content, &configuration); err != nil {
		return "", fmt.Errorf("read the configuration: %w", err)
	}
	configuration["repair"] = map[string]any{"mode": v1beta1.Off}
	if content, err = yaml.Marshal(configuration); err != nil {
		return "", err
	}
	file = filepath.Join(w.dir, installing+".yaml")
	return file, os.WriteFile(file, content, 0o600)
}

func (w *Warrantgate) start(ctx context.Context, configFile, logFile string) error {
	serve, err := process.Start(process.Options{
		Name: "warrantgate", LogFile: logFile, Binary: w.settings.Binary, Env: w.settings.Env,
		Args: append([]string{
			"serve",
			"--config=" + configFile,
			"--webhook-address=" + w.webhookAddress,
			"--metrics-address=" + w.metricsAddress,
			"--health-address=" + w.healthAddress,
			"--tls-cert-file=" + w.certFile,
			"--tls-private-key-file=" + w.keyFile,
			"--webhook-path-file=" + w.pathFile,
		}, w.settings.Args...),
	})
	if err != nil {
		return err
	}
	w.process = serve
	// The servers start at once, so the metrics can be there later than /readyz.
	for _, url := range []string{"http://" + w.healthAddress + "/readyz", "http://" + w.metricsAddress + "/metrics"} {
		if err := serve.WaitReady(ctx, url, &rest.Config{}); err != nil {
			return errors.Join(err, serve.Stop())
		}
	}
	return nil
}

// Stop shuts warrantgate down gracefully. It does nothing if warrantgate does not run.
func (w *Warrantgate) Stop() error {
	if w.process == nil {
		return nil
	}
	if err := w.process.Stop(); err != nil {
		return err
	}
	return errors.Join(w.process.WaitEnd(), w.hidden())
}

// hidden returns an error if the log contains the token of the webhook path.
func (w *Warrantgate) hidden() error {
	log, err := os.ReadFile(w.LogFile())
	if err == nil && bytes.Contains(log, []byte(w.token)) {
		err = errors.New("the token of the webhook path is in the log")
	}
	return err
}

// Kill kills warrantgate, as a crash does.
func (w *Warrantgate) Kill() { w.process.Kill() }

// Restart kills warrantgate and starts it again.
func (w *Warrantgate) Restart(ctx context.Context) error {
	w.Kill()
	return w.Start(ctx)
}

// Metric returns the sum of a counter or gauge over all series with the given labels, 0 if there is none.
func (w *Warrantgate) Metric(ctx context.Context, name string, labels map[string]string) (float64, error) {
	return process.Metric(ctx, http.DefaultClient, "http://"+w.metricsAddress, name, labels)
}

// MetricsAddress is the host and port at which Prometheus reads the metrics.
func (w *Warrantgate) MetricsAddress() string { return w.metricsAddress }

// OpenMetrics returns the page of all metrics as Prometheus reads it, with exemplars.
func (w *Warrantgate) OpenMetrics(ctx context.Context) (string, error) {
	return process.BodyAs(ctx, "http://"+w.metricsAddress+"/metrics", "application/openmetrics-text; version=1.0.0")
}

// NewToken returns a random token for the path of the webhooks.
func NewToken() string { return strings.ToLower(rand.Text() + rand.Text()) }

// URL is the URL of the webhook server, without a path.
func (w *Warrantgate) URL() string { return "https://" + w.webhookAddress }

// HookURL is the URL of the webhook with a path.
func (w *Warrantgate) HookURL(path string) string { return w.URL() + "/" + w.token + path }

// PathFile is the file with the token, the first element of the path of each webhook.
func (w *Warrantgate) PathFile() string { return w.pathFile }

// InstallIn runs "warrantgate install" for a kind of server, "kcp" or "kubernetes", and returns its output. The flags in admin are the
// kubeconfigs of the administrator. The flags in args come last, and so override all others.
func (w *Warrantgate) InstallIn(ctx context.Context, server string, admin, args []string) (string, error) {
	return w.Run(ctx, slices.Concat(
		[]string{"install", server}, admin, w.InstallArgs(), []string{"--user=" + User, "--config=" + w.ConfigFile()}, args,
	)...)
}

// InstallArgs are the flags of "warrantgate install" for the URL, the CA and the path of the webhooks.
func (w *Warrantgate) InstallArgs() []string {
	return []string{"--url=" + w.URL(), "--ca-file=" + w.CAFile(), "--webhook-path-file=" + w.PathFile()}
}

// PID is the process ID, for measurements.
func (w *Warrantgate) PID() int { return w.process.PID() }

// ServeCommand is the command line of the running serve.
func (w *Warrantgate) ServeCommand() []string { return w.process.Command() }

// ConfigFile is the configuration file of warrantgate.
func (w *Warrantgate) ConfigFile() string { return w.configFile }

// CAFile is the file with the CA of the serving certificate.
func (w *Warrantgate) CAFile() string { return w.caFile }

// LogFile is the log of warrantgate. Restarts append to it.
func (w *Warrantgate) LogFile() string { return filepath.Join(w.dir, "warrantgate.log") }
