package kcp_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"

	"warrantgate.dev/internal/kcp"
)

func TestOwnerIsImmutable(t *testing.T) {
	for name, tc := range map[string]struct {
		version   string
		resources []string
		want      bool
	}{
		"v0.30.0":                          {version: "v1.33.3+kcp-v0.30.0", resources: []string{"mutatingadmissionpolicies"}},
		"v0.31.5":                          {version: "v1.35.0+kcp-v0.31.5"},
		"v0.32.0":                          {version: "v1.36.0+kcp-v0.32.0", want: true},
		"v0.100.0":                         {version: "v1.40.0+kcp-v0.100.0", want: true},
		"v1.0.0":                           {version: "v1.40.0+kcp-v1.0.0", want: true},
		"an older build without a version": {version: "v0.0.0-master+$Format:%H$", resources: []string{"validatingadmissionpolicies"}},
		"a newer build without a version":  {version: "v0.0.0-master+$Format:%H$", resources: []string{"mutatingadmissionpolicies"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			list := &metav1.APIResourceList{GroupVersion: "admissionregistration.k8s.io/v1"}
			for _, resource := range tc.resources {
				list.APIResources = append(list.APIResources, metav1.APIResource{Name: resource})
			}
			server := &fakediscovery.FakeDiscovery{
				Fake:               &clienttesting.Fake{Resources: []*metav1.APIResourceList{list}},
				FakedServerVersion: &apimachineryversion.Info{GitVersion: tc.version},
			}
			got, err := kcp.OwnerIsImmutable(server)
			if err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("OwnerIsImmutable() = %t, want %t", got, tc.want)
			}
		})
	}
}
