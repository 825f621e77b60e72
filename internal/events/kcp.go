package events

import (
	"context"
	"fmt"
	"path"

	"github.com/kcp-dev/logicalcluster/v3"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"warrantgate.dev/internal/kcp"
)

// kcpWriter writes Events into the logical clusters of a kcp.
type kcpWriter struct {
	core          rest.Interface
	authorization rest.Interface
}

// NewKCPWriter returns a Writer for the kcp that config reaches, a shard or the front-proxy. A workspace in the path
// of config's host is left out: each logical cluster is addressed by itself.
func NewKCPWriter(config *rest.Config) (Writer, error) {
	config, err := kcp.BaseConfig(config)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // the recorder writes one Event after the other; client-go's five a second would make it drop Events
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for Events: %w", err)
	}
	authorization, err := authorizationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for access reviews: %w", err)
	}
	return &kcpWriter{core: core.RESTClient(), authorization: authorization.RESTClient()}, nil
}

func (w *kcpWriter) Create(ctx context.Context, cluster logicalcluster.Name, event *corev1.Event) (*corev1.Event, error) {
	written := &corev1.Event{}
	err := w.core.Post().AbsPath(eventsPath(cluster, event)).Body(event).Do(ctx).Into(written)
	return written, err
}

func (w *kcpWriter) Patch(ctx context.Context, cluster logicalcluster.Name, event *corev1.Event, patch []byte) (*corev1.Event, error) {
	written := &corev1.Event{}
	err := w.core.Patch(types.StrategicMergePatchType).AbsPath(eventsPath(cluster, event), event.Name).Body(patch).Do(ctx).Into(written)
	return written, err
}

// Permitted asks about root. The right is given in each shard's system:admin, where it holds for every workspace of
// the shard, and cannot be seen there by whom it is given to.
func (w *kcpWriter) Permitted(ctx context.Context) (bool, string, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: metav1.NamespaceDefault, Verb: "create", Version: "v1", Resource: "events",
		},
	}}
	const remedy = "give it with `warrantgate install kcp --shard-kubeconfig`"
	err := w.authorization.Post().AbsPath(kcp.Root.RequestPath(), "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").
		Body(review).Do(ctx).Into(review)
	switch {
	case apierrors.IsForbidden(err):
		return false, "no access to workspaces; " + remedy, nil
	case err != nil:
		return false, "", fmt.Errorf("ask whether Events may be written: %w", err)
	case !review.Status.Allowed:
		return false, "no right to create events; " + remedy, nil
	}
	return true, "", nil
}

func eventsPath(cluster logicalcluster.Name, event *corev1.Event) string {
	return path.Join(cluster.Path().RequestPath(), "/api/v1/namespaces", event.Namespace, "events")
}
