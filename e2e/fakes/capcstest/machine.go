package capcstest

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	cloudsigma "github.com/cloudsigma/cloudsigma-sdk-go/cloudsigma"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// Errors that the cloud's status codes mean to the provider.
var (
	errGone    = errors.New("the server does not exist")
	errForeign = errors.New("the user may not see the server")
)

// Reconcile implements reconcile.Reconciler. It does for a machine what the real provider does between two entries of its queue.
func (p *Provider) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	result, err := p.reconcile(ctx, request.NamespacedName)
	p.record.reconciled(request.NamespacedName, err)
	return result, err
}

func (p *Provider) reconcile(ctx context.Context, key client.ObjectKey) (reconcile.Result, error) {
	machine, err := p.get(ctx, machineKind, key)
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	cluster, err := p.clusterName(ctx, machine)
	if err != nil || cluster == "" {
		return reconcile.Result{}, err // the update that names the owner is an event
	}
	servers, err := p.account(ctx, client.ObjectKey{Namespace: key.Namespace, Name: cluster})
	switch {
	case err != nil:
		p.record.failed(key, err)
		return p.after(afterNoAccount), nil
	case machine.GetDeletionTimestamp() != nil:
		return p.release(ctx, machine, servers)
	}
	if result, ok, err := p.apply(ctx, began, machine, nil); !ok {
		return result, err
	}
	return p.provide(ctx, machine, servers)
}

// provide does the next steps for a machine that is not being deleted.
func (p *Provider) provide(ctx context.Context, machine *unstructured.Unstructured, servers *cloudsigma.ServersService) (reconcile.Result, error) {
	var server *cloudsigma.Server
	if id := get(machine, "status", "instanceID"); id != "" {
		var err error
		server, err = getServer(ctx, servers, id)
		switch {
		case errors.Is(err, errForeign):
			found, err := find(ctx, servers, machine)
			if err != nil || found == nil {
				result, ok, err := p.apply(ctx, foreign, machine, nil)
				if ok {
					result = p.after(afterForeign)
				}
				return result, err
			}
			server = found
			if result, ok, err := p.apply(ctx, adopted, machine, server); !ok {
				return result, err
			}
		case errors.Is(err, errGone):
			if result, ok, err := p.apply(ctx, gone, machine, nil); !ok {
				return result, err
			}
		case err != nil:
			return reconcile.Result{}, fmt.Errorf("get server: %w", err)
		}
	}
	if get(machine, "status", "instanceID") == "" {
		var err error
		if server, err = find(ctx, servers, machine); err != nil {
			p.record.failed(client.ObjectKeyFromObject(machine), err)
			return p.after(afterNoList), nil
		}
		if server == nil {
			return p.create(ctx, machine, servers)
		}
		if result, ok, err := p.apply(ctx, adopted, machine, server); !ok {
			return result, err
		}
	}
	result, ok, err := p.apply(ctx, seen, machine, server)
	if ok {
		result = p.after(afterSeen)
	}
	return result, err
}

// create creates a server for a machine and names it.
func (p *Provider) create(ctx context.Context, machine *unstructured.Unstructured, servers *cloudsigma.ServersService) (reconcile.Result, error) {
	made, _, err := servers.Create(ctx, &cloudsigma.ServerCreateRequest{Servers: []cloudsigma.Server{{
		Name: machine.GetName(), CPU: 2000, Memory: 4 << 30, VNCPassword: "console-of-" + machine.GetName(),
		Meta: map[string]any{cloudsigmatest.MachineUID: string(machine.GetUID())},
	}}})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("create server: %w", err)
	}
	if p.options.Created != nil {
		p.options.Created(client.ObjectKeyFromObject(machine), made[0].UUID)
	}
	result, ok, err := p.apply(ctx, created, machine, &made[0])
	if ok {
		result = p.after(afterCreated)
	}
	return result, err
}

// release deletes the server of a machine that is being deleted, and removes the finalizer. It leaves a server that the user may not see.
func (p *Provider) release(ctx context.Context, machine *unstructured.Unstructured, servers *cloudsigma.ServersService) (reconcile.Result, error) {
	if id := get(machine, "status", "instanceID"); id != "" {
		_, err := getServer(ctx, servers, id)
		switch {
		case errors.Is(err, errForeign) || errors.Is(err, errGone):
		case err != nil:
			return reconcile.Result{}, fmt.Errorf("get server for deletion: %w", err)
		default:
			if _, err := servers.Delete(ctx, id); err != nil {
				return reconcile.Result{}, fmt.Errorf("delete server: %w", err)
			}
		}
	}
	result, _, err := p.apply(ctx, deleted, machine, nil)
	return result, err
}

// getServer returns a server, errGone or errForeign by the status code, or an error without an answer of the cloud.
func getServer(ctx context.Context, servers *cloudsigma.ServersService, id string) (*cloudsigma.Server, error) {
	server, response, err := servers.Get(ctx, id)
	switch {
	case err == nil:
		return server, nil
	case response != nil && response.StatusCode == http.StatusNotFound:
		return nil, errGone
	case response != nil && response.StatusCode == http.StatusForbidden:
		return nil, errForeign
	}
	return nil, err
}

// find returns the server with the machine's UID or, if there is none, with its name. It looks at the first page of the user's servers
// only: a server beyond it is not found, and the provider creates another one.
func find(ctx context.Context, servers *cloudsigma.ServersService, machine *unstructured.Unstructured) (*cloudsigma.Server, error) {
	page, _, err := servers.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list servers: %w", err)
	}
	for i := range page {
		if page[i].Meta[cloudsigmatest.MachineUID] == string(machine.GetUID()) {
			return &page[i], nil
		}
	}
	for i := range page {
		if page[i].Name == machine.GetName() {
			return &page[i], nil
		}
	}
	return nil, nil
}

// clusterName returns the name of the Cluster API cluster of a machine, "" if the machine does not have an owner with one yet.
func (p *Provider) clusterName(ctx context.Context, machine *unstructured.Unstructured) (string, error) {
	for _, owner := range machine.GetOwnerReferences() {
		group, err := schema.ParseGroupVersion(owner.APIVersion)
		if err != nil || group.Group != ownerKind.Group || owner.Kind != ownerKind.Kind {
			continue
		}
		found, err := p.get(ctx, ownerKind, client.ObjectKey{Namespace: machine.GetNamespace(), Name: owner.Name})
		if err != nil {
			return "", err
		}
		return found.GetLabels()[clusterLabel], nil
	}
	return "", nil
}

func (p *Provider) get(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object, p.objects.Get(ctx, key, object)
}
