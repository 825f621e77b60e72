package model

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
)

// objectsPerKind is the default maximum of objects of each kind in a place.
const objectsPerKind = 2

// notThere is a UUID without a server.
const notThere = "00000000-dead-4bad-8000-000000000000"

// dice are the random draws of one write.
type dice struct{ *rand.Rand }

// pick returns one of the values.
func pick[V any](d dice, values ...V) V { return values[d.IntN(len(values))] }

// drawDice draws the dice of one step. rapid shortens a sequence by removing one number after the other. With one number for each
// step, it removes whole steps, and the other steps stay the same.
func drawDice(t *rapid.T) dice {
	return dice{rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "step"), 0))}
}

// draw draws a write that is possible with the existing objects.
func (s *sequence) draw(t dice) write {
	actor := pick(t, s.world.Actors...)
	kind := pick(t, actor.Kinds...)
	w := write{
		actor: actor, kind: kind, version: kind.Version, at: actor.Place, namespace: s.objects.namespaces[actor.Place],
		name: s.name(kind, t.IntN(cmp.Or(s.world.Objects, objectsPerKind))),
	}
	current := s.objects.held[w.key()]
	verb := t.IntN(12)
	if current == nil {
		w.verb = []string{create, create, create, apply}[verb%4]
	} else {
		w.verb = []string{merge, update, patch, apply, merge, update, patch, apply, merge, update, patch, remove}[verb]
	}
	// One field of each kind is drawn, even if the write does not need it.
	d := draws{
		label: s.drawClusterLabel(t), owners: s.drawOwners(t), region: s.drawRegion(t), email: s.drawEmail(t, actor), secret: s.drawSecretRef(t),
		id: t.IntN(1000), form: t.IntN(24),
		state:      pick[any](t, "running", "stopped"),
		which:      t.IntN(1 << 10),
		annotation: s.drawAnnotation(t), annotated: t.IntN(10) == 9,
		finalized: t.IntN(15) == 14,
		metadata:  t.IntN(6) == 5,
	}
	if w.verb == remove {
		return w
	}
	switch kind {
	case Machine:
		s.machine(&w, d, current)
	case Cluster:
		w.fields, w.status = cluster(d, current == nil), current != nil && d.form == 0
	case OwnerMachine:
		w.fields, w.status = append(w.fields, d.label), current != nil && d.form < 6
	case Secret:
		w.fields = append(w.fields, secret(d, w.verb))
	case KdcCluster:
		w.fields = append(w.fields, field{[]string{"metadata", "annotations", ownerAnnotations[d.which&1]}, d.email})
	}
	if d.annotated {
		w.fields = append(w.fields, d.annotation)
	}
	return w
}

// draws are the parts of a write.
type draws struct {
	label, owners, region, annotation field
	email, state                      any
	secret                            map[string]any
	id, form                          int
	// which says by its bits which fields the write contains.
	which                int
	annotated, finalized bool
	// metadata is true if the write changes only the metadata of a machine.
	metadata bool
}

// name is the name of an object of this sequence. Objects of one kind have the same names in all places.
func (s *sequence) name(kind schema.GroupVersionKind, i int) string {
	return fmt.Sprintf("%s-%s-%d", s.prefix, strings.ToLower(kind.Kind), i)
}

func (s *sequence) machine(w *write, d draws, current *unstructured.Unstructured) {
	if d.which&3 == 3 && s.world.MachineVersion != "" {
		w.version = s.world.MachineVersion
	}
	fresh := current == nil
	if !fresh && d.metadata { // on both paths, although only one of them changes it
		w.status = d.which>>9&1 == 1
		w.fields = [][]field{{d.label}, {d.owners}, {d.label, d.owners}, {d.label}}[d.which>>7&3]
		return
	}
	if fresh || d.which>>2&3 == 3 {
		w.fields = append(w.fields, d.label)
	}
	if d.which>>4&3 == 3 {
		w.fields = append(w.fields, d.owners)
	}
	if d.finalized {
		w.fields = append(w.fields, field{[]string{"metadata", "finalizers"}, []any{[]any{"example.com/held"}, nil}[d.which>>6&1]})
	}
	if fresh && d.which>>7&1 == 0 { // as Cluster API creates machines
		return
	}
	path := []string{"spec", "providerID"}
	if w.verb != create && d.which>>6&3 != 3 {
		w.status, path = true, []string{"status", "instanceID"}
	}
	if d.which>>8&3 == 3 {
		path[1] = "instanceState"
		w.fields = append(w.fields, field{path, d.state})
		return
	}
	user := ""
	if !fresh {
		user, _ = s.objects.account(w.key(), current)
	}
	w.fields = append(w.fields, field{path, s.id(d, path[0] == "spec", user)})
}

// id is the UUID of a server, mostly of the user, in one of its possible notations.
func (s *sequence) id(d draws, providerID bool, user string) any {
	var own, all []string
	for _, server := range s.servers {
		all = append(all, server.UUID)
		if server.Owner == user {
			own = append(own, server.UUID)
		}
	}
	all = append(all, notThere)
	id := all[d.id%len(all)]
	if d.id < 600 && len(own) > 0 {
		id = own[d.id%len(own)]
	}
	prefix := "cloudsigma://"
	if !providerID {
		prefix = ""
	}
	switch d.form {
	case 16:
		return nil
	case 17:
		return ""
	case 18:
		return prefix + strings.ToUpper(id)
	case 19:
		return " " + prefix + id + " "
	case 20:
		return prefix + "next/" + id
	case 21:
		return prefix + id + "/"
	case 22:
		return "cloudsigma://" + id
	case 23:
		return "CloudSigma:///" + id
	}
	return prefix + id
}

func (s *sequence) drawClusterLabel(t dice) field {
	return field{[]string{"metadata", "labels", clusterNameLabel}, pick[any](t,
		s.name(Cluster, 0), s.name(Cluster, 1), s.name(Cluster, 0), s.name(Cluster, 1), s.name(Cluster, 0), "no-such-cluster", nil,
	)}
}

// drawOwners draws owner references: none, one, of another group, and more than one.
func (s *sequence) drawOwners(t dice) field {
	reference := func(i int, apiVersion, kind string, controller bool) map[string]any {
		return map[string]any{
			"apiVersion": apiVersion, "kind": kind, "name": s.name(OwnerMachine, i), "uid": fmt.Sprintf("owner-%d", i), "controller": controller,
		}
	}
	version := OwnerMachine.GroupVersion().String()
	first, second := reference(0, version, "Machine", true), reference(1, version, "Machine", true)
	return field{[]string{"metadata", "ownerReferences"}, pick[any](t,
		nil, []any{first}, []any{second}, []any{first}, []any{second},
		[]any{reference(0, version, "Machine", false)},
		[]any{reference(1, "cluster.x-k8s.io/v1alpha4", "Machine", true)},
		[]any{reference(1, "machines.example.com/v1", "Machine", true)},
		[]any{reference(1, "machines.example.com/v1", "Machine", true), reference(0, version, "Machine", false)},
		[]any{reference(0, version, "MachineSet", true), reference(1, version, "Machine", false)},
		[]any{reference(0, version, "Machine", false), second},
		[]any{},
	)}
}

func (s *sequence) drawRegion(t dice) field {
	return field{[]string{"spec", "region"}, pick[any](t,
		s.world.Regions[0], s.world.Regions[0], s.world.Regions[0], s.world.Regions[len(s.world.Regions)-1], nil,
	)}
}

// drawSecretRef draws a reference to a Secret of a random place.
func (s *sequence) drawSecretRef(t dice) map[string]any {
	reference := map[string]any{"name": s.name(Secret, t.IntN(objectsPerKind))}
	namespaces := append([]string{"", "", ""}, s.objects.namespaces...)
	if namespace := pick(t, namespaces...); namespace != "" {
		reference["namespace"] = namespace
	}
	return reference
}

func cluster(d draws, fresh bool) []field {
	var fields []field
	if fresh || d.which&3 == 3 {
		fields = append(fields, d.region)
	}
	email, reference := field{[]string{"spec", "userEmail"}, d.email}, field{[]string{"spec", "userRef"}, any(d.secret)}
	if d.which>>5&3 == 3 {
		reference.value = nil
	}
	switch d.which >> 2 & 7 {
	case 0, 1, 2, 3:
		return append(fields, email)
	case 4, 5:
		return append(fields, email, reference)
	}
	if !fresh && d.which>>7&1 == 1 {
		email.value = nil // so that the Secret applies
		fields = append(fields, email)
	}
	return append(fields, reference)
}

func secret(d draws, verb string) field {
	email, ok := d.email.(string)
	switch {
	case !ok:
		return field{[]string{"data", "userEmail"}, nil}
	case verb == patch, d.which&1 == 0:
		return field{[]string{"data", "userEmail"}, base64.StdEncoding.EncodeToString([]byte(email))}
	}
	return field{[]string{"stringData", "userEmail"}, email}
}

// drawEmail draws a user, in one of the notations of an email address: mostly one that the actor may name, sometimes any user.
func (s *sequence) drawEmail(t dice, actor *Actor) any {
	var users []string
	for range 6 / max(1, len(actor.May)) {
		users = append(users, actor.May...)
	}
	for _, place := range s.world.Places {
		users = append(users, place.Users...)
	}
	email := pick(t, users...)
	switch t.IntN(16) {
	case 12:
		return strings.ToUpper(email)
	case 13:
		return nil
	case 14:
		return ""
	case 15:
		return withBlanks(strings.TrimSpace(email))
	}
	return email
}

// withBlanks is an address as the provider must not get it, which no actor may name.
func withBlanks(email string) string { return " " + email + "\n" }

func (s *sequence) drawAnnotation(t dice) field {
	values := []any{"true", nil, "*", "../services/x", "root"}
	for _, place := range s.world.Places {
		if place.Cluster != "" {
			values = append(values, place.Cluster, place.Cluster, place.Cluster)
		}
	}
	names := []string{"kcp.io/cluster", "kcp.io/cluster", "kcp.io/path", "cluster.x-k8s.io/paused", "warrantgate.dev/created-by"}
	return field{
		[]string{"metadata", "annotations", pick(t, names...)},
		pick(t, values...),
	}
}
