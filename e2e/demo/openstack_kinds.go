package main

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// identitySecret is the Secret with the credentials of a cluster on OpenStack, identityCloud the entry of its clouds.yaml.
const identitySecret, identityCloud = "cloud-config", "tenant"

// openStackCluster is a cluster of the tenant that acts with the credentials of the Secret.
func openStackCluster(name string) *unstructured.Unstructured {
	return object("OpenStackCluster", name, map[string]any{
		"identityRef": map[string]any{"name": identitySecret, "cloudName": identityCloud},
	})
}
