// Package access gives users what they come in to the servers of end-to-end tests with, certificates, tokens and
// kubeconfigs, and names the rights that they have there.
package access

import (
	"fmt"
	"os"
	"slices"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes a kubeconfig with one context, named name, for the server and the user of config. It may be read
// by its owner only.
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
