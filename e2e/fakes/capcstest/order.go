package capcstest

import (
	"time"

	cloudsigma "github.com/cloudsigma/cloudsigma-sdk-go/cloudsigma"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Finalizer is the provider's finalizer on machines.
const Finalizer = "cloudsigmamachine.infrastructure.cluster.x-k8s.io"

// providerIDPrefix is the part of spec.providerID before the UUID of a server.
const providerIDPrefix = "cloudsigma://"

// event is what the provider has found out about a machine, or done for it.
type event int

const (
	// began is before anything else: the machine has no finalizer.
	began event = iota
	// created is after the provider has created a server for the machine.
	created
	// adopted is after it has found a server with the machine's UID or name.
	adopted
	// gone is a response 404 to the request for the machine's server.
	gone
	// foreign is a response 403, while no server has the machine's UID or name.
	foreign
	// seen is a response with the machine's server.
	seen
	// deleted is after the deletion of the server of a machine that is being deleted, or if the machine has none that the user may delete.
	deleted
)

// write is one PUT of a machine.
type write struct {
	// to is the subresource, "" for the object itself.
	to string
	// change is what the PUT changes. Nothing is written if it returns false.
	change func(machine *unstructured.Unstructured, server *cloudsigma.Server) bool
	// failed is the time until the machine is reconciled again after the write failed: backoff for a returned error, ignored if the provider
	// continues with the machine as it wanted to write it.
	failed time.Duration
}

const (
	status, object = "status", ""

	backoff time.Duration = -1
	ignored time.Duration = 0
)

// writes are the writes of the provider after each event, in their order. They are facts about CAPCS e03b577: read in its
// controllers/cloudsigmamachine_controller.go, and seen on kube-apiserver 1.36 with Cluster API's core manager v1.13.3.
//
// No event clears spec.providerID. So a machine whose server is replaced names two servers between the two writes.
var writes = map[event][]write{
	began:   {{object, addFinalizer, backoff}},
	created: {{status, nameInstance, 10 * time.Second}, {object, nameProvider, 5 * time.Second}},
	adopted: {{status, nameInstance, 5 * time.Second}, {object, nameProvider, 5 * time.Second}},
	gone:    {{status, clearInstance, ignored}},
	foreign: {{status, clearInstance, ignored}},
	seen:    {{object, correctProvider, 5 * time.Second}, {status, copyState, ignored}},
	deleted: {{object, removeFinalizer, backoff}},
}

// The times until the provider reconciles a machine again, if no write failed.
const (
	// afterNoAccount is after it got no token, or the cluster names no user.
	afterNoAccount = 30 * time.Second
	// afterNoList is after a request for the user's servers failed.
	afterNoList = 10 * time.Second
	// afterCreated is after it created a server, and named it in both fields.
	afterCreated = 10 * time.Second
	// afterForeign is after it cleared the ID of a server that the user may not see. Then it begins again, without an ID.
	afterForeign = 5 * time.Second
	// afterSeen is after it found nothing to do.
	afterSeen = time.Minute
	// maxBackoff is the longest time after a returned error: 1000 seconds in the real provider, which would only make tests slow.
	maxBackoff = 100 * time.Second
)

func addFinalizer(machine *unstructured.Unstructured, _ *cloudsigma.Server) bool {
	return controllerutil.AddFinalizer(machine, Finalizer)
}

func removeFinalizer(machine *unstructured.Unstructured, _ *cloudsigma.Server) bool {
	controllerutil.RemoveFinalizer(machine, Finalizer)
	return true
}

func nameInstance(machine *unstructured.Unstructured, server *cloudsigma.Server) bool {
	set(machine, "status", "instanceID", server.UUID)
	return copyState(machine, server)
}

func clearInstance(machine *unstructured.Unstructured, _ *cloudsigma.Server) bool {
	unstructured.RemoveNestedField(machine.Object, "status", "instanceID")
	unstructured.RemoveNestedField(machine.Object, "status", "instanceState")
	return true
}

func copyState(machine *unstructured.Unstructured, server *cloudsigma.Server) bool {
	set(machine, "status", "instanceState", server.Status)
	return true
}

func nameProvider(machine *unstructured.Unstructured, server *cloudsigma.Server) bool {
	set(machine, "spec", "providerID", providerIDPrefix+server.UUID)
	return true
}

func correctProvider(machine *unstructured.Unstructured, server *cloudsigma.Server) bool {
	return get(machine, "spec", "providerID") != providerIDPrefix+server.UUID && nameProvider(machine, server)
}

// get returns a field of an object, "" if it has none.
func get(object *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(object.Object, path...)
	return value
}

// set sets a field of spec or status.
func set(object *unstructured.Unstructured, parent, field, value string) {
	fields, ok := object.Object[parent].(map[string]any)
	if !ok {
		fields = map[string]any{}
		object.Object[parent] = fields
	}
	fields[field] = value
}
