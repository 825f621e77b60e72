package warrantgatetest

import (
	"context"
	"os"
	"path/filepath"
)

// Settings say how to run warrantgate beside a server.
type Settings struct {
	// Binary is the path of warrantgate; see package asset.
	Binary string
	// Configuration is the content of the configuration file. Default: all defaults.
	Configuration string
	// Kubeconfig is the file that warrantgate serves with. Default: one of User.
	Kubeconfig string
	// Args are further arguments for "warrantgate serve".
	Args []string
	// Env are environment variables of all its commands, as KEY=value, beside those of this process.
	Env []string
}

// Beside prepares a warrantgate in a directory of its own below dir, a server's. It serves with the kubeconfig of the
// settings or, where they name none, with the one that kubeconfig makes under a name; flag is how "warrantgate serve" is
// told of it.
func Beside(
	ctx context.Context, dir, flag string, settings Settings, kubeconfig func(name string) (path string, err error),
) (*Warrantgate, error) {
	own, err := os.MkdirTemp(dir, "warrantgate-")
	if err != nil {
		return nil, err
	}
	path := settings.Kubeconfig
	if path == "" {
		if path, err = kubeconfig(filepath.Base(own)); err != nil {
			return nil, err
		}
	}
	return New(ctx, Options{
		Binary: settings.Binary, Dir: own, Configuration: settings.Configuration, Env: settings.Env,
		Args: append([]string{flag + "=" + path}, settings.Args...),
	})
}
