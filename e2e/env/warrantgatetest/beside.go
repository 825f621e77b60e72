package warrantgatetest

import (
	"context"
	"os"
	"path/filepath"

	"warrantgate.dev/e2e/env/asset"
)

// Settings configure a warrantgate that runs beside a server.
type Settings struct {
	// Binary is the path of warrantgate. Default: that of package asset.
	Binary string
	// Configuration is the content of the configuration file. Default: all defaults.
	Configuration string
	// Kubeconfig is the file that "warrantgate serve" uses. Default: a kubeconfig of User.
	Kubeconfig string
	// Args are further arguments for "warrantgate serve".
	Args []string
	// Env are environment variables of all its commands, as KEY=value. They are added to those of this process.
	Env []string
}

// Beside prepares a warrantgate in a new directory below dir, the directory of a server. It serves with settings.Kubeconfig. If that
// is empty, the function kubeconfig writes a file of the given name. flag is the flag of "warrantgate serve" for this file. Call Start before
// Kill or PID.
func Beside(
	ctx context.Context, dir, flag string, settings Settings, kubeconfig func(name string) (path string, err error),
) (*Warrantgate, error) {
	if err := asset.Default(asset.Warrantgate, &settings.Binary); err != nil {
		return nil, err
	}
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
	settings.Args = append([]string{flag + "=" + path}, settings.Args...)
	return newIn(ctx, own, settings)
}

// InstallAndStart prepares a warrantgate, installs it in its server, and starts it.
func InstallAndStart[W interface {
	Install(ctx context.Context, args ...string) (string, error)
	Start(ctx context.Context) error
}](ctx context.Context, prepare func() (W, error),
) (W, error) {
	var none W
	w, err := prepare()
	if err != nil {
		return none, err
	}
	if _, err := w.Install(ctx); err != nil {
		return none, err
	}
	if err := w.Start(ctx); err != nil {
		return none, err
	}
	return w, nil
}
