package keystonetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/process"
)

// Region is the region of Keystone's own endpoint.
const Region = "RegionOne"

// Options configure a Keystone.
type Options struct {
	// Python is an interpreter that has Keystone. Default: that of TEST_ASSET_PYTHON or, if it is empty, Debian's /usr/bin/python3.
	Python string
	// Dir is the directory for the data and the log of Keystone. Default: a new temporary directory.
	Dir string
	// Keep keeps the directory after the end, to read the log. Default: whether KEEP is set.
	Keep bool
	// Policy overrides Keystone's own rules, in YAML or JSON; see SetPolicy. Default: no override.
	Policy []byte
	// ExtraConf is appended to keystone.conf and begins with a section; see AdminProject.
	ExtraConf string
}

// Keystone is a running Keystone.
type Keystone struct {
	options  Options
	authURL  string
	password string
	server   *process.Process
	admin    *gophercloud.ServiceClient

	mu sync.Mutex
	// policyTime is the modification time of the policy, which must increase.
	policyTime time.Time
}

// Start sets up a Keystone, runs it and waits until it responds. The end of ctx ends a start, but not a Keystone that has started.
func Start(ctx context.Context, options Options) (*Keystone, error) {
	if options.Python == "" {
		options.Python = python()
	}
	if err := findKeystone(ctx, options.Python); err != nil {
		return nil, err
	}
	options.Keep = options.Keep || os.Getenv(process.KeepEnv) != ""
	if options.Dir == "" {
		dir, err := os.MkdirTemp("", "keystonetest-")
		if err != nil {
			return nil, err
		}
		options.Dir = dir
	}
	k := &Keystone{options: options, password: rand.Text()}
	if err := k.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start Keystone: %w", err), k.Stop())
	}
	return k, nil
}

func (k *Keystone) start(ctx context.Context) error {
	ports, err := process.FreePorts(ctx, 1)
	if err != nil {
		return err
	}
	k.authURL = "http://" + process.Loopback(ports[0]) + "/v3"
	if err := writeFiles(k.options.Dir, k.options.ExtraConf); err != nil {
		return err
	}
	if err := k.writePolicy(k.options.Policy); err != nil {
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
		Name: name, LogFile: k.LogFile(), Binary: k.options.Python, Args: append([]string{"-E"}, args...),
		Env: append(env, "OS_KEYSTONE_CONFIG_FILES="+k.file("keystone.conf"), "OS_KEYSTONE_CONFIG_DIR="),
	})
}

// Stop ends Keystone, if it runs, and removes its directory.
func (k *Keystone) Stop() error {
	var errs []error
	if k.server != nil {
		errs = append(errs, k.server.Stop())
	}
	if !k.options.Keep {
		errs = append(errs, os.RemoveAll(k.options.Dir))
	}
	return errors.Join(errs...)
}

// AuthURL is the address of Keystone, as http://127.0.0.1:PORT/v3.
func (k *Keystone) AuthURL() string { return k.authURL }

// Admin is a client of the administrator with a token for the project admin.
func (k *Keystone) Admin() *gophercloud.ServiceClient { return k.admin }

// Dir is the directory of Keystone. Stop removes it.
func (k *Keystone) Dir() string { return k.options.Dir }

// KeepDir keeps the directory after the end, as Options.Keep does.
func (k *Keystone) KeepDir() { k.options.Keep = true }

// LogFile is the log of Keystone and of its setup.
func (k *Keystone) LogFile() string { return k.file("keystone.log") }

func (k *Keystone) file(name string) string { return filepath.Join(k.options.Dir, name) }
