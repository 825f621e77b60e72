package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kubetest"
)

const (
	// externalIDAddedBound is for the whole time of a call of the webhook, in milliseconds: the API server waits for it.
	externalIDAddedBound = 2
	// externalCalls is the number of calls that are measured, after some to warm up.
	externalCalls, externalWarmUpCalls = 2000, 200
)

// externalKind is a kind of a provider whose cloud is not asked. Its ID is in the same field as that of a CloudSigmaMachine.
var externalKind = schema.GroupVersionKind{Group: "rented.example.com", Version: "v1", Kind: "RentedMachine"}

const externalConfiguration = `apiVersion: config.warrantgate.dev/v1beta1
kind: GateConfiguration
machine:
  kinds:
  - {group: rented.example.com, version: v1, kind: RentedMachine, resource: rentedmachines, providerIDPath: status.instanceID, provider: external}
`

// measureExternal measures how long a write that names an ID waits for the gate, while 5,000 objects of 50 namespaces name others.
func measureExternal(ctx context.Context, out *figures) (err error) {
	m := &machines{}
	defer func() { err = errors.Join(err, m.stop()) }() //nolint:contextcheck // what was started is stopped also when ctx has ended
	if err := m.start(ctx); err != nil {
		return err
	}
	if err := m.populateExternal(ctx); err != nil {
		return err
	}
	if m.binary, err = asset.Path(asset.Warrantgate); err != nil {
		return err
	}
	m.warrantgate, err = kubetest.NewWarrantgate(ctx, m.api, kubetest.WarrantgateOptions{Binary: m.binary, Configuration: externalConfiguration})
	if err != nil {
		return err
	}
	if _, err := m.warrantgate.Install(ctx); err != nil {
		return err
	}
	if err := m.warrantgate.Start(ctx); err != nil { // it is ready when it has read all objects
		return err
	}
	roots, err := rootsIn(m.warrantgate.CAFile())
	if err != nil {
		return err
	}
	reviews, err := machineReviews(externalKind, "rentedmachines", namespaceOf(0), 0)
	if err != nil {
		return err
	}
	caller := newCaller(m.warrantgate.HookURL(""), roots, reviews)
	progress("%d calls", externalCalls)
	var millis []float64
	for i := range externalWarmUpCalls + externalCalls {
		began := time.Now()
		answer, err := caller.call(ctx, machinePath)
		took := time.Since(began)
		if err := errors.Join(err, checkAllowed(answer, machinePath, false)); err != nil {
			return err
		}
		if i >= externalWarmUpCalls {
			millis = append(millis, milliseconds(took))
		}
	}
	out.atMost("external_id_added_p50_ms", median(millis), "ms", externalIDAddedBound)
	return nil
}

// populateExternal creates the objects. warrantgate is not installed yet.
func (m *machines) populateExternal(ctx context.Context) error {
	progress("%d objects of an external provider", users*machinesOfUser)
	if err := m.api.ApplyCRDs(ctx, kubetest.OpenCRD(externalKind)); err != nil {
		return err
	}
	for i := range users {
		if err := m.api.Client().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceOf(i)}}); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range users * machinesOfUser {
		group.Go(func() error {
			machine, err := newMachine(namespaceOf(i%users), fmt.Sprintf("held-%d", i))
			if err != nil {
				return err
			}
			machine.SetGroupVersionKind(externalKind)
			machine.SetUID("")
			machine.SetResourceVersion("")
			machine.SetManagedFields(nil)
			if err := nameInstance(machine, instanceID(idsOfCaller+int64(i))); err != nil { // those of no caller here
				return err
			}
			return m.api.Client().Create(ctx, machine)
		})
	}
	return group.Wait()
}
