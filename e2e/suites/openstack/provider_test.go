//go:build e2e

package openstack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"github.com/gophercloud/gophercloud/v2"
	novaservers "github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// provider does for one OpenStackMachine what Cluster API Provider OpenStack does, by the tables in internal/openstack/README.md: it finds or
// creates the server with the credentials of the tenant, and sends the same writes in the same order.
type provider struct {
	story
	name    string
	compute *gophercloud.ServiceClient
	// onceOnly is true for v0.14, whose own webhook denies a change of spec.providerID.
	onceOnly bool
}

// errOnce is the denial by that webhook.
var errOnce = errors.New("spec: Forbidden: cannot be modified")

// provide creates an OpenStackMachine of a new tenant, and its OpenStackServer.
func (w *world) provide(ctx context.Context) provider {
	GinkgoHelper()
	s := w.beginCluster(ctx)
	keystone, err := s.asUser(ctx, tokens.Scope{ProjectID: s.project})
	Expect(err).NotTo(HaveOccurred())
	p := provider{story: s, name: "worker", compute: &gophercloud.ServiceClient{
		ProviderClient: keystone.ProviderClient, Endpoint: s.nova.Endpoint() + "/",
	}}
	s.machine(ctx, p.name)
	p.createServerObject(ctx)
	return p
}

func (p provider) createServerObject(ctx context.Context) {
	GinkgoHelper()
	p.existing(ctx, newObject(serverKind, p.namespace, p.name, labeled(clusterName), actsWith(credentials)))
}

// object is the machine or the OpenStackServer, without its fields.
func (p provider) object(kind schema.GroupVersionKind) *unstructured.Unstructured {
	return newObject(kind, p.namespace, p.name)
}

// saved are the errors of the writes that end a reconcile, in their order. nil is also the error of a write that would change nothing.
type saved struct{ conditions, spec, status error }

func (s saved) err() error { return errors.Join(s.conditions, s.spec, s.status) }

// reconcileServer is a reconcile of the OpenStackServer.
func (p provider) reconcileServer(ctx context.Context) saved {
	GinkgoHelper()
	id := p.holds(ctx, p.object(serverKind), instanceIDPath)
	switch found := p.serversOfName(ctx); {
	case id != "" && !p.serverExists(ctx, id):
		return p.save(ctx, serverKind, "False", nil, nil)
	case id == "" && len(found) == 0:
		id = p.server(ctx, p.name).ID
	case id == "":
		Expect(found).To(HaveLen(1), "the provider stops with an error")
		id = found[0]
	}
	return p.save(ctx, serverKind, "True", nil, map[string]any{"instanceID": id, "instanceState": "ACTIVE", "ready": true})
}

// reconcileMachine is a reconcile of the OpenStackMachine.
func (p provider) reconcileMachine(ctx context.Context) saved {
	GinkgoHelper()
	id := p.holds(ctx, p.object(serverKind), instanceIDPath)
	switch {
	case id == "":
		return saved{}
	case !p.serverExists(ctx, id):
		return p.save(ctx, machineKind, "False", nil, map[string]any{"failureReason": "UpdateError", "failureMessage": "the server is gone"})
	}
	return p.copyID(ctx, id)
}

// copyID writes the ID of an OpenStackServer into its machine.
func (p provider) copyID(ctx context.Context, id string) saved {
	GinkgoHelper()
	return p.save(ctx, machineKind, "True", map[string]any{"providerID": "openstack:///" + id}, map[string]any{
		"instanceID": id, "ready": true, "addresses": []any{map[string]any{"type": "InternalDNS", "address": p.name}},
		"initialization": map[string]any{"provisioned": true},
	})
}

// reconcile is a reconcile of both objects.
func (p provider) reconcile(ctx context.Context) error {
	GinkgoHelper()
	return errors.Join(p.reconcileServer(ctx).err(), p.reconcileMachine(ctx).err())
}

// succeed repeats reconciles until one succeeds, as the provider does.
func (p provider) succeed(ctx context.Context) {
	GinkgoHelper()
	Eventually(p.reconcile).WithContext(ctx).Should(Succeed())
}

// save ends a reconcile like the patch helper of Cluster API: a write of the conditions, one of the spec, and one of the rest of the status. It
// sends all that change something, also after one failed.
func (p provider) save(ctx context.Context, kind schema.GroupVersionKind, ready string, spec, status map[string]any) saved {
	GinkgoHelper()
	stored := p.object(kind)
	Expect(p.client.Get(ctx, keyOf(stored), stored)).To(Succeed())
	patch := func(write func(context.Context, client.Object, client.Patch) error, part string, values map[string]any, body map[string]any) error {
		changed := map[string]any{}
		for field, value := range values {
			if before, _, _ := unstructured.NestedFieldNoCopy(stored.Object, part, field); !reflect.DeepEqual(before, value) {
				changed[field] = value
			}
		}
		if len(changed) == 0 {
			return nil
		}
		body[part] = changed
		content, err := json.Marshal(body)
		Expect(err).NotTo(HaveOccurred())
		return write(ctx, p.object(kind), client.RawPatch(types.MergePatchType, content))
	}
	writeObject := func(ctx context.Context, object client.Object, patch client.Patch) error {
		return p.client.Patch(ctx, object, patch)
	}
	writeStatus := func(ctx context.Context, object client.Object, patch client.Patch) error {
		return p.client.Status().Patch(ctx, object, patch)
	}
	if before, set, _ := unstructured.NestedString(stored.Object, "spec", "providerID"); p.onceOnly && set && before != spec["providerID"] {
		writeObject = func(context.Context, client.Object, client.Patch) error { return errOnce }
	}
	return saved{
		conditions: patch(writeStatus, "status", map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": ready}}},
			map[string]any{"metadata": map[string]any{"resourceVersion": stored.GetResourceVersion()}}),
		spec:   patch(writeObject, "spec", spec, map[string]any{}),
		status: patch(writeStatus, "status", status, map[string]any{}),
	}
}

// ids are the IDs in the fields of the machine, in the order in which they are written, and in the OpenStackServer.
func (p provider) ids(ctx context.Context) []string {
	GinkgoHelper()
	machine := p.object(machineKind)
	return []string{p.holds(ctx, machine, providerIDPath), p.holds(ctx, machine, instanceIDPath), p.holds(ctx, p.object(serverKind), instanceIDPath)}
}

// allOf is the value of ids if all fields name one server.
func allOf(id string) []string { return []string{"openstack:///" + id, id, id} }

// serverExists asks Nova as the tenant.
func (p provider) serverExists(ctx context.Context, id string) bool {
	GinkgoHelper()
	err := novaservers.Get(ctx, p.compute, id).Err
	if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return false
	}
	Expect(err).NotTo(HaveOccurred())
	return true
}

// serversOfName are the IDs of the tenant's servers that Nova lists with the name of the machine.
func (p provider) serversOfName(ctx context.Context) []string {
	GinkgoHelper()
	page, err := novaservers.List(p.compute, novaservers.ListOpts{Name: fmt.Sprintf("^%s$", p.name)}).AllPages(ctx)
	Expect(err).NotTo(HaveOccurred())
	var listed []struct{ ID string }
	Expect(novaservers.ExtractServersInto(page, &listed)).To(Succeed())
	var ids []string
	for _, server := range listed {
		ids = append(ids, server.ID)
	}
	return ids
}
