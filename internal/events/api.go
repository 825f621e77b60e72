package events

import (
	"context"
	"fmt"
	"path"

	"github.com/kcp-dev/logicalcluster/v3"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/types"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// apiWriter writes Events with the Kubernetes API. Each logical cluster has its own URL path.
type apiWriter struct {
	core          rest.Interface
	authorization rest.Interface
	// pathOf returns the URL path of a logical cluster.
	pathOf func(logicalcluster.Name) (string, error)
	// askedIn is the URL path for the permission check.
	askedIn string
	// noAccess is the reason if the permission check itself is forbidden. remedy describes how to grant the permission.
	noAccess, remedy string
}

// NewKubernetesWriter returns a Writer for the API server of config. Its Events have no logical cluster.
func NewKubernetesWriter(config *rest.Config) (Writer, error) {
	return newAPIWriter(rest.CopyConfig(config), &apiWriter{
		pathOf:   func(logicalcluster.Name) (string, error) { return "", nil },
		noAccess: "no access to the API server",
		remedy:   "grant it with `warrantgate install kubernetes`",
	})
}

func newAPIWriter(config *rest.Config, w *apiWriter) (Writer, error) {
	config.QPS = -1 // the recorder limits the waiting Events; client-go's limit of five requests per second would fill its queues
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for Events: %w", err)
	}
	authorization, err := authorizationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for access reviews: %w", err)
	}
	w.core, w.authorization = core.RESTClient(), authorization.RESTClient()
	return w, nil
}

func (w *apiWriter) Create(ctx context.Context, cluster logicalcluster.Name, event *corev1.Event) error {
	at, err := w.eventsPath(cluster, event)
	if err != nil {
		return err
	}
	return w.core.Post().AbsPath(at).Body(event).Do(ctx).Error()
}

func (w *apiWriter) Patch(ctx context.Context, cluster logicalcluster.Name, event *corev1.Event, patch []byte) error {
	at, err := w.eventsPath(cluster, event)
	if err != nil {
		return err
	}
	return w.core.Patch(types.StrategicMergePatchType).AbsPath(at, event.Name).Body(patch).Do(ctx).Error()
}

// Permitted checks the permission in all namespaces, because Events are in the namespaces of their objects.
func (w *apiWriter) Permitted(ctx context.Context) (bool, string, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Version: "v1", Resource: "events"},
	}}
	err := w.authorization.Post().AbsPath(w.askedIn, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").
		Body(review).Do(ctx).Into(review)
	switch {
	case apierrors.IsForbidden(err):
		return false, w.noAccess + "; " + w.remedy, nil
	case err != nil:
		return false, "", fmt.Errorf("check the permission to create Events: %w", err)
	case !review.Status.Allowed:
		return false, "no permission to create events; " + w.remedy, nil
	}
	return true, "", nil
}

// eventsPath returns the URL path of the Events of a namespace. Cluster, namespace and name come from a request. They are
// validated, so that none changes the rest of the path.
func (w *apiWriter) eventsPath(cluster logicalcluster.Name, event *corev1.Event) (string, error) {
	at, err := w.pathOf(cluster)
	if err != nil {
		return "", err
	}
	for _, segment := range []string{event.Namespace, event.Name} {
		if why := content.IsPathSegmentName(segment); len(why) > 0 || segment == "" {
			return "", fmt.Errorf("%.64q cannot be part of the URL of an Event", segment)
		}
	}
	return path.Join(at, "/api/v1/namespaces", event.Namespace, "events"), nil
}
