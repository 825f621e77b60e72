package model

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The kinds that tenants write.
var (
	Machine      = schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Kind: "CloudSigmaMachine"}
	Cluster      = schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Kind: "CloudSigmaCluster"}
	OwnerMachine = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "Machine"}
	Secret       = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	KdcCluster   = schema.GroupVersionKind{Group: "k8s.kube-dc.com", Version: "v1alpha1", Kind: "KdcCluster"}
)

const clusterNameLabel = "cluster.x-k8s.io/cluster-name"

// defaultRegion is the region of the provider for clusters that name none, and the default of warrantgate.
const defaultRegion = "zrh"

// ownerAnnotations are the annotations of a KdcCluster that name a user.
var ownerAnnotations = []string{"cloudsigma.com/owner-email", "kube-dc.com/owner-email"}

// uuids finds every part of a text that a provider could read as the UUID of a server.
var uuids = regexp.MustCompile(`(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// key is the identity of an object. Place is the index of a Place.
type key struct {
	place int
	kind  string
	name  string
}

// Server is a server of the cloud. Label is its name in failures.
type Server struct {
	UUID, Owner, Region, Name, Label string
}

// objects are the objects of the API servers.
type objects struct {
	// namespaces and clusters are the namespaces and logical clusters of the places. userRefs is false if no Secret names a user.
	namespaces, clusters []string
	userRefs             bool
	servers              map[string]Server // by UUID
	held                 map[key]*unstructured.Unstructured
	// reported are the machines that the audit reports; see reportOwners.
	reported map[key]bool
}

func (o *objects) clone() *objects {
	c := *o
	c.held = maps.Clone(o.held) // objects are replaced, never changed
	return &c
}

// wrong returns the machines with an instance that does not belong to the user of their provider, except those that the audit reports.
func (o *objects) wrong() map[key]string {
	found := map[key]string{}
	for k, machine := range o.held {
		if k.kind != Machine.Kind || o.reported[k] {
			continue
		}
		user, region := o.account(k, machine)
		if user == "" { // the provider has no user
			continue
		}
		for _, id := range instances(machine) {
			if server, known := o.servers[id]; !known || server.Owner != user || server.Region != region {
				found[k] = "holds " + id + ", but its provider acts as " + user + " in " + region
			}
		}
	}
	return found
}

// shared returns the instances that more than one machine of a logical cluster holds, with the machines.
func (o *objects) shared() map[string]string {
	holders := map[string][]string{}
	for k, machine := range o.held {
		if k.kind != Machine.Kind {
			continue
		}
		ids := instances(machine)
		slices.Sort(ids)
		for _, id := range slices.Compact(ids) {
			at := o.clusters[k.place] + " " + id
			holders[at] = append(holders[at], fmt.Sprintf("%s of place %d", k.name, k.place))
		}
	}
	found := map[string]string{}
	for at, machines := range holders {
		if slices.Sort(machines); len(machines) > 1 {
			_, id, _ := strings.Cut(at, " ")
			found[at] = strings.Join(machines, " and ") + " hold " + id
		}
	}
	return found
}

// instances are the UUIDs in the fields of a machine.
func instances(machine *unstructured.Unstructured) []string {
	var ids []string
	for _, path := range [][]string{{"status", "instanceID"}, {"spec", "providerID"}} {
		ids = append(ids, uuids.FindAllString(strings.ToLower(text(machine, path...)), -1)...)
	}
	return ids
}

// account returns the user and region of a machine's provider, "" if there is none. A provider uses the cluster of the machine's
// owner in Cluster API. For a machine without an owner, the label of the machine decides.
func (o *objects) account(k key, machine *unstructured.Unstructured) (user, region string) {
	name := machine.GetLabels()[clusterNameLabel]
	if owned, owner := o.owner(k, machine); owned {
		if owner == nil {
			return "", "" // the provider waits for the owner
		}
		if name = owner.GetLabels()[clusterNameLabel]; name == "" {
			return "", "" // "cluster-name label is missing"
		}
	}
	cluster := o.held[key{k.place, Cluster.Kind, name}]
	if cluster == nil {
		return "", ""
	}
	return o.userOf(k.place, cluster), cmp.Or(text(cluster, "spec", "region"), defaultRegion)
}

// owner returns whether a machine refers to an owner in Cluster API, and the owner, nil if there is none.
func (o *objects) owner(k key, machine *unstructured.Unstructured) (bool, *unstructured.Unstructured) {
	for _, ref := range machine.GetOwnerReferences() {
		group, _, _ := strings.Cut(ref.APIVersion, "/")
		if ref.Kind == OwnerMachine.Kind && group == OwnerMachine.Group {
			return true, o.held[key{k.place, OwnerMachine.Kind, ref.Name}]
		}
	}
	return false, nil
}

// reportOwners notes the machines whose owner was created since before with another label than theirs. Creating it is always admitted, and the audit
// reports the machine, until both have the same label.
func (o *objects) reportOwners(before *objects) {
	o.reported = map[key]bool{}
	for k, machine := range o.held {
		_, owner := o.owner(k, machine)
		if k.kind != Machine.Kind || owner == nil || owner.GetLabels()[clusterNameLabel] == machine.GetLabels()[clusterNameLabel] {
			continue
		}
		_, earlier := before.owner(k, machine)
		o.reported[k] = before.reported[k] || earlier == nil || earlier.GetUID() != owner.GetUID()
	}
}

// userOf is the user that a CloudSigmaCluster names, directly or by a Secret.
func (o *objects) userOf(place int, cluster *unstructured.Unstructured) string {
	if email := canonical(text(cluster, "spec", "userEmail")); email != "" || !o.userRefs {
		return email
	}
	if namespace := text(cluster, "spec", "userRef", "namespace"); namespace != "" {
		place = slices.Index(o.namespaces, namespace)
	}
	secret := o.held[key{place, Secret.Kind, text(cluster, "spec", "userRef", "name")}]
	if secret == nil {
		return ""
	}
	return secretUser(secret)
}

// named returns the users that each object names.
func (o *objects) named() map[key][]string {
	found := map[key][]string{}
	for k, object := range o.held {
		switch k.kind {
		case Cluster.Kind:
			found[k] = []string{o.userOf(k.place, object)}
		case Secret.Kind:
			found[k] = []string{secretUser(object)}
		case KdcCluster.Kind:
			for _, annotation := range ownerAnnotations {
				found[k] = append(found[k], canonical(object.GetAnnotations()[annotation]))
			}
		}
	}
	return found
}

func secretUser(secret *unstructured.Unstructured) string {
	email, err := base64.StdEncoding.DecodeString(text(secret, "data", "userEmail"))
	if err != nil {
		return ""
	}
	return canonical(string(email))
}

// canonical is an email address in the form in which clouds compare them. The provider sends blanks around it.
func canonical(email string) string { return strings.ToLower(email) }

// text is the string at a path, "" if there is none.
func text(object *unstructured.Unstructured, path ...string) string {
	value, _, err := unstructured.NestedString(object.Object, path...)
	if err != nil {
		return ""
	}
	return value
}
