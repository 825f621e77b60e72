package kubetest

import (
	"context"
	"path/filepath"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"warrantgate.dev/e2e/env/access"
)

// Config is an administrator of group system:masters, to whom no authorization applies.
func (s *Server) Config() *rest.Config { return rest.CopyConfig(s.admin) }

// Client is a client of the administrator of Config. It knows the built-in kinds; the others are unstructured.
func (s *Server) Client() client.Client { return s.client }

// User is a user who is known by a client certificate, and who may do what RBAC gives to that name and those groups.
func (s *Server) User(name string, groups ...string) (*rest.Config, error) {
	s.mu.Lock() // envtest counts the certificates that it signs
	defer s.mu.Unlock()
	// Without a limit, as the tests are the load that they want to be.
	user, err := s.environment.AddUser(envtest.User{Name: name, Groups: groups}, &rest.Config{QPS: -1})
	if err != nil {
		return nil, err
	}
	return user.Config(), nil
}

// ServiceAccount creates a service account, with its namespace if that is missing, and returns a config that acts as it for
// an hour, by a token that was requested for it.
func (s *Server) ServiceAccount(ctx context.Context, namespace, name string) (*rest.Config, error) {
	return access.ServiceAccount(ctx, s.client, s.admin, namespace, name)
}

// KubeconfigFile writes a kubeconfig with one context, named name, into the server's directory.
func (s *Server) KubeconfigFile(name string, config *rest.Config) (string, error) {
	path := filepath.Join(s.options.Dir, name+".kubeconfig")
	return path, access.WriteKubeconfig(path, name, config)
}
