package kubetest

import (
	"bufio"
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// guardPatience limits how long a server may take to end.
const guardPatience = 30 * time.Second

// watchedShell starts a script under the guard, as envtest starts a server, and waits until it has printed a line. The channel
// receives its exit.
func watchedShell(t *testing.T, g *guard, script string) (command *exec.Cmd, line string, ended <-chan error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "it's a server")
	if err := g.watch(path, "/bin/sh"); err != nil {
		t.Fatal(err)
	}
	command = exec.CommandContext(t.Context(), path, "-c", script)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err = bufio.NewReader(output).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() { end <- command.Wait() }()
	return command, line, end
}

func newTestGuard(t *testing.T) *guard {
	t.Helper()
	g, err := newGuard(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.close() })
	return g
}

func wantSignal(t *testing.T, ended <-chan error, want syscall.Signal) {
	t.Helper()
	select {
	case err := <-ended:
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("the server ended with %v, want signal %v", err, want)
		}
		if status, is := exit.Sys().(syscall.WaitStatus); !is || status.Signal() != want {
			t.Errorf("the server ended with %v, want signal %v", err, want)
		}
	case <-time.After(guardPatience):
		t.Fatal("the server still runs")
	}
}

func TestServerEndsWithItsGuard(t *testing.T) {
	g := newTestGuard(t)
	command, line, ended := watchedShell(t, g, "echo $$; exec cat /dev/zero >/dev/null")
	if pid := strings.TrimSpace(line); pid != strconv.Itoa(command.Process.Pid) {
		t.Errorf("the server is process %s, but signals go to %d", pid, command.Process.Pid)
	}
	if err := g.close(); err != nil {
		t.Fatal(err)
	}
	wantSignal(t, ended, syscall.SIGKILL)
}

func TestServerThatStartsAfterItsGuardEnds(t *testing.T) {
	g := newTestGuard(t)
	path := filepath.Join(t.TempDir(), "server")
	if err := g.watch(path, "/bin/sh"); err != nil {
		t.Fatal(err)
	}
	if err := g.close(); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), path, "-c", "exec cat /dev/zero >/dev/null")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	wantSignal(t, ended, syscall.SIGKILL)
}

// TestGracefulStopLeavesNoWatcher stops a server as envtest does: with a signal to its process group.
func TestGracefulStopLeavesNoWatcher(t *testing.T) {
	g := newTestGuard(t)
	command, _, ended := watchedShell(t, g, "echo ready; exec cat /dev/zero >/dev/null")
	if err := syscall.Kill(-command.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	wantSignal(t, ended, syscall.SIGTERM)
}
