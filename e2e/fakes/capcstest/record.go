package capcstest

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Write is a write that the provider made, with any result.
type Write struct {
	// Status is true for a PUT of the subresource status, false for one of the object.
	Status bool
	// InstanceID and ProviderID are the fields of the machine in the request.
	InstanceID, ProviderID string
	// Err is the API server's response.
	Err error
}

// record is what the provider did, by machine.
type record struct {
	mu       sync.Mutex
	attempts map[client.ObjectKey]int
	writes   map[client.ObjectKey][]Write
	errs     map[client.ObjectKey][]error
}

func newRecord() *record {
	return &record{
		attempts: map[client.ObjectKey]int{}, writes: map[client.ObjectKey][]Write{}, errs: map[client.ObjectKey][]error{},
	}
}

func (r *record) reconciled(machine client.ObjectKey, err error) {
	if err != nil {
		r.failed(machine, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts[machine]++
}

func (r *record) failed(machine client.ObjectKey, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs[machine] = append(r.errs[machine], err)
}

func (r *record) wrote(machine *unstructured.Unstructured, to string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(machine)
	r.writes[key] = append(r.writes[key], Write{
		Status: to == status, InstanceID: get(machine, "status", "instanceID"), ProviderID: get(machine, "spec", "providerID"), Err: err,
	})
}

// Attempts returns how often the provider has reconciled a machine.
func (p *Provider) Attempts(machine client.ObjectKey) int {
	p.record.mu.Lock()
	defer p.record.mu.Unlock()
	return p.record.attempts[machine]
}

// Writes returns the writes of a machine so far.
func (p *Provider) Writes(machine client.ObjectKey) []Write {
	p.record.mu.Lock()
	defer p.record.mu.Unlock()
	return slices.Clone(p.record.writes[machine])
}

// Denied returns the errors of the writes of a machine so far.
func (p *Provider) Denied(machine client.ObjectKey) []error {
	var errs []error
	for _, write := range p.Writes(machine) {
		if write.Err != nil {
			errs = append(errs, write.Err)
		}
	}
	return errs
}

// Errors returns why the provider could do nothing for a machine so far, other than failed writes: tokens and requests to the cloud.
func (p *Provider) Errors(machine client.ObjectKey) []error {
	p.record.mu.Lock()
	defer p.record.mu.Unlock()
	return slices.Clone(p.record.errs[machine])
}
