package kubetest

import (
	"context"
	"path/filepath"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"warrantgate.dev/e2e/env/access"
)

// Config is an administrator of the group system:masters, for whom every request is authorized.
func (s *Server) Config() *rest.Config { return rest.CopyConfig(s.admin) }

// Client is a client of the administrator of Config. It knows the built-in kinds. All others are unstructured.
func (s *Server) Client() client.Client { return s.client }

// AdminKubeconfig is a kubeconfig of the administrator of Config.
func (s *Server) AdminKubeconfig() string { return s.adminKubeconfig }

// User is a user with a client certificate. RBAC determines the permissions of that name and those groups.
func (s *Server) User(name string, groups ...string) (*rest.Config, error) {
	s.mu.Lock() // envtest counts the certificates that it signs
	defer s.mu.Unlock()
	// There is no rate limit: the load is part of the tests.
	user, err := s.environment.AddUser(envtest.User{Name: name, Groups: groups}, &rest.Config{QPS: -1})
	if err != nil {
		return nil, err
	}
	return user.Config(), nil
}

// ServiceAccount creates a service account and its namespace, if they do not exist, and returns a config that acts as it for an
// hour, with a requested token.
func (s *Server) ServiceAccount(ctx context.Context, namespace, name string) (*rest.Config, error) {
	return access.ServiceAccount(ctx, s.client, s.admin, namespace, name)
}

// KubeconfigFile writes a kubeconfig with one context of the given name into the directory of the server.
func (s *Server) KubeconfigFile(name string, config *rest.Config) (string, error) {
	path := filepath.Join(s.dir, name+".kubeconfig")
	return path, access.WriteKubeconfig(path, name, config)
}
