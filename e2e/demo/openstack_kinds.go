package main

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// identitySecret is the Secret with the credentials of a cluster on OpenStack, identityCloud the entry of its clouds.yaml.
const identitySecret, identityCloud = "cloud-config", "tenant"

// openStackKinds are the kinds of Cluster API Provider OpenStack. All their fields are preserved.
func openStackKinds() []*apiextensionsv1.CustomResourceDefinition {
	return []*apiextensionsv1.CustomResourceDefinition{
		openStackKind("OpenStackCluster", "openstackcluster"),
		openStackKind("OpenStackMachine", "openstackmachine"),
	}
}

func openStackKind(kind, singular string) *apiextensionsv1.CustomResourceDefinition {
	plural := singular + "s"
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + infrastructure.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: infrastructure.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural, Singular: singular},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: infrastructure.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}
}

// openStackCluster is a cluster of the tenant that acts with the credentials of the Secret.
func openStackCluster(name string) *unstructured.Unstructured {
	return object("OpenStackCluster", name, map[string]any{
		"identityRef": map[string]any{"name": identitySecret, "cloudName": identityCloud},
	})
}
