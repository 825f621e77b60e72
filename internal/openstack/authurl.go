package openstack

import (
	"net"
	"net/url"
	"strings"
)

const (
	// exampleAuthURL is the example in messages about invalid URLs.
	exampleAuthURL = "https://keystone.example.com:5000/v3"
	// identityVersion is the version of Keystone's API. A URL may end with it.
	identityVersion = "/v3"
)

var defaultPorts = map[string]string{"https": "443", "http": "80"}

// canonicalAuthURL returns the canonical form of the URL of a Keystone: the host in lower case, always with a port, without a trailing slash
// and version. Requests use this form, so that they go to the URL that was compared with the configuration.
func canonicalAuthURL(raw string) (string, bool) {
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Hostname() == "" {
		return "", false
	}
	port, known := defaultPorts[u.Scheme]
	if !known {
		return "", false
	}
	if u.Port() != "" {
		port = u.Port()
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	path = strings.TrimRight(strings.TrimSuffix(path, identityVersion), "/")
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port) + path, true
}
