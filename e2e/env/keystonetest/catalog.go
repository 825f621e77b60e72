package keystonetest

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/endpoints"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/services"
)

// RegisterEndpoint adds a service of a type, such as compute, to the catalog, with a public endpoint in a region. It creates the
// region if it does not exist. Every call creates a new service. The catalog in an existing token does not change.
func (k *Keystone) RegisterEndpoint(ctx context.Context, serviceType, region, url string) error {
	service, err := services.Create(ctx, k.admin, services.CreateOpts{Name: serviceType, Type: serviceType}).Extract()
	if err != nil {
		return fmt.Errorf("create the service %s: %w", serviceType, err)
	}
	_, err = endpoints.Create(ctx, k.admin, endpoints.CreateOpts{
		Availability: gophercloud.AvailabilityPublic, Region: region, ServiceID: service.ID, URL: url,
	}).Extract()
	if err != nil {
		return fmt.Errorf("create the endpoint of the service %s in %s: %w", serviceType, region, err)
	}
	return nil
}
