// Package access creates the credentials of users in end-to-end tests: certificates, tokens and kubeconfigs. It also names RBAC
// rules.
package access

import (
	"fmt"
	"os"
	"slices"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes a kubeconfig with one context of the given name, for the server and the user of config. Only the owner of
// the file can read it.
func WriteKubeconfig(path, name string, config *rest.Config) error {
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: slices.Clone(config.CAData)}
	kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: slices.Clone(config.CertData),
		ClientKeyData:         slices.Clone(config.KeyData),
		Token:                 config.BearerToken,
	}
	kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kubeconfig.CurrentContext = name
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		return fmt.Errorf("write kubeconfig of %s: %w", name, err)
	}
	return os.Chmod(path, 0o600)
}
