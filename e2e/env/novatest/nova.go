package novatest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/keystonetest"
	"warrantgate.dev/e2e/env/process"
)

const (
	// version is the path of the API, a part of the endpoint in a catalog.
	version = "/v2.1"
	// serviceUser is Nova's user in Keystone, serviceProject the project of its token, and serviceRole its role there. Keystone's
	// own policy allows this role to verify the tokens of others.
	serviceUser, serviceProject, serviceRole = "nova", "service", "service"
	// defaultDomain is the ID of the default domain of each Keystone.
	defaultDomain = "default"
)

// Nova is a running Nova.
type Nova struct {
	keystone *keystonetest.Keystone
	// dir contains the data and the log. Stop removes it, unless the environment variable KEEP is set.
	dir        string
	endpoint   string
	controlURL string
	server     *process.Process
	http       *http.Client
}

// Start sets up a Nova without servers, runs it and waits until it responds. Keystone verifies its tokens, and gets a user for it. It is not
// in Keystone's catalog. The end of ctx ends a start, but not a Nova that has started.
func Start(ctx context.Context, keystone *keystonetest.Keystone) (*Nova, error) {
	if err := keystonetest.FindModule(ctx, "nova", "26"); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "novatest-")
	if err != nil {
		return nil, err
	}
	n := &Nova{keystone: keystone, dir: dir, http: &http.Client{Transport: &http.Transport{}}}
	if err := n.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start Nova: %w", err), n.Stop())
	}
	return n, nil
}

func (n *Nova) start(ctx context.Context) error {
	ports, err := process.FreePorts(ctx, 2)
	if err != nil {
		return err
	}
	n.endpoint = "http://" + process.Loopback(ports[0]) + version
	n.controlURL = "http://" + process.Loopback(ports[1])
	user, projectID, err := n.identity(ctx)
	if err != nil {
		return err
	}
	conf := configuration(n.dir, n.keystone.AuthURL(), user, projectID, n.controlURL)
	if err := writeFiles(n.dir, conf); err != nil {
		return err
	}
	n.server, err = process.Start(process.Options{
		Name: "Nova", LogFile: n.LogFile(), Binary: keystonetest.Python(),
		// The interpreter ignores environment variables for another interpreter.
		Args: []string{"-E", n.file("serve.py"), n.dir, strconv.Itoa(ports[0]), strconv.Itoa(ports[1])},
		Env:  []string{"OS_NOVA_CONFIG_DIR=" + n.dir, "OS_NOVA_CONFIG_FILES=api-paste.ini;nova.conf"},
	})
	if err != nil {
		return err
	}
	return n.server.WaitReady(ctx, n.endpoint+"/", &rest.Config{})
}

// identity creates Nova's user in Keystone, and the project of its token.
func (n *Nova) identity(ctx context.Context) (user keystonetest.User, projectID string, err error) {
	k := n.keystone
	if projectID, err = k.CreateProject(ctx, defaultDomain, serviceProject); err != nil {
		return user, "", err
	}
	if user, err = k.CreateUser(ctx, defaultDomain, serviceUser); err != nil {
		return user, "", err
	}
	return user, projectID, k.Assign(ctx, serviceRole, roles.AssignOpts{UserID: user.ID, ProjectID: projectID})
}

// Stop ends Nova, if it runs, and removes its directory.
func (n *Nova) Stop() error {
	n.http.CloseIdleConnections()
	var errs []error
	if n.server != nil {
		errs = append(errs, n.server.Stop())
	}
	if os.Getenv(process.KeepEnv) == "" {
		errs = append(errs, os.RemoveAll(n.dir))
	}
	return errors.Join(errs...)
}

// Endpoint is the URL of a service of the type compute, for the catalog: http://127.0.0.1:PORT/v2.1.
func (n *Nova) Endpoint() string { return n.endpoint }

// LogFile is the log of Nova.
func (n *Nova) LogFile() string { return n.file("nova.log") }

func (n *Nova) file(name string) string { return filepath.Join(n.dir, name) }
