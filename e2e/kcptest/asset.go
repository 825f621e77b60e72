package kcptest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Environment variables that name binaries built elsewhere.
const (
	// KCPEnv names the kcp to run, as in kcp's own test framework.
	KCPEnv = "TEST_ASSET_KCP"
	// FrontProxyEnv names the kcp-front-proxy to run, for a kcp of several shards.
	FrontProxyEnv = "TEST_ASSET_KCP_FRONT_PROXY"
	// CacheServerEnv names the cache-server to run, for a kcp of several shards.
	CacheServerEnv = "TEST_ASSET_CACHE_SERVER"
	// WarrantgateEnv names the warrantgate to run.
	WarrantgateEnv = "TEST_ASSET_WARRANTGATE"
	// EffectiveUsersEnv names the program that answers with kcp's own scope rules (e2e/servers/kcp/effectiveusers).
	EffectiveUsersEnv = "TEST_ASSET_EFFECTIVE_USERS"
	// KeepEnv, when not empty, keeps the directories of servers, with their logs, after they have ended.
	KeepEnv = "KEEP"
)

// defaultAssets are where "make servers" and "make build" put the binaries.
var defaultAssets = map[string]string{
	KCPEnv:            "kcp",
	FrontProxyEnv:     "kcp-front-proxy",
	CacheServerEnv:    "cache-server",
	WarrantgateEnv:    "warrantgate",
	EffectiveUsersEnv: "kcp-effective-users",
}

// Asset returns the path of a binary: what the environment variable says, else the one in the repository's bin.
func Asset(env string) (string, error) {
	path := os.Getenv(env)
	if path == "" {
		root, err := repositoryRoot()
		if err != nil {
			return "", fmt.Errorf("%s is not set: %w", env, err)
		}
		path = filepath.Join(root, "bin", defaultAssets[env])
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return "", fmt.Errorf("no binary at %s: run `make build servers`, or name another one in %s", path, env)
	}
	return path, nil
}

// repositoryRoot finds the directory of go.mod from the working directory upwards: tests run in their package's folder.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod in the working directory or above it")
		}
		dir = parent
	}
}
