package kcptest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Admin is an administrator of all workspaces: kcp-admin, of group system:kcp:admin. The cluster is a path such as
// "root:provider" or the name of a logical cluster.
func (s *Server) Admin(cluster string) *rest.Config {
	return s.adminConfig("kcp-admin", cluster)
}

// ShardAdmin is of group system:masters, to whom no authorization applies. The cluster may be "system:admin" as well.
func (s *Server) ShardAdmin(cluster string) *rest.Config {
	return s.adminConfig("shard-admin", cluster)
}

func (s *Server) adminConfig(user, cluster string) *rest.Config {
	config := s.config(cluster)
	config.BearerToken = s.raw.AuthInfos[user].Token
	config.CertData = s.raw.AuthInfos[user].ClientCertificateData
	config.KeyData = s.raw.AuthInfos[user].ClientKeyData
	return config
}

// Person is a user who is known by a client certificate. Who is asked for twice is the same person.
func (s *Server) Person(cluster, name string, groups ...string) *rest.Config {
	key := strings.Join(append([]string{name}, groups...), "\x00")
	s.mu.Lock()
	defer s.mu.Unlock()
	pair, known := s.persons[key]
	if !known {
		var err error
		if pair, err = s.clientCA.clientPair(name, groups); err != nil {
			panic(err) // only without randomness
		}
		s.persons[key] = pair
	}
	config := s.config(cluster)
	config.CertData, config.KeyData = pair.certificate, pair.key
	return config
}

// Anonymous has no credentials. With a BearerToken it becomes whoever the token is of.
func (s *Server) Anonymous(cluster string) *rest.Config {
	return s.config(cluster)
}

func (s *Server) config(cluster string) *rest.Config {
	config := &rest.Config{Host: s.url + "/clusters/" + cluster}
	for _, known := range s.raw.Clusters { // all are this server
		config.CAData = known.CertificateAuthorityData
	}
	// The tests are the load that they want to be.
	config.QPS = -1
	return config
}

// In is the same user in another cluster.
func In(config *rest.Config, cluster string) *rest.Config {
	config = rest.CopyConfig(config)
	host, _, _ := strings.Cut(config.Host, "/clusters/")
	config.Host = host + "/clusters/" + cluster
	return config
}

// OwnConnection is the same user over a connection that nobody else uses; clients of one user share one otherwise.
func OwnConnection(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Dial = (&net.Dialer{Timeout: gracePeriod}).DialContext // client-go shares connections of equal dialers only
	return config
}

// KubeconfigFile writes a kubeconfig with one context, named name, into the server's directory.
func (s *Server) KubeconfigFile(name string, config *rest.Config) (string, error) {
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: slices.Clone(config.CAData)}
	kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: slices.Clone(config.CertData),
		ClientKeyData:         slices.Clone(config.KeyData),
		Token:                 config.BearerToken,
	}
	kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kubeconfig.CurrentContext = name
	path := filepath.Join(s.options.Dir, name+".kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		return "", fmt.Errorf("write kubeconfig of %s: %w", name, err)
	}
	return path, os.Chmod(path, 0o600)
}
