package model

import (
	"encoding/base64"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	annasServer = "11111111-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
	bertsServer = "22222222-BBBB-4bbb-8bbb-bbbbbbbbbbbb"
	anna        = "anna@example.com"
	bert        = "bert@example.com"
)

func TestWrong(t *testing.T) {
	annas, berts := clusterOf("annas", anna), clusterOf("berts", "BERT@example.com")
	bySecret := object(Cluster, "by-secret", field{[]string{"spec"}, map[string]any{"region": "next", "userRef": map[string]any{"name": "user"}}})
	elsewhere := object(Cluster, "elsewhere", field{[]string{"spec"}, map[string]any{"region": "next", "userRef": map[string]any{"name": "user", "namespace": "second"}}})
	secret := object(Secret, "user", field{[]string{"data", "userEmail"}, base64.StdEncoding.EncodeToString([]byte("Bert@example.com"))})
	owner := func(cluster string) *unstructured.Unstructured { return object(OwnerMachine, "owner", label(cluster)) }
	owned := field{[]string{"metadata", "ownerReferences"}, []any{
		map[string]any{"apiVersion": "machines.example.com/v1", "kind": "Machine", "name": "another", "uid": "1"},
		map[string]any{"apiVersion": "cluster.x-k8s.io/v1alpha4", "kind": "Machine", "name": "owner", "uid": "2"},
	}}
	for name, tc := range map[string]struct {
		objects []*unstructured.Unstructured
		want    string
	}{
		"the user's own server":                    {objects: list(annas, machine(label("annas"), instance(annasServer)))},
		"another user's server":                    {objects: list(annas, machine(label("annas"), instance(bertsServer))), want: anna},
		"another user's server, in capitals":       {objects: list(berts, machine(label("berts"), provider("cloudsigma://"+annasServer))), want: bert},
		"a server in another form":                 {objects: list(annas, machine(label("annas"), provider("x/"+bertsServer+"/y"))), want: anna},
		"no cluster: the provider does nothing":    {objects: list(annas, machine(label("none"), instance(bertsServer)))},
		"a Secret names the user":                  {objects: list(bySecret, secret, machine(label("by-secret"), instance(annasServer))), want: bert},
		"a Secret that does not exist":             {objects: list(bySecret, machine(label("by-secret"), instance(annasServer)))},
		"a Secret of another place":                {objects: list(elsewhere, secret, machine(label("elsewhere"), instance(annasServer)))},
		"the owner's cluster, not the machine's":   {objects: list(annas, berts, owner("berts"), machine(label("annas"), owned, instance(annasServer))), want: bert},
		"no region is the default":                 {objects: list(object(Cluster, "nowhere", field{[]string{"spec", "userEmail"}, anna}), machine(label("nowhere"), instance(annasServer))), want: anna},
		"an owner that does not exist":             {objects: list(annas, machine(label("annas"), owned, instance(bertsServer)))},
		"an owner without a cluster":               {objects: list(annas, owner(""), machine(label("annas"), owned, instance(bertsServer)))},
		"the region of the cluster is another one": {objects: list(object(Cluster, "far", field{[]string{"spec"}, map[string]any{"region": "zrh", "userEmail": anna}}), machine(label("far"), instance(annasServer))), want: anna},
	} {
		t.Run(name, func(t *testing.T) {
			o := &objects{namespaces: []string{"first", "second"}, userRefs: true, held: map[key]*unstructured.Unstructured{}, servers: map[string]Server{
				annasServer: {UUID: annasServer, Owner: anna, Region: "next"}, "22222222-bbbb-4bbb-8bbb-bbbbbbbbbbbb": {Owner: bert, Region: "next"},
			}}
			for _, object := range tc.objects {
				o.held[key{0, object.GetKind(), object.GetName()}] = object
			}
			users := ""
			for k := range o.wrong() {
				users, _ = o.account(k, o.held[k])
			}
			if diff := cmp.Diff(tc.want, users); diff != "" {
				t.Errorf("the provider of the wrong machine acts as (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReportOwners(t *testing.T) {
	const owned = "machine"
	state := func(ownerUID, ownerCluster, cluster string, reported bool) *objects {
		machine := object(Machine, owned, label(cluster), field{[]string{"metadata", "ownerReferences"}, []any{
			map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "name": "owner", "uid": "1"},
		}})
		o := &objects{held: map[key]*unstructured.Unstructured{{0, Machine.Kind, owned}: machine}, reported: map[key]bool{{0, Machine.Kind, owned}: reported}}
		if ownerUID != "" {
			o.held[key{0, OwnerMachine.Kind, "owner"}] = object(OwnerMachine, "owner", label(ownerCluster), field{[]string{"metadata", "uid"}, ownerUID})
		}
		return o
	}
	for name, tc := range map[string]struct {
		before, after *objects
		want          bool
	}{
		"the owner gets another label":                        {before: state("1", "a", "a", false), after: state("1", "b", "a", false)},
		"the machine gets another label":                      {before: state("1", "a", "a", false), after: state("1", "a", "b", false)},
		"an owner of its cluster is created":                  {before: state("", "", "a", false), after: state("1", "a", "a", false)},
		"an owner of another cluster is created":              {before: state("", "", "a", false), after: state("1", "b", "a", false), want: true},
		"an owner of another cluster replaces one":            {before: state("1", "a", "a", false), after: state("2", "b", "a", false), want: true},
		"a reported machine, and nothing changes":             {before: state("1", "b", "a", true), after: state("1", "b", "a", false), want: true},
		"a reported machine, whose owner gets the same label": {before: state("1", "b", "a", true), after: state("1", "a", "a", false)},
		"a reported machine, whose owner is deleted":          {before: state("1", "b", "a", true), after: state("", "", "a", false)},
	} {
		t.Run(name, func(t *testing.T) {
			tc.after.reportOwners(tc.before)
			if got := tc.after.reported[key{0, Machine.Kind, owned}]; got != tc.want {
				t.Errorf("reported = %t, want %t", got, tc.want)
			}
		})
	}
}

func list(objects ...*unstructured.Unstructured) []*unstructured.Unstructured { return objects }

func object(kind schema.GroupVersionKind, name string, fields ...field) *unstructured.Unstructured {
	w := write{kind: kind, version: kind.Version, name: name, namespace: "first", fields: fields}
	o := w.empty()
	w.set(o, false)
	return o
}

func clusterOf(name, email string) *unstructured.Unstructured {
	return object(Cluster, name, field{[]string{"spec"}, map[string]any{"region": "next", "userEmail": email}})
}

func machine(fields ...field) *unstructured.Unstructured {
	return object(Machine, "machine", fields...)
}

func label(cluster string) field {
	return field{[]string{"metadata", "labels", clusterNameLabel}, cluster}
}

func instance(id string) field { return field{[]string{"status", "instanceID"}, id} }
func provider(id string) field { return field{[]string{"spec", "providerID"}, id} }
