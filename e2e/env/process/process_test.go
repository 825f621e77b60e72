package process_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/process"
)

// shell starts a shell script and stops it at the end of the test.
func shell(t *testing.T, script string, env ...string) (p *process.Process, logFile string) {
	t.Helper()
	logFile = filepath.Join(t.TempDir(), "log")
	p, err := process.Start(process.Options{
		Name: "script", LogFile: logFile, Binary: "/bin/sh", Args: []string{"-c", script}, Env: env,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p, logFile
}

// answering returns the URL of a server that responds with a status.
func answering(t *testing.T, status int) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	return server.URL
}

// contains reports an error that does not contain one of the texts.
func contains(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error = %v, want one with %q", err, text)
		}
	}
}

func TestWaitReady(t *testing.T) {
	t.Run("until the response is 200", func(t *testing.T) {
		p, _ := shell(t, "exec cat /dev/zero >/dev/null")
		if err := p.WaitReady(t.Context(), answering(t, http.StatusOK), &rest.Config{}); err != nil {
			t.Error(err)
		}
		if err := p.Alive(); err != nil {
			t.Error(err)
		}
	})
	t.Run("until the process ends", func(t *testing.T) {
		p, _ := shell(t, "echo out of memory; exit 3")
		err := p.WaitReady(t.Context(), answering(t, http.StatusServiceUnavailable), &rest.Config{})
		contains(t, err, "script ended: exit status 3", "out of memory")
	})
	t.Run("until the timeout", func(t *testing.T) {
		p, _ := shell(t, "exec cat /dev/zero >/dev/null")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var requests atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			if requests.Add(1) == 2 { // so the first response has been read
				cancel()
			}
		}))
		defer server.Close()
		err := p.WaitReady(ctx, server.URL, &rest.Config{})
		contains(t, err, "script is not ready", "503 Service Unavailable")
	})
	t.Run("not with an invalid configuration", func(t *testing.T) {
		p, _ := shell(t, "exit 0")
		config := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: []byte("no certificate")}}
		if err := p.WaitReady(t.Context(), "https://127.0.0.1:1", config); err == nil {
			t.Error("WaitReady() accepted an invalid CA")
		}
	})
}

func TestStop(t *testing.T) {
	t.Run("lets the process end gracefully", func(t *testing.T) {
		p, logFile := shell(t, `trap "exit 0" TERM; echo ready; while :; do :; done`)
		waitFor(t, logFile, "ready")
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if err := p.WaitEnd(); err != nil {
			t.Errorf("WaitEnd() = %v, want nil", err)
		}
		contains(t, p.Alive(), "script ended: exit status 0")
		if err := p.Stop(); err != nil {
			t.Errorf("Stop() again: %v", err)
		}
	})
	t.Run("reports an exit status other than 0", func(t *testing.T) {
		p, _ := shell(t, "exec cat /dev/zero >/dev/null")
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		contains(t, p.WaitEnd(), "script failed: signal: terminated")
	})
}

func TestKillEndsAtOnce(t *testing.T) {
	p, _ := shell(t, `trap "" TERM; while :; do :; done`)
	p.Kill()
	contains(t, p.Alive(), "script ended: signal: killed")
}

func TestSignalReachesTheProcess(t *testing.T) {
	p, logFile := shell(t, `trap "echo got it; exit 0" USR1; echo ready; while :; do :; done`)
	waitFor(t, logFile, "ready")
	if err := p.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	waitFor(t, logFile, "got it")
}

func TestProcessHasItsArgumentsAndEnvironment(t *testing.T) {
	p, logFile := shell(t, `echo "$GREETING from $$ in $PWD"`, "GREETING=hello")
	if err := p.WaitEnd(); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(logFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("hello from "+itoa(p.PID())+" in "+filepath.Dir(logFile)+"\n", string(log)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/bin/sh", "-c", `echo "$GREETING from $$ in $PWD"`}, p.Command()); diff != "" {
		t.Errorf("Command() (-want +got):\n%s", diff)
	}
}

func TestStartReturnsErrors(t *testing.T) {
	dir := t.TempDir()
	_, err := process.Start(process.Options{Name: "kcp", LogFile: filepath.Join(dir, "log"), Binary: filepath.Join(dir, "missing")})
	contains(t, err, "start kcp", "no such file")
	_, err = process.Start(process.Options{Name: "kcp", LogFile: filepath.Join(dir, "missing", "log"), Binary: "/bin/sh"})
	contains(t, err, "log of kcp", "no such file")
}

func TestLogTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for name, tc := range map[string]struct {
		log, want string
	}{
		"a short log is shown whole":     {"one\ntwo\n", "one\ntwo\n"},
		"a long log begins with a line":  {strings.Repeat("x", 5000) + "\n" + strings.Repeat("last line\n", 400), strings.Repeat("last line\n", 400)},
		"a long line is shown in part":   {strings.Repeat("x", 5000), strings.Repeat("x", 4096)},
		"an empty log is shown as empty": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(tc.log), 0o600); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff("end of "+path+":\n"+tc.want, process.LogTail(path)); diff != "" {
				t.Errorf("LogTail() (-want +got):\n%s", diff)
			}
		})
	}
	if got := process.LogTail(filepath.Join(path, "missing")); !strings.Contains(got, "missing") {
		t.Errorf("LogTail() of a missing file = %q", got)
	}
}
