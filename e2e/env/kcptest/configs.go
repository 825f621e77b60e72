package kcptest

import (
	"net"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"warrantgate.dev/e2e/env/access"
)

// dialTimeout limits how long an OwnConnection takes to connect.
const dialTimeout = 15 * time.Second

// Admin is an administrator of all workspaces: kcp-admin, of the group system:kcp:admin. The cluster is a path such as
// "root:provider" or the name of a logical cluster.
func (s *Server) Admin(cluster string) *rest.Config {
	return as(s.admin, s.config(s.url, cluster))
}

// ShardAdmin is a user of the group system:masters, for whom every request is authorized. The cluster can also be "system:admin". If
// there are several shards, it connects to the root shard, because the front-proxy rejects that group. See Sharded.ShardAdmin.
func (s *Server) ShardAdmin(cluster string) *rest.Config {
	return s.adminAt(s.shards[0], cluster)
}

func (s *Server) adminAt(shard *program, cluster string) *rest.Config {
	return as(s.shardAdmin, s.config(shard.url, cluster))
}

func as(who *clientcmdapi.AuthInfo, config *rest.Config) *rest.Config {
	config.BearerToken = who.Token
	config.CertData, config.KeyData = who.ClientCertificateData, who.ClientKeyData
	return config
}

// User is a user with a client certificate. A second call with the same name and groups returns the same user.
func (s *Server) User(cluster, name string, groups ...string) *rest.Config {
	pair := s.clientPair(name, groups...)
	config := s.config(s.url, cluster)
	config.CertData, config.KeyData = pair.Certificate, pair.Key
	return config
}

func (s *Server) clientPair(name string, groups ...string) access.KeyPair {
	key := strings.Join(append([]string{name}, groups...), "\x00")
	s.mu.Lock()
	defer s.mu.Unlock()
	pair, known := s.userCerts[key]
	if !known {
		var err error
		if pair, err = s.clientCA.ClientPair(name, groups); err != nil {
			panic(err) // only without randomness
		}
		s.userCerts[key] = pair
	}
	return pair
}

// ClientCA returns files with the certificate and the key of the CA whose client certificates kcp accepts.
func (s *Server) ClientCA() (certificate, key string) { return s.clientCAFile(), s.clientKeyFile() }

func (s *Server) config(url, cluster string) *rest.Config {
	return &rest.Config{
		Host:            url + "/clusters/" + cluster,
		TLSClientConfig: rest.TLSClientConfig{CAData: s.servingCA},
		QPS:             -1, // the load is part of the tests
	}
}

// In is the same user in another cluster.
func In(config *rest.Config, cluster string) *rest.Config {
	config = rest.CopyConfig(config)
	host, _, _ := strings.Cut(config.Host, "/clusters/")
	config.Host = host + "/clusters/" + cluster
	return config
}

// OwnConnection is the same user with its own connection. Other clients of one user share a connection.
func OwnConnection(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext // client-go shares connections only for equal dialers
	return config
}

// KubeconfigFile writes a kubeconfig with one context of the given name into the directory of the server.
func (s *Server) KubeconfigFile(name string, config *rest.Config) (string, error) {
	path := filepath.Join(s.dir, name+".kubeconfig")
	return path, access.WriteKubeconfig(path, name, config)
}
