package main

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"warrantgate.dev/e2e/env/keystonetest"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/openstack"
)

const (
	// The first check of an identity sends one request to Keystone, even if many checks wait for it. Later checks send none.
	roleCheckColdRequests, roleCheckWarmRequests = 1, 0

	// roleChecks is the number of concurrent checks.
	roleChecks = 100
	// roleCheckRounds is the number of rounds with a new identity. The worst round counts.
	roleCheckRounds = 10
)

// measureRoleChecks counts the requests to a real Keystone for the roles of a cluster's credentials.
func measureRoleChecks(ctx context.Context, out *figures) (err error) {
	progress("Keystone starts")
	keystone, err := keystonetest.Start(ctx, keystonetest.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, keystone.Stop()) }()
	counter, err := countRequests(keystone.AuthURL())
	if err != nil {
		return err
	}
	defer counter.stop()
	tenant, err := newTenant(ctx, keystone, counter.authURL)
	if err != nil {
		return err
	}
	progress("%d role checks at once, of cold and of warm identities", roleChecks)
	var cold, warm int64
	for range roleCheckRounds {
		// A new checker has no cached identity.
		cloud, err := tenant.newCloud()
		if err != nil {
			return err
		}
		first, further, err := countRoleChecks(ctx, cloud, counter)
		if err != nil {
			return err
		}
		cold, warm = max(cold, first), max(warm, further)
	}
	out.exactly("role_check_cold_requests", float64(cold), "requests", roleCheckColdRequests)
	out.exactly("role_check_warm_requests", float64(warm), "requests", roleCheckWarmRequests)
	return nil
}

// countRoleChecks returns the number of requests of the checks of a new identity, and that of the same checks once more.
func countRoleChecks(ctx context.Context, cloud *openstack.Cloud, counter *requestCounter) (cold, warm int64, err error) {
	before := counter.count()
	if err := checkRolesAtOnce(ctx, cloud); err != nil {
		return 0, 0, fmt.Errorf("check roles of a cold identity: %w", err)
	}
	between := counter.count()
	if err := checkRolesAtOnce(ctx, cloud); err != nil {
		return 0, 0, fmt.Errorf("check roles of a warm identity: %w", err)
	}
	return between - before, counter.count() - between, nil
}

// checkRolesAtOnce runs all checks at the same time, as for many clusters that refer to one Secret. Each must allow the identity.
func checkRolesAtOnce(ctx context.Context, cloud *openstack.Cloud) error {
	policy := v1beta1.Default().CredentialPolicy()
	begin := make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	for range roleChecks {
		group.Go(func() error {
			<-begin
			_, err := cloud.Delegation(ctx, tenantIdentity, policy)
			return err
		})
	}
	close(begin)
	return group.Wait()
}
