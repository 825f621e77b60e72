package kcp_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/client-go/rest"

	"warrantgate.dev/internal/kcp"
)

func TestURLsOfLogicalClusters(t *testing.T) {
	for name, tc := range map[string]struct {
		host     string
		cluster  logicalcluster.Path
		wantBase string
		wantHost string
	}{
		"a host without a path": {
			host: "https://kcp.example.com:6443", cluster: kcp.Root,
			wantBase: "https://kcp.example.com:6443", wantHost: "https://kcp.example.com:6443/clusters/root",
		},
		"a host with a slash at its end": {
			host: "https://kcp.example.com/", cluster: kcp.Root,
			wantBase: "https://kcp.example.com", wantHost: "https://kcp.example.com/clusters/root",
		},
		"a host with the path of a workspace": {
			host: "https://kcp.example.com/clusters/root:org:team", cluster: kcp.SystemAdmin,
			wantBase: "https://kcp.example.com", wantHost: "https://kcp.example.com/clusters/system:admin",
		},
		"a host with the path of a workspace with an escaped colon": {
			host: "https://kcp.example.com/clusters/root%3Aorg/", cluster: kcp.Root,
			wantBase: "https://kcp.example.com", wantHost: "https://kcp.example.com/clusters/root",
		},
		"a host with the path of all workspaces": {
			host: "https://kcp.example.com/clusters/*", cluster: kcp.Root,
			wantBase: "https://kcp.example.com", wantHost: "https://kcp.example.com/clusters/root",
		},
		"a host that ends before the name of the workspace": {
			host: "https://kcp.example.com/clusters", cluster: kcp.Root,
			wantBase: "https://kcp.example.com", wantHost: "https://kcp.example.com/clusters/root",
		},
		"a kcp with a path prefix": {
			host: "https://example.com/kcp/clusters/root", cluster: logicalcluster.NewPath("root:org"),
			wantBase: "https://example.com/kcp", wantHost: "https://example.com/kcp/clusters/root:org",
		},
		"a path similar to that of workspaces": {
			host: "https://example.com/clustersets/a", cluster: kcp.Root,
			wantBase: "https://example.com/clustersets/a", wantHost: "https://example.com/clustersets/a/clusters/root",
		},
		"a logical cluster by its name": {
			host: "https://kcp.example.com", cluster: logicalcluster.Name("1dz6n4ubraua7pul").Path(),
			wantBase: "https://kcp.example.com", wantHost: "https://kcp.example.com/clusters/1dz6n4ubraua7pul",
		},
		"a host name and a port": {
			host: "localhost:6443", cluster: kcp.Root,
			wantBase: "localhost:6443", wantHost: "localhost:6443/clusters/root",
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := &rest.Config{Host: tc.host, BearerToken: "secret", UserAgent: "warrantgate/test"}
			base, err := kcp.BaseConfig(config)
			if err != nil {
				t.Fatalf("BaseConfig() error = %v", err)
			}
			if diff := cmp.Diff(withHost(tc.wantBase), view(base)); diff != "" {
				t.Errorf("BaseConfig() (-want +got):\n%s", diff)
			}
			within, err := kcp.ConfigFor(config, tc.cluster)
			if err != nil {
				t.Fatalf("ConfigFor() error = %v", err)
			}
			if diff := cmp.Diff(withHost(tc.wantHost), view(within)); diff != "" {
				t.Errorf("ConfigFor() (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(withHost(tc.host), view(config)); diff != "" {
				t.Errorf("the argument has changed:\n%s", diff)
			}
		})
	}
}

// configView contains the compared fields of a rest.Config. cmp cannot compare a whole rest.Config.
type configView struct{ Host, BearerToken, UserAgent string }

func view(config *rest.Config) configView {
	return configView{config.Host, config.BearerToken, config.UserAgent}
}

func withHost(host string) configView {
	return configView{Host: host, BearerToken: "secret", UserAgent: "warrantgate/test"}
}

func TestInvalidURLIsAnError(t *testing.T) {
	const want = `address of kcp "https://kcp example": parse "https://kcp example": invalid character " " in host name`
	config := &rest.Config{Host: "https://kcp example"}
	if _, err := kcp.BaseConfig(config); err == nil || err.Error() != want {
		t.Errorf("BaseConfig() error = %v, want %s", err, want)
	}
	if _, err := kcp.ConfigFor(config, kcp.Root); err == nil || err.Error() != want {
		t.Errorf("ConfigFor() error = %v, want %s", err, want)
	}
}
