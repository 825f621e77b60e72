//go:build e2e

package openstack_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/keystonetest"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/fakes/openstacktest"
)

// region is the region of Nova's endpoint.
const region = keystonetest.Region

// servers are an API server with the kinds of Cluster API and its provider for OpenStack, and an OpenStack: a Keystone and a
// Nova, each behind a front that counts requests and can fail.
type servers struct {
	api      *kubetest.Server
	keystone *keystonetest.Keystone
	front    *front
	nova     *openstacktest.Nova
	// caFile holds whom to trust as the front and as Nova.
	caFile string
}

// startServers starts them until the end of the suite.
func startServers(ctx context.Context) *servers {
	GinkgoHelper()
	s := &servers{}
	options := kubetest.Options{KubeAPIServer: binary(asset.KubeAPIServer), Etcd: binary(asset.Etcd)}
	var starting errgroup.Group
	starting.Go(func() (err error) {
		s.api, err = kubetest.Start(ctx, options)
		return err
	})
	starting.Go(func() (err error) {
		s.keystone, err = keystonetest.Start(ctx, keystonetest.Options{})
		return err
	})
	err := starting.Wait()
	if s.api != nil {
		DeferCleanup(s.api.Stop)
	}
	if s.keystone != nil {
		DeferCleanup(s.keystone.Stop)
	}
	Expect(err).NotTo(HaveOccurred())
	Expect(s.api.ApplyCRDs(ctx, crds()...)).To(Succeed())

	s.front = newFront(s.keystone.AuthURL())
	DeferCleanup(s.front.stop)
	s.nova, err = openstacktest.Start(openstacktest.Options{Validate: s.projectOf})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(s.nova.Stop)
	Expect(s.keystone.RegisterEndpoint(ctx, "compute", region, s.nova.Endpoint())).To(Succeed())
	s.caFile = filepath.Join(s.api.Dir(), "openstack-ca.crt")
	Expect(os.WriteFile(s.caFile, slices.Concat(s.nova.CAPEM(), s.front.caPEM()), 0o600)).To(Succeed())
	return s
}

// projectOf asks Keystone, past the front, which project a token is for, as Nova does.
func (s *servers) projectOf(ctx context.Context, token string) (projectID string, ok bool, err error) {
	got := tokens.Get(ctx, s.keystone.Admin(), token)
	if gophercloud.ResponseCodeIs(got.Err, http.StatusNotFound) {
		return "", false, nil
	}
	project, err := got.ExtractProject()
	if err != nil || project == nil {
		return "", err == nil, err
	}
	return project.ID, true, nil
}

func binary(name string) string {
	GinkgoHelper()
	path, err := asset.Path(name)
	Expect(err).NotTo(HaveOccurred())
	return path
}
