//go:build e2e

package openstack_test

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// crds are the kinds of Cluster API Provider OpenStack, reduced to the fields that warrantgate reads. All other fields are preserved.
func crds() []*apiextensionsv1.CustomResourceDefinition {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	identityRef := object(map[string]apiextensionsv1.JSONSchemaProps{"type": text, "name": text, "cloudName": text, "region": text})
	return []*apiextensionsv1.CustomResourceDefinition{
		crd("openstackclusters", clusterKind.Kind, object(map[string]apiextensionsv1.JSONSchemaProps{"identityRef": identityRef}), object(nil)),
		crd("openstackmachines", machineKind.Kind,
			object(map[string]apiextensionsv1.JSONSchemaProps{"identityRef": identityRef, "providerID": text}),
			object(map[string]apiextensionsv1.JSONSchemaProps{"instanceID": text})),
		serverCRD(object(map[string]apiextensionsv1.JSONSchemaProps{"identityRef": identityRef}), object(map[string]apiextensionsv1.JSONSchemaProps{"instanceID": text})),
	}
}

// serverCRD is the kind from which newer versions of the provider create servers.
func serverCRD(spec, status apiextensionsv1.JSONSchemaProps) *apiextensionsv1.CustomResourceDefinition {
	server := crd("openstackservers", serverKind.Kind, spec, status)
	server.Spec.Versions[0].Name = serverKind.Version
	return server
}

func object(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true), Properties: properties}
}

func crd(plural, kind string, spec, status apiextensionsv1.JSONSchemaProps) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + infrastructure.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: infrastructure.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: infrastructure.Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec, "status": status},
				}},
			}},
		},
	}
}
