package asset

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"warrantgate.dev/charts/charttest"
)

// Server is a server that the suites run, or a program made of a server's packages, and where it comes from.
type Server struct {
	// Env is the environment variable that names it.
	Env string
	// Name is the name of the program.
	Name string
	// Path is the path of the program. It does not exist yet if the program has to be built first.
	Path string
	// Version is the version, such as v0.32.3, or "of an unknown version".
	Version string
	// From is its origin: the environment variable, "PATH", or "modules".
	From string
	// Module is the folder below e2e/servers that builds the program, Package the package there.
	Module, Package string
	// Passed says why a program in PATH is not used. Empty if there is none.
	Passed string
}

// FromModules is the origin of a program that is built from modules.
const FromModules = "modules"

// FromEnv is the environment variable that, with the value "modules", makes Servers ignore PATH.
const FromEnv = "TEST_SERVERS"

// unknownVersion is the version of a program that does not tell it.
const unknownVersion = "of an unknown version"

// kind is what a server is built from, and what it has to be if it is in PATH.
type kind struct {
	env, name string
	// set is the name of the servers that have to have the same version.
	set string
	// oldest is the oldest version that is taken from PATH.
	oldest string
	// module is the folder below e2e/servers, pkg the package to build there, of the module whose version is that of the server.
	module, pkg, of string
	// stamp is where "--version" prints the version.
	stamp *regexp.Regexp
}

var (
	plainStamp = regexp.MustCompile(`v?(\d+\.\d+\.\d+\S*)`)
	kcpStamp   = regexp.MustCompile(`kcp-v(\d+\.\d+\.\d+\S*)`)
	// flagStamp is a flag of the linker that sets a version, as the Makefile of kcp does.
	flagStamp = regexp.MustCompile(`gitVersion=\S*kcp-v(\d+\.\d+\.\d+[^\s"']*)`)
)

// kinds are all servers, in the order in which they are printed.
var kinds = []kind{
	{env: KCP, name: "kcp", set: "kcp", oldest: "v0.30.0", module: "kcp", pkg: "github.com/kcp-dev/kcp/cmd/kcp", of: "github.com/kcp-dev/kcp", stamp: kcpStamp},
	{env: FrontProxy, name: "kcp-front-proxy", set: "kcp", oldest: "v0.30.0", module: "kcp", pkg: "github.com/kcp-dev/kcp/cmd/kcp-front-proxy", of: "github.com/kcp-dev/kcp", stamp: kcpStamp},
	{env: CacheServer, name: "cache-server", set: "kcp", oldest: "v0.30.0", module: "kcp", pkg: "github.com/kcp-dev/kcp/cmd/cache-server", of: "github.com/kcp-dev/kcp", stamp: kcpStamp},
	{env: KubeAPIServer, name: "kube-apiserver", set: "kube-apiserver", oldest: "v1.30.0", module: "kubernetes", pkg: "k8s.io/kubernetes/cmd/kube-apiserver", of: "k8s.io/kubernetes", stamp: plainStamp},
	{env: EffectiveUsers, name: "kcp-effective-users", set: "kcp-effective-users", module: "kcp", pkg: "./kcp-effective-users", of: "github.com/kcp-dev/kcp"},
	{env: Prometheus, name: "prometheus", set: "prometheus", oldest: "v3.0.0", module: "prometheus", pkg: "github.com/prometheus/prometheus/cmd/prometheus", of: "github.com/prometheus/prometheus", stamp: plainStamp},
	{env: Etcd, name: "etcd", set: "etcd", oldest: "v3.5.0", module: "kubernetes", pkg: "go.etcd.io/etcd/server/v3", of: "go.etcd.io/etcd/server/v3", stamp: plainStamp},
}

// Servers returns where each server comes from: its environment variable, else PATH, else the folder bin, for which it is built from modules.
// All programs of one kcp that are asked for together have the same version: PATH is used only if it has all of them in one version that
// is not too old. It returns an error if environment variables name different versions, or one that no other program can match.
func Servers(envs ...string) (servers []Server, err error) {
	sets := map[string][]kind{}
	for _, k := range kinds {
		if slices.Contains(envs, k.env) {
			sets[k.set] = append(sets[k.set], k)
		}
	}
	for _, set := range sets {
		found, err := resolve(set)
		if err != nil {
			return nil, err
		}
		servers = append(servers, found...)
	}
	place := func(s Server) int { return slices.IndexFunc(kinds, func(k kind) bool { return k.env == s.Env }) }
	slices.SortFunc(servers, func(a, b Server) int { return place(a) - place(b) })
	return servers, nil
}

// resolve finds the servers of a set.
func resolve(set []kind) ([]Server, error) {
	named, rest, err := namedServers(set)
	if err != nil || len(rest) == 0 {
		return named, err
	}
	inPath, why := pathServers(rest)
	if why == "" && (len(named) == 0 || named[0].Version == inPath[0].Version) {
		return append(named, inPath...), nil
	}
	built, err := moduleServers(rest, why)
	if err != nil {
		return nil, err
	}
	if len(named) > 0 && named[0].Version != built[0].Version {
		return nil, fmt.Errorf("%s is %s of %s, but there is no %s of that version: name it in %s, or put it in PATH",
			named[0].Env, named[0].Name, named[0].Version, rest[0].name, rest[0].env)
	}
	return append(named, built...), nil
}

// namedServers are the servers of a set that environment variables name. rest are the others.
func namedServers(set []kind) (named []Server, rest []kind, err error) {
	for _, k := range set {
		path := os.Getenv(k.env)
		if path == "" {
			rest = append(rest, k)
			continue
		}
		if path, err = existing(path); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", k.env, err)
		}
		named = append(named, Server{Env: k.env, Name: k.name, Path: path, Version: k.versionOf(path), From: k.env})
	}
	for _, s := range named {
		if s.Version != named[0].Version {
			return nil, nil, fmt.Errorf("%s is %s of %s, but %s is %s of %s: all programs of one kcp must have the same version",
				named[0].Env, named[0].Name, named[0].Version, s.Env, s.Name, s.Version)
		}
	}
	return named, rest, nil
}

// pathServers are the servers of a set that are in PATH. why is the reason if they cannot be used.
func pathServers(set []kind) (found []Server, why string) {
	if os.Getenv(FromEnv) == FromModules {
		return nil, FromEnv + "=" + FromModules
	}
	var missing []string
	for _, k := range set {
		path, err := exec.LookPath(k.name)
		if err != nil {
			missing = append(missing, k.name)
			continue
		}
		if path, err = existing(path); err != nil {
			return nil, err.Error()
		}
		found = append(found, Server{Env: k.env, Name: k.name, Path: path, Version: k.versionOf(path), From: "PATH"})
	}
	switch {
	case len(found) == 0:
		return nil, fmt.Sprintf("no %s in PATH", strings.Join(missing, ", "))
	case len(missing) > 0:
		return nil, fmt.Sprintf("%s in PATH is not used, because no %s is there", found[0].Path, strings.Join(missing, ", "))
	}
	for i, s := range found {
		if s.Version != found[0].Version {
			return nil, fmt.Sprintf("%s is %s, but %s is %s: neither is used", found[0].Path, found[0].Version, s.Path, s.Version)
		}
		switch v, err := version.ParseGeneric(s.Version); {
		case err != nil:
			return nil, fmt.Sprintf("%s is %s: it is not used", s.Path, s.Version)
		case v.LessThan(version.MustParseGeneric(set[i].oldest)):
			return nil, fmt.Sprintf("%s is %s, older than %s: it is not used", s.Path, s.Version, set[i].oldest)
		}
	}
	return found, ""
}

// moduleServers are the servers of a set that modules build into the folder bin.
func moduleServers(set []kind, why string) (servers []Server, err error) {
	root, err := charttest.Root()
	if err != nil {
		return nil, fmt.Errorf("%s is not set: %w", set[0].env, err)
	}
	for _, k := range set {
		file := filepath.Join(root, "e2e", "servers", k.module, "go.mod")
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		pinned := regexp.MustCompile(`(?m)^require ` + regexp.QuoteMeta(k.of) + ` (v\S+)`).FindSubmatch(content)
		if pinned == nil {
			return nil, fmt.Errorf("%s requires no %s", file, k.of)
		}
		servers = append(servers, Server{
			Env: k.env, Name: k.name, Path: filepath.Join(root, "bin", k.name), Version: string(pinned[1]), From: FromModules,
			Module: k.module, Package: k.pkg, Passed: why,
		})
	}
	return servers, nil
}

// versionOf asks a server for its version. Where it has no flag for it, as the cache server, the version is that with which it was built.
func (k kind) versionOf(path string) string {
	if k.stamp == nil {
		return ""
	}
	//nolint:noctx // it ends by itself, and not all that ask for a path have a context
	if output, err := exec.Command(path, "--version").Output(); err == nil {
		if found := k.stamp.FindSubmatch(output); found != nil {
			return "v" + string(found[1])
		}
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return unknownVersion
	}
	for _, setting := range info.Settings {
		if found := flagStamp.FindStringSubmatch(setting.Value); setting.Key == "-ldflags" && found != nil {
			return "v" + found[1]
		}
	}
	for _, module := range append(info.Deps, &info.Main) {
		if _, err := version.ParseSemantic(module.Version); module.Path == k.of && err == nil {
			return module.Version
		}
	}
	return unknownVersion
}

// existing returns the absolute path of a file.
func existing(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return "", errors.New("no program at " + path)
	}
	return path, nil
}
