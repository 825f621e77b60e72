//go:build e2e

package openstack_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"warrantgate.dev/e2e/env/keystonetest"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/novatest"
	"warrantgate.dev/e2e/fakes/openstacktest"
)

// region is the region of Nova's endpoint.
const region = keystonetest.Region

// servers are an API server with the kinds of Cluster API and its provider for OpenStack, and an OpenStack: a Keystone and a
// Nova, each behind a front that counts requests and can fail.
type servers struct {
	api      *kubetest.Server
	keystone *keystonetest.Keystone
	// front is the Keystone in a clouds.yaml.
	front *openstacktest.Front
	nova  *novatest.Nova
	// novaFront is the endpoint in the catalog.
	novaFront *openstacktest.Front
	// caFile has the CAs of the fronts.
	caFile string
}

// startServers starts them until the end of the suite.
func startServers(ctx context.Context) *servers {
	GinkgoHelper()
	s := &servers{}
	var starting errgroup.Group
	starting.Go(func() (err error) {
		s.api, err = kubetest.Start(ctx)
		return err
	})
	starting.Go(func() (err error) {
		if s.keystone, err = keystonetest.Start(ctx); err != nil {
			return err
		}
		s.nova, err = novatest.Start(ctx, s.keystone)
		return err
	})
	err := starting.Wait()
	if s.api != nil {
		DeferCleanup(s.api.Stop)
	}
	if s.keystone != nil {
		DeferCleanup(s.keystone.Stop)
	}
	if s.nova != nil {
		DeferCleanup(s.nova.Stop)
	}
	Expect(err).NotTo(HaveOccurred())
	Expect(s.api.ApplyCRDs(ctx, crds()...)).To(Succeed())

	s.front, err = openstacktest.Start(s.keystone.AuthURL())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(s.front.Stop)
	s.novaFront, err = openstacktest.Start(s.nova.Endpoint())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(s.novaFront.Stop)
	Expect(s.keystone.RegisterEndpoint(ctx, "compute", region, s.novaFront.Endpoint())).To(Succeed())
	s.caFile = filepath.Join(s.api.Dir(), "openstack-ca.crt")
	Expect(os.WriteFile(s.caFile, slices.Concat(s.novaFront.CAPEM(), s.front.CAPEM()), 0o600)).To(Succeed())
	return s
}

// authentications is the number of requests for a token.
func (s *servers) authentications() int { return s.front.Count(openstacktest.Authenticate) }
