package model

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// A model without findings proves nothing: without warrantgate, it must find each broken promise within a few writes.
func TestRunFindsBrokenPromisesWithoutWarrantgate(t *testing.T) {
	t.Setenv(SeedEnv, "1") // with others it can take long to shorten a sequence
	anybody := []string{anna, bert, withBlanks(anna), withBlanks(bert)}
	for _, tc := range []struct {
		name  string
		kinds []schema.GroupVersionKind
		// objects is that of World: with one machine, no two machines hold one instance.
		objects int
		may     []string
		want    string
	}{
		{name: "a machine with a foreign server", kinds: []schema.GroupVersionKind{Machine, Machine, Cluster, OwnerMachine}, may: anybody, objects: 1, want: promiseOwned},
		{name: "two machines with one server", kinds: []schema.GroupVersionKind{Machine}, want: promiseAlone},
		{name: "a cluster with a foreign user", kinds: []schema.GroupVersionKind{Cluster}, may: []string{anna}, want: promisePermitted},
		{name: "a Secret with a foreign user", kinds: []schema.GroupVersionKind{Secret}, may: []string{anna}, want: promisePermitted},
		{name: "an annotation with a foreign user", kinds: []schema.GroupVersionKind{KdcCluster}, may: []string{anna}, want: promisePermitted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mapper := meta.NewDefaultRESTMapper(nil)
			for _, kind := range []schema.GroupVersionKind{Machine, Cluster, OwnerMachine, Secret, KdcCluster} {
				mapper.Add(kind, meta.RESTScopeNamespace)
			}
			c := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithRESTMapper(mapper).Build()
			result, err := Run(t.Context(), Options{Writes: 3000}, &World{
				Places:  []Place{{Namespace: "first", Admin: c, Users: []string{anna, bert}}},
				Actors:  []*Actor{{Name: "tenant", Client: c, Kinds: tc.kinds, May: tc.may}},
				Regions: []string{"next"}, UserRefs: true, Objects: tc.objects,
				AddServers: func(string) ([]Server, func()) {
					return []Server{
						{UUID: annasServer, Owner: anna, Region: "next", Label: "annas"},
						{UUID: strings.ToLower(bertsServer), Owner: bert, Region: "next", Label: "berts"},
					}, func() {}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(result.Failures) != 1 || !strings.Contains(result.Failures[0], "broken: "+tc.want) {
				t.Fatalf("Run() found %q in %v, want it to find that this is broken: %s", result.Failures, result, tc.want)
			}
			if n := strings.Count(result.Failures[0], "tenant: "); n > 8 {
				t.Errorf("the shortest sequence has %d writes, want at most 8:\n%s", n, result.Failures[0])
			}
		})
	}
}

func TestPermitted(t *testing.T) {
	annas, berts := write{actor: &Actor{May: []string{anna}}}, write{actor: &Actor{May: []string{bert}}}
	exists := errors.New("it exists already")
	for name, tc := range map[string]struct {
		writes []write
		errs   []error
		want   bool
	}{
		"by its author":                          {writes: []write{annas}, errs: []error{nil}, want: true},
		"not by its author":                      {writes: []write{berts}, errs: []error{nil}},
		"by the author of one that failed":       {writes: []write{annas}, errs: []error{exists}},
		"by another author":                      {writes: []write{berts, annas}, errs: []error{nil, nil}, want: true},
		"by the author of two, the first failed": {writes: []write{annas, annas}, errs: []error{exists, nil}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := permitted(tc.writes, tc.errs, anna); got != tc.want {
				t.Errorf("permitted() = %t, want %t", got, tc.want)
			}
		})
	}
}
