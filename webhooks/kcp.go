package webhooks

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// perCluster is a gate on objects that a provider exports to the workspaces of a kcp.
type perCluster struct {
	name string
	in   func(cluster logicalcluster.Name) (Gate, error)
}

// PerCluster returns a gate that judges each request as the gate of its logical cluster does. kcp says which that is in an
// annotation of the object, which nobody else can set.
func PerCluster(name string, in func(cluster logicalcluster.Name) (Gate, error)) Gate {
	return &perCluster{name: name, in: in}
}

// Name implements Gate.
func (p *perCluster) Name() string { return p.name }

// Review implements Gate.
func (p *perCluster) Review(ctx context.Context, request admission.Request) Answer {
	// An update need not repeat the annotation.
	cluster := cmp.Or(clusterOf(request.Object.Raw), clusterOf(request.OldObject.Raw))
	if cluster.Empty() {
		return Answer{Decision: Denied, Reason: "NoLogicalCluster", Message: "the request does not say in which logical cluster the object is"}
	}
	gate, err := p.in(cluster)
	if err != nil {
		return Answer{
			Decision: Undecided, Reason: "NoLogicalCluster", Message: "the logical cluster of the object cannot be addressed",
			Details: func() []any { return []any{"cluster", cluster, "error", err.Error()} },
		}
	}
	answer := gate.Review(ctx, request)
	for i := range answer.Events {
		answer.Events[i].Cluster = cluster
	}
	return answer
}

func clusterOf(raw []byte) logicalcluster.Name {
	var object metav1.PartialObjectMetadata
	if json.Unmarshal(raw, &object) != nil {
		return "" // refused as that, or by the gate
	}
	return logicalcluster.From(&object)
}
