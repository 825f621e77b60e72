package keystonetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/process"
)

// Region is the region of Keystone's own endpoint.
const Region = "RegionOne"

// Keystone is a running Keystone.
type Keystone struct {
	// dir contains the data and the log. Stop removes it unless keep is set.
	dir      string
	keep     bool
	authURL  string
	password string
	server   *process.Process
	admin    *gophercloud.ServiceClient

	mu sync.Mutex
	// policyTime is the modification time of the policy, which must increase.
	policyTime time.Time
}

// Start sets up a Keystone, runs it and waits until it responds. The sections are appended to keystone.conf; see AdminProject. The end of ctx
// ends a start, but not a Keystone that has started.
func Start(ctx context.Context, sections ...string) (*Keystone, error) {
	if err := Find(ctx); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "keystonetest-")
	if err != nil {
		return nil, err
	}
	k := &Keystone{dir: dir, keep: os.Getenv(process.KeepEnv) != "", password: rand.Text()}
	if err := k.start(ctx, strings.Join(sections, "")); err != nil {
		return nil, errors.Join(fmt.Errorf("start Keystone: %w", err), k.Stop())
	}
	return k, nil
}

func (k *Keystone) start(ctx context.Context, extra string) error {
	ports, err := process.FreePorts(ctx, 1)
	if err != nil {
		return err
	}
	k.authURL = "http://" + process.Loopback(ports[0]) + "/v3"
	if err := writeFiles(k.dir, extra); err != nil {
		return err
	}
	if err := k.writePolicy(nil); err != nil {
		return err
	}
	if err := k.manage(ctx, "db_sync"); err != nil {
		return err
	}
	err = k.manage(ctx, "bootstrap",
		"--bootstrap-region-id="+Region, "--bootstrap-service-name=keystone",
		"--bootstrap-public-url="+k.authURL, "--bootstrap-internal-url="+k.authURL, "--bootstrap-admin-url="+k.authURL)
	if err != nil {
		return err
	}
	if k.server, err = k.run("Keystone", nil, k.file("serve.py"), k.file("keystone.db"), strconv.Itoa(ports[0])); err != nil {
		return err
	}
	if err := k.server.WaitReady(ctx, k.authURL, &rest.Config{}); err != nil {
		return err
	}
	k.admin, err = k.login(ctx, &tokens.AuthOptions{
		Username: "admin", Password: k.password, DomainID: "default", AllowReauth: true,
		Scope: tokens.Scope{ProjectName: "admin", DomainID: "default"},
	})
	if err != nil {
		return err
	}
	return k.applyPolicy(ctx)
}

// manage runs keystone-manage as a Python module, because only Debian has the script in a known place.
func (k *Keystone) manage(ctx context.Context, command string, args ...string) error {
	args = append([]string{"-c", "from keystone.cmd.manage import main; main()", "--config-file=" + k.file("keystone.conf"), command}, args...)
	p, err := k.run("keystone-manage "+command, []string{"OS_BOOTSTRAP_PASSWORD=" + k.password}, args...)
	if err != nil {
		return err
	}
	stopWatching := context.AfterFunc(ctx, p.Kill)
	defer stopWatching()
	if err := p.WaitEnd(); err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return nil
}

// run starts the interpreter with -E, so that it ignores environment variables for another interpreter.
func (k *Keystone) run(name string, env []string, args ...string) (*process.Process, error) {
	return process.Start(process.Options{
		Name: name, LogFile: k.LogFile(), Binary: Python(), Args: append([]string{"-E"}, args...),
		Env: append(env, "OS_KEYSTONE_CONFIG_FILES="+k.file("keystone.conf"), "OS_KEYSTONE_CONFIG_DIR="),
	})
}

// Stop ends Keystone, if it runs, and removes its directory.
func (k *Keystone) Stop() error {
	var errs []error
	if k.server != nil {
		errs = append(errs, k.server.Stop())
	}
	if !k.keep {
		errs = append(errs, os.RemoveAll(k.dir))
	}
	return errors.Join(errs...)
}

// AuthURL is the address of Keystone, as http://127.0.0.1:PORT/v3.
func (k *Keystone) AuthURL() string { return k.authURL }

// Admin is a client of the administrator with a token for the project admin.
func (k *Keystone) Admin() *gophercloud.ServiceClient { return k.admin }

// KeepDir keeps the directory after the end, as the environment variable KEEP does.
func (k *Keystone) KeepDir() { k.keep = true }

// LogFile is the log of Keystone and of its setup.
func (k *Keystone) LogFile() string { return k.file("keystone.log") }

func (k *Keystone) file(name string) string { return filepath.Join(k.dir, name) }
