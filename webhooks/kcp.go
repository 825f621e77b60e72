package webhooks

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/kcp-dev/logicalcluster/v3"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/internal/share"
)

// clusterField is the path of the annotation with the logical cluster of an object.
const clusterField = "metadata.annotations[" + logicalcluster.AnnotationKey + "]"

// perCluster is a gate on objects that a provider exports to workspaces of kcp.
type perCluster struct {
	name string
	in   func(cluster logicalcluster.Name) (Gate, error)
}

// PerCluster returns a gate that passes each request to the gate of its logical cluster.
//
// The logical cluster is in the annotation kcp.io/cluster of the object. On CREATE, kcp writes it into the new object, whatever the
// client has sent. On every other operation, the client controls the new object, and only the stored object has the value of kcp. A
// request that sets another value is denied. A request without the annotation is not, because a client may omit it.
func PerCluster(name string, in func(cluster logicalcluster.Name) (Gate, error)) Gate {
	return &perCluster{name: name, in: in}
}

// Name implements Gate.
func (p *perCluster) Name() string { return p.name }

// Review implements Gate.
func (p *perCluster) Review(ctx context.Context, request admission.Request) Answer {
	cluster, denial := ClusterOf(request)
	if denial != nil {
		return *denial
	}
	gate, err := p.in(cluster)
	if err != nil {
		return Answer{
			Decision: Undecided, Reason: "NoLogicalCluster", Message: "the logical cluster of the object cannot be addressed",
			Details: func() []any { return []any{"cluster", cluster, "error", err.Error()} },
		}
	}
	ctx = share.WithTenant(ctx, share.TenantOf(cluster.String(), request.Namespace))
	answer := gate.Review(ctx, request)
	answer.Subject.Cluster = cluster
	return answer
}

// Bindings are the kinds that one logical cluster has from a provider.
type Bindings interface {
	// Binds reports whether the logical cluster has the objects of a resource from an APIExport of the provider.
	Binds(ctx context.Context, resource schema.GroupVersionResource) (bool, error)
}

// Bound returns a gate that denies requests about a logical cluster that does not bind the resource from an APIExport of the provider. kcp
// sends none, but a user who can read the webhook configuration in the provider's workspace can send a request about any logical cluster.
func Bound(gate Gate, bindings Bindings, provider logicalcluster.Name) Gate {
	return &bound{Gate: gate, bindings: bindings, provider: provider}
}

type bound struct {
	Gate
	bindings Bindings
	provider logicalcluster.Name
}

// Review implements Gate.
func (b *bound) Review(ctx context.Context, request admission.Request) Answer {
	resource := schema.GroupVersionResource(request.Resource)
	switch binds, err := b.bindings.Binds(ctx, resource); {
	case err != nil:
		return Answer{
			Decision: Undecided, Reason: "BindingsUnknown", Message: "it could not be determined which APIExports this workspace binds; try again",
			Details: func() []any { return []any{"provider", b.provider, "error", err.Error()} },
		}
	case !binds:
		return Answer{Decision: Denied, Reason: "ProviderNotBound", Message: fmt.Sprintf(
			"the workspace of the object does not bind %s from logical cluster %q, whose webhook configuration this request comes from", resource.GroupResource(), b.provider)}
	}
	// Before, the caller could name any provider, and any number of them.
	return shared(ctx, func() Answer { return b.Gate.Review(ctx, request) })
}

// ClusterOf returns the logical cluster of the object of a request, by the annotation that kcp wrote. The answer is not nil if the
// annotation is missing, or if the client has sent another value.
func ClusterOf(request admission.Request) (logicalcluster.Name, *Answer) {
	sent, err := clusterIn(request.Object.Raw)
	if err != nil {
		return "", ptr.To(Undecodable(fmt.Errorf("the object cannot be decoded: %w", err)))
	}
	cluster := sent
	if request.Operation != admissionv1.Create {
		if cluster, err = clusterIn(request.OldObject.Raw); err != nil {
			return "", ptr.To(Undecodable(fmt.Errorf("the stored object cannot be decoded: %w", err)))
		}
	}
	switch {
	case cluster == "":
		return "", &Answer{Decision: Denied, Reason: "NoLogicalCluster", Message: "the request does not say in which logical cluster the object is"}
	case sent != "" && sent != cluster:
		return "", &Answer{
			Decision: Denied, Status: metav1.StatusReasonInvalid, Reason: "LogicalClusterChanged", Field: clusterField,
			Message: clusterField + ": field is immutable: kcp writes it when the object is created; leave it as it is, or out of the request",
			Details: func() []any { return []any{"cluster", cluster, "sent", fmt.Sprintf("%.64q", sent)} },
		}
	}
	if err := kcp.ValidateName(cluster); err != nil {
		return "", &Answer{
			Decision: Denied, Status: metav1.StatusReasonInvalid, Reason: "LogicalClusterMalformed", Field: clusterField,
			Message: clusterField + ": " + err.Error(),
		}
	}
	return cluster, nil
}

// clusterIn reads the annotation of an object, "" without an object. It is case-sensitive and rejects repeated fields, so that it
// reads the same value as the API server.
func clusterIn(raw []byte) (logicalcluster.Name, error) {
	if len(raw) == 0 {
		return "", nil
	}
	var object struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &object, jsontext.AllowInvalidUTF8(true)); err != nil {
		return "", errors.New(why(err))
	}
	return logicalcluster.Name(object.Metadata.Annotations[logicalcluster.AnnotationKey]), nil
}
