package openstack

import (
	"net"
	"net/url"
	"strings"
)

const (
	// exampleAuthURL is shown to people whose URL cannot be used.
	exampleAuthURL = "https://keystone.example.com:5000/v3"
	// identityVersion is the version of Keystone's API, which the URL may end in.
	identityVersion = "/v3"
)

var defaultPorts = map[string]string{"https": "443", "http": "80"}

// canonicalAuthURL returns one form for all URLs of the same Keystone: the host in lower case, the port always there, and
// neither a slash nor the version at the end. Requests go to this form, so that what was compared is what is asked.
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
