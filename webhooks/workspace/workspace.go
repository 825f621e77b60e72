// Package workspace holds the gates on kcp Workspaces. Two admission policies and OwnerRewrite, for what these leave, rewrite owners that kcp
// cannot act as. Another policy protects the recorded owner. OwnerNotice and DenialNotice report what policies have done.
//
// Package identity decides. This package decodes requests and returns answers.
package workspace

import (
	"cmp"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/kcp-dev/logicalcluster/v3"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/events"
	"warrantgate.dev/webhooks"
)

// annotationPrefix starts the names of warrantgate's own annotations on Workspaces.
const annotationPrefix = "warrantgate.dev/"

// reviewed is a Workspace under review.
type reviewed struct {
	// cluster is the logical cluster that holds the Workspace. kcp sets the annotation when a Workspace is created. Later the requester
	// can write it, so it is read from the stored Workspace.
	cluster logicalcluster.Name
	// object is the Workspace after the request, and old the stored one, if there is one.
	object, old metadata
	// exists is false if the request creates it.
	exists bool
}

// metadata is the part of a Workspace that the gates read, with its spec. The rest is not decoded.
type metadata struct {
	Name            string            `json:"name"`
	GenerateName    string            `json:"generateName"`
	UID             types.UID         `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Annotations     map[string]string `json:"annotations"`

	spec spec
}

// spec is the part of the spec that only kcp writes.
type spec struct {
	Cluster string `json:"cluster"`
	URL     string `json:"URL"`
}

// decode reads the Workspace of a request.
func decode(request admission.Request) (reviewed, error) {
	object, err := decodeMetadata(request.Object.Raw)
	if err != nil {
		return reviewed{}, fmt.Errorf("decode the workspace: %w", err)
	}
	r := reviewed{object: object, exists: request.Operation != admissionv1.Create}
	stored := object
	if r.exists {
		if r.old, err = decodeMetadata(request.OldObject.Raw); err != nil {
			return reviewed{}, fmt.Errorf("decode the stored workspace: %w", err)
		}
		stored = r.old
	}
	r.cluster = logicalcluster.Name(stored.Annotations[logicalcluster.AnnotationKey])
	return r, nil
}

func decodeMetadata(raw []byte) (metadata, error) {
	var object struct {
		Metadata metadata `json:"metadata"`
		Spec     spec     `json:"spec"`
	}
	err := json.Unmarshal(raw, &object)
	object.Metadata.spec = object.Spec
	return object.Metadata, err
}

// name is what a Workspace that is created is called. With generateName it may have no name yet.
func (r reviewed) name() string { return cmp.Or(r.object.Name, r.object.GenerateName) }

// subject is the Workspace. The logical cluster around it has the Events about a Workspace that is not created.
func (r reviewed) subject() webhooks.Subject {
	return webhooks.Subject{
		Cluster: r.cluster, Object: events.Workspace(r.object.Name, r.object.UID, r.object.ResourceVersion), Exists: r.exists,
		Parent: corev1.ObjectReference{APIVersion: "core.kcp.io/v1alpha1", Kind: "LogicalCluster", Name: "cluster"},
	}
}
