package warrantgatetest_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"warrantgate.dev/e2e/env/warrantgatetest"
)

// standInEnv makes the tests' own binary a stand-in for warrantgate.
const standInEnv = "WARRANTGATETEST_STAND_IN"

func TestMain(m *testing.M) {
	if manner := os.Getenv(standInEnv); manner != "" {
		os.Exit(standIn(manner))
	}
	goleak.VerifyTestMain(m)
}

// standIn responds as serve does with its arguments, and prints the arguments of every other command.
func standIn(manner string) int {
	if os.Args[1] != "serve" {
		fmt.Println(manner, os.Args[1:])
		return strings.Count(manner, "clumsy")
	}
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	values := map[string]*string{}
	for _, name := range []string{
		"config", "webhook-address", "metrics-address", "health-address", "tls-cert-file", "tls-private-key-file", "webhook-path-file", "kubeconfig",
	} {
		values[name] = flags.String(name, "", "")
	}
	_ = flags.Parse(os.Args[2:]) // it exits instead
	configuration, err := os.ReadFile(*values["config"])
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s serves as %s by %s\n", manner, *values["kubeconfig"], configuration)
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "# Accept: %s\n# TYPE n gauge\nn 7\n", r.Header.Get("Accept"))
	})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	serve := func(name string, listen func(*http.Server) error) {
		go func() { panic(listen(&http.Server{Addr: *values[name], Handler: mux, ReadHeaderTimeout: time.Second})) }()
	}
	serve("webhook-address", func(s *http.Server) error {
		return s.ListenAndServeTLS(*values["tls-cert-file"], *values["tls-private-key-file"])
	})
	serve("metrics-address", (*http.Server).ListenAndServe)
	serve("health-address", (*http.Server).ListenAndServe)
	<-ctx.Done()
	return strings.Count(manner, "clumsy")
}

func newWarrantgate(t *testing.T, options warrantgatetest.Options, manner string) *warrantgatetest.Warrantgate {
	t.Helper()
	options.Binary, options.Dir, options.Env = os.Args[0], t.TempDir(), []string{standInEnv + "=" + manner}
	w, err := warrantgatetest.New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return w
}

func TestWarrantgate(t *testing.T) {
	w := newWarrantgate(t, warrantgatetest.Options{Configuration: "mode: Warn", Args: []string{"--kubeconfig=who"}}, "tidy")
	if err := w.Stop(); err != nil {
		t.Errorf("Stop() before Start(): %v", err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Kill)
	first := w.PID()
	if err := w.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.PID() == first {
		t.Error("it is the same process after Restart()")
	}
	t.Run("it serves with its certificate", func(t *testing.T) { serves(t, w) })
	t.Run("its metrics can be read", func(t *testing.T) {
		if got, err := w.Metric(t.Context(), "n", nil); err != nil || got != 7 {
			t.Errorf("Metric() = %v, %v, want 7", got, err)
		}
		const want = "# Accept: application/openmetrics-text; version=1.0.0\n# TYPE n gauge\nn 7\n"
		if got, err := w.OpenMetrics(t.Context()); err != nil || got != want {
			t.Errorf("OpenMetrics() = %q, %v, want %q", got, err, want)
		}
	})
	t.Run("its command line can be shown", func(t *testing.T) {
		command := w.ServeCommand()
		got := []string{command[1], command[2], command[len(command)-1]}
		if diff := cmp.Diff([]string{"serve", "--config=" + w.ConfigFile(), "--kubeconfig=who"}, got); diff != "" {
			t.Errorf("ServeCommand() (-want +got):\n%s", diff)
		}
	})
	if err := w.Stop(); err != nil {
		t.Error(err)
	}
	log, err := os.ReadFile(w.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Repeat("tidy serves as who by mode: Warn\n", 2), string(log)); diff != "" {
		t.Errorf("log over the restart (-want +got):\n%s", diff)
	}
}

// serves shows that URL answers with a certificate of CAFile.
func serves(t *testing.T, w *warrantgatetest.Warrantgate) {
	t.Helper()
	ca, err := os.ReadFile(w.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	c := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}, DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL()+"/readyz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
}

func TestStopReturnsTheExitError(t *testing.T) {
	w := newWarrantgate(t, warrantgatetest.Options{}, "clumsy")
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Stop(); err == nil || !strings.Contains(err.Error(), "warrantgate failed: exit status 1") {
		t.Errorf("Stop() error = %v", err)
	}
	log, err := os.ReadFile(w.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), "kind: GateConfiguration") {
		t.Errorf("the configuration is not the default: %s", log)
	}
}

func TestStartReportsWhyItExited(t *testing.T) {
	w := newWarrantgate(t, warrantgatetest.Options{Args: []string{"--no-such-flag"}}, "tidy")
	if err := w.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "flag provided but not defined: -no-such-flag") {
		t.Errorf("Start() error = %v", err)
	}
	missing, err := warrantgatetest.New(t.Context(), warrantgatetest.Options{Binary: "missing", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := missing.Start(t.Context()); err == nil {
		t.Error("Start() started a binary that is missing")
	}
}

func TestRun(t *testing.T) {
	w := newWarrantgate(t, warrantgatetest.Options{}, "tidy")
	output, err := w.Run(t.Context(), "install", "kubernetes", "--dry-run")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("tidy [install kubernetes --dry-run]\n", output); diff != "" {
		t.Errorf("Run() (-want +got):\n%s", diff)
	}
	output, err = newWarrantgate(t, warrantgatetest.Options{}, "clumsy").Run(t.Context(), "install")
	if err == nil || err.Error() != "warrantgate install: exit status 1\nclumsy [install]\n" || output != "clumsy [install]\n" {
		t.Errorf("Run() = %q, %v", output, err)
	}
}

func TestNewReportsAMissingDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	if _, err := warrantgatetest.New(t.Context(), warrantgatetest.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("New() error = %v", err)
	}
}
