//go:build e2e

package keystonetest_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"warrantgate.dev/e2e/env/keystonetest"
)

// processesOf returns the command lines of all processes that contain a directory.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	output, err := exec.CommandContext(context.WithoutCancel(t.Context()), "ps", "-A", "-o", "pid=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(output)) {
		if strings.Contains(line, dir) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// start starts a Keystone for one test. At the end, it fails if a process or a file of Keystone remains.
func start(t *testing.T, options keystonetest.Options) *keystonetest.Keystone {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	k, err := keystonetest.Start(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if len(processesOf(t, k.Dir())) == 0 {
			t.Error("no process has the directory of Keystone in its command line, so the check after Stop() proves nothing")
		}
		if err := k.Stop(); err != nil {
			t.Errorf("Stop() error = %v", err)
		}
		if left := processesOf(t, k.Dir()); len(left) > 0 {
			t.Errorf("processes are left:\n%s", strings.Join(left, "\n"))
		}
		if _, err := os.Stat(k.Dir()); !os.IsNotExist(err) {
			t.Errorf("the directory is left: %v", err)
		}
	})
	return k
}

func TestKeystone(t *testing.T) {
	k := start(t, keystonetest.Options{ExtraConf: keystonetest.AdminProject, Policy: []byte(`identity:list_roles: "!"`)})

	t.Run("it starts with a policy", func(t *testing.T) { startsWithPolicy(t, k) })
	t.Run("it applies a new policy to the next request", func(t *testing.T) { takesPolicy(t, k) })
	t.Run("it loads the files of policy.d after the policy file", func(t *testing.T) { loadsDirectory(t, k) })
	t.Run("it reports a policy that it cannot load", func(t *testing.T) { reportsInvalidPolicy(t, k) })
	t.Run("a user logs in for each scope", func(t *testing.T) { scopes(t, k) })
	t.Run("an unassigned role is removed from tokens", func(t *testing.T) { takenBack(t, k) })
	t.Run("an application credential logs in with its roles", func(t *testing.T) { applicationCredential(t, k) })
	t.Run("a trust lets the trustee act as the trustor", func(t *testing.T) { trust(t, k) })
	t.Run("an endpoint is in the catalog", func(t *testing.T) { catalog(t, k) })
	t.Run("it serves concurrent requests", func(t *testing.T) { many(t, k) })
	t.Run("an idle connection does not block other requests", func(t *testing.T) { silent(t, k) })
	t.Run("Keystone reports names that exist already", func(t *testing.T) { twice(t, k) })
}

func TestCanceledStartLeavesNoProcesses(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	dir := t.TempDir()
	cause := errors.New("given up")
	go func() {
		// Its log shows that keystone-manage has been started.
		_ = wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
			_, err := os.Stat(filepath.Join(dir, "keystone.log"))
			return err == nil, nil
		})
		cancel(cause)
	}()
	if _, err := keystonetest.Start(ctx, keystonetest.Options{Dir: dir}); !errors.Is(err, cause) {
		t.Errorf("Start() error = %v, want %v", err, cause)
	}
	if left := processesOf(t, dir); len(left) > 0 {
		t.Errorf("processes are left:\n%s", strings.Join(left, "\n"))
	}
}

func TestStartReportsWhyKeystoneExited(t *testing.T) {
	_, err := keystonetest.Start(t.Context(), keystonetest.Options{ExtraConf: "[database]\nconnection = nonsense\n"})
	if err == nil || !strings.Contains(err.Error(), "keystone-manage db_sync failed") || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("Start() error = %v, want the message of Keystone", err)
	}
}

// silent opens a connection first and sends nothing.
func silent(t *testing.T, k *keystonetest.Keystone) {
	t.Helper()
	address, err := url.Parse(k.AuthURL())
	if err != nil {
		t.Fatal(err)
	}
	var dialer net.Dialer
	connection, err := dialer.DialContext(t.Context(), "tcp", address.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := k.Role(t.Context(), "reader"); err != nil {
		t.Error(err)
	}
}
