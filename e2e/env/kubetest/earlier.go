package kubetest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/process"
)

// StoreSecret stores a Secret without admission, such as one from before the gates were installed, or from a backup of etcd. It
// replaces an existing Secret, and returns when the API server's cache contains the Secret.
func (s *Server) StoreSecret(ctx context.Context, namespace, name string, data map[string][]byte) error {
	secret := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: uuid.NewUUID(), CreationTimestamp: metav1.Now(),
		},
		Data: data, Type: corev1.SecretTypeOpaque,
	}
	value, err := json.Marshal(secret)
	if err != nil {
		return err
	}
	// The gateway of etcd reads keys and values in base64, as JSON encodes bytes.
	body, err := json.Marshal(map[string][]byte{"key": []byte("/registry/secrets/" + namespace + "/" + name), "value": value})
	if err != nil {
		return err
	}
	url := s.environment.ControlPlane.Etcd.URL.JoinPath("/v3/kv/put").String()
	if err := process.Send(ctx, http.DefaultClient, http.MethodPost, url, body); err != nil {
		return fmt.Errorf("store Secret %s/%s in etcd: %w", namespace, name, err)
	}
	return wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		stored := &corev1.Secret{}
		err := s.direct.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, stored)
		return err == nil && stored.UID == secret.UID && equality.Semantic.DeepEqual(stored.Data, data), client.IgnoreNotFound(err)
	})
}
