package kcptest

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"warrantgate.dev/e2e/env/access"
)

// file is one of the files with certificates, keys and kubeconfigs of the programs of a sharded kcp.
func (s *Sharded) file(name string) string { return filepath.Join(s.Dir(), "etc", name) }

// writeCertificates writes the serving certificates and those of the front-proxy.
func (s *Sharded) writeCertificates() error {
	if err := os.MkdirAll(s.file(""), 0o700); err != nil {
		return err
	}
	servingCA, err := access.NewCA("kcptest-serving")
	if err != nil {
		return err
	}
	serving, err := servingCA.ServingPair("kcp")
	if err != nil {
		return err
	}
	requestHeaderCA, err := access.NewCA("kcptest-requestheader")
	if err != nil {
		return err
	}
	requestHeader, err := requestHeaderCA.ClientPair("kcp-front-proxy", nil)
	if err != nil {
		return err
	}
	s.servingCA = servingCA.PEM()
	for name, content := range map[string][]byte{
		"serving-ca.crt": servingCA.PEM(), "serving.crt": serving.Certificate, "serving.key": serving.Key,
		"requestheader-ca.crt": requestHeaderCA.PEM(),
		"requestheader.crt":    requestHeader.Certificate, "requestheader.key": requestHeader.Key,
	} {
		if err := os.WriteFile(s.file(name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfigs writes the kubeconfigs that the programs use for each other, and those of AdminKubeconfig and ShardKubeconfigs.
func (s *Sharded) writeKubeconfigs(cache *program) error {
	s.admin, s.shardAdmin = s.certified("kcp-admin", "system:kcp:admin"), s.certified("shard-admin", "system:masters")
	s.adminKubeconfig = s.file("admin.kubeconfig")
	s.shardKubeconfigs = nil
	root := s.shard(RootShard)
	kubeconfigs := map[string]*clientcmdapi.Config{
		s.adminKubeconfig:          s.kubeconfig(s.admin, map[string]string{"base": s.url, "root": s.url + "/clusters/root"}, "root"),
		s.file("cache.kubeconfig"): s.kubeconfig(s.shardAdmin, map[string]string{"cache": cache.url}, "cache"),
		// This user creates LogicalClusters on other shards. kcp replaces this address by theirs.
		s.file("logical-cluster-admin.kubeconfig"): s.kubeconfig(
			s.certified("logical-cluster-admin", "system:kcp:logical-cluster-admin"), map[string]string{"base": root.url}, "base"),
		s.file("external-logical-cluster-admin.kubeconfig"): s.kubeconfig(
			s.certified("external-logical-cluster-admin", LogicalClusterAdmins), map[string]string{"base": s.url}, "base"),
	}
	for _, shard := range s.shards {
		path := s.file(shard.name + ".kubeconfig")
		s.shardKubeconfigs = append(s.shardKubeconfigs, path)
		// The names are those of kcp's own admin.kubeconfig. Other shards look for them.
		kubeconfigs[path] = s.kubeconfig(s.shardAdmin,
			map[string]string{"shard-base": shard.url, "system:admin": shard.url + "/clusters/system:admin"}, "shard-base")
	}
	for path, kubeconfig := range kubeconfigs {
		if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
			return err
		}
	}
	return nil
}

// certified is a user with a client certificate that every program accepts.
func (s *Sharded) certified(user, group string) *clientcmdapi.AuthInfo {
	pair := s.clientPair(user, group)
	return &clientcmdapi.AuthInfo{ClientCertificateData: pair.Certificate, ClientKeyData: pair.Key}
}

// kubeconfig has a context for each of the servers, all for one user.
func (s *Sharded) kubeconfig(user *clientcmdapi.AuthInfo, servers map[string]string, current string) *clientcmdapi.Config {
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.AuthInfos["user"] = user
	for name, url := range servers {
		kubeconfig.Clusters[name] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: s.servingCA}
		kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: "user"}
	}
	kubeconfig.CurrentContext = current
	return kubeconfig
}

// writeMapping writes the routes of the front-proxy. It sends a request for a cluster to the shard that contains it, whatever this
// file contains. It sends a request for a virtual workspace to the root shard, because it knows no other.
func (s *Sharded) writeMapping(root *program) error {
	mapping := ""
	for _, path := range []string{"/clusters/", "/services/"} {
		mapping += fmt.Sprintf("- path: %s\n  backend: %s\n  backend_server_ca: %s\n  proxy_client_cert: %s\n  proxy_client_key: %s\n",
			path, root.url, s.file("serving-ca.crt"), s.file("requestheader.crt"), s.file("requestheader.key"))
	}
	return os.WriteFile(s.file("mapping.yaml"), []byte(mapping), 0o600)
}
