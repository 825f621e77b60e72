// Command servers finds the servers that the suites, the demo and the benchmarks run, prints one line for each, builds those that are
// missing, and then runs a command with the environment variables that name them:
//
//	go run ./e2e/servers kcp kube-apiserver etcd -- go test -tags e2e ./e2e/suites/...
//
// "all" stands for all servers. Package asset says where a server is taken from.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/version"

	"warrantgate.dev/e2e/env/asset"
)

// sayEvery is how often a build says that it goes on.
const sayEvery = 20 * time.Second

// names are the names of the servers on the command line.
var names = map[string]string{
	"kcp": asset.KCP, "kcp-front-proxy": asset.FrontProxy, "cache-server": asset.CacheServer, "kube-apiserver": asset.KubeAPIServer,
	"etcd": asset.Etcd, "kcp-effective-users": asset.EffectiveUsers, "prometheus": asset.Prometheus,
}

// builds say, for each module, how long it takes on two cores with empty caches, how to avoid it, the flags of the linker, and
// the build tags.
var builds = map[string]struct{ takes, instead, ldflags, tags string }{
	"kcp":        {takes: "about 6 minutes", instead: "a kcp v0.30 or later in PATH is used instead"},
	"kubernetes": {takes: "about 4 minutes", instead: "a kube-apiserver and an etcd in PATH are used instead", ldflags: "-X k8s.io/component-base/version.gitVersion="},
	// Without the discovery of targets in clouds, which is most of it.
	"prometheus": {takes: "about 2 minutes", instead: "a prometheus v3.0 or later in PATH is used instead", ldflags: "-X github.com/prometheus/common/version.Version=", tags: "remove_all_sd"},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "servers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var command []string
	if i := slices.Index(args, "--"); i >= 0 {
		args, command = args[:i], args[i+1:]
	}
	envs, err := named(args)
	if err != nil {
		return err
	}
	servers, err := asset.Servers(envs...)
	if err != nil {
		return err
	}
	for _, s := range servers {
		fmt.Fprintln(os.Stderr, line(s))
	}
	if i := slices.IndexFunc(servers, isOld); i >= 0 {
		fmt.Fprintln(os.Stderr, "kcp before v0.32 has no mutating admission policies: specs about them test that the webhook rewrites owners instead")
	}
	if err := buildMissing(ctx, servers); err != nil {
		return err
	}
	if len(command) == 0 {
		return nil
	}
	for _, s := range servers {
		if err := os.Setenv(s.Env, s.Path); err != nil {
			return err
		}
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	// In place of this program, so that signals and the exit status are those of the command.
	return syscall.Exec(path, command, os.Environ())
}

// named returns the environment variables of servers.
func named(args []string) (envs []string, err error) {
	for _, name := range args {
		switch env, ok := names[name]; {
		case name == "all":
			for _, env := range names {
				envs = append(envs, env)
			}
		case !ok:
			return nil, fmt.Errorf("no server %q", name)
		default:
			envs = append(envs, env)
		}
	}
	return envs, nil
}

// line says which server is used, where it is from, and its version.
func line(s asset.Server) string {
	text := fmt.Sprintf("%s %s from %s: %s", s.Name, s.Version, s.From, s.Path)
	if s.Passed != "" {
		text += " (" + s.Passed + ")"
	}
	return text
}

// isOld returns whether a server is a kcp before v0.32.
func isOld(s asset.Server) bool {
	v, err := version.ParseGeneric(s.Version)
	return s.Env == asset.KCP && err == nil && v.LessThan(version.MustParseGeneric("v0.32.0"))
}

// buildMissing builds the servers that modules provide and that do not exist, or are older than their module file or sources. The modules
// are built at the same time, because each waits for its downloads and its linker.
func buildMissing(ctx context.Context, servers []asset.Server) error {
	modules := map[string][]asset.Server{}
	for _, s := range servers {
		if s.From != asset.FromModules {
			continue
		}
		current, err := isCurrent(s)
		if err != nil {
			return err
		}
		if !current {
			modules[s.Module] = append(modules[s.Module], s)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for module, missing := range modules {
		group.Go(func() error { return build(ctx, module, missing) })
	}
	return group.Wait()
}

// isCurrent returns whether a server exists and is not older than what it is built from.
func isCurrent(s asset.Server) (bool, error) {
	binary, err := os.Stat(s.Path)
	if err != nil {
		return false, nil //nolint:nilerr // it is built
	}
	sources, err := filepath.Glob(filepath.Join(folder(s), s.Package, "*.go"))
	if err != nil {
		return false, err
	}
	for _, source := range append(sources, filepath.Join(folder(s), "go.mod"), filepath.Join(folder(s), "go.sum")) {
		info, err := os.Stat(source)
		if err != nil {
			return false, err
		}
		if info.ModTime().After(binary.ModTime()) {
			return false, nil
		}
	}
	return true, nil
}

// folder is the folder of the module that builds a server.
func folder(s asset.Server) string {
	return filepath.Join(filepath.Dir(filepath.Dir(s.Path)), "e2e", "servers", s.Module)
}

// build builds servers of one module, one after the other, and says how far it is.
func build(ctx context.Context, module string, servers []asset.Server) error {
	var programs []string
	for _, s := range servers {
		programs = append(programs, s.Name)
	}
	text := strings.Join(programs, ", ")
	about := builds[module]
	if programs[0] == "kcp-effective-users" {
		about.instead = "it consists of packages of kcp, and there is no ready one"
	}
	fmt.Fprintf(os.Stderr, "building %s from modules, which takes %s on two cores with empty caches; %s\n", text, about.takes, about.instead)
	begin := time.Now()
	var lines atomic.Int64
	done := make(chan struct{})
	go say(done, func() string {
		return fmt.Sprintf("building %s: %d packages and modules after %s", text, lines.Load(), time.Since(begin).Round(time.Second))
	})
	defer close(done)
	for _, s := range servers {
		args := []string{"build", "-mod=readonly", "-tags=" + about.tags, "-v", "-o", s.Path}
		if about.ldflags != "" {
			args = append(args, "-ldflags", about.ldflags+s.Version)
		}
		if err := goBuild(ctx, folder(s), append(args, s.Package), s.Path, &lines); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "built %s in %s\n", text, time.Since(begin).Round(time.Second))
	return nil
}

// goBuild runs the go command in a folder, and counts the lines that it prints.
func goBuild(ctx context.Context, dir string, args []string, target string, lines *atomic.Int64) error {
	command := exec.CommandContext(ctx, goCommand(), args...)
	command.Dir = dir
	output, err := command.StderrPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	tail := read(output, lines)
	if err := command.Wait(); err != nil {
		return fmt.Errorf("go %s in %s: %w\n%s", strings.Join(args, " "), dir, err, strings.Join(tail, "\n"))
	}
	// The go command leaves a program as it is that is current, which can be older than a new clone of its module file.
	now := time.Now()
	return os.Chtimes(target, now, now)
}

// goCommand is the go command that make uses.
func goCommand() string {
	if command := os.Getenv("GO"); command != "" {
		return command
	}
	return "go"
}

// read counts the lines of the go command, one for each package and each download, and returns the last ones.
func read(output io.Reader, lines *atomic.Int64) (tail []string) {
	const most = 20
	for scanner := bufio.NewScanner(output); scanner.Scan(); lines.Add(1) {
		if tail = append(tail, scanner.Text()); len(tail) > most {
			tail = tail[1:]
		}
	}
	return tail
}

// say prints a text from time to time until done is closed.
func say(done <-chan struct{}, text func() string) {
	ticker := time.NewTicker(sayEvery)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			fmt.Fprintln(os.Stderr, text())
		}
	}
}
