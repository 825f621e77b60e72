package clusterapi

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SecretKeysNow returns the keys with a value in the current Secret. found is false if the Secret does not exist.
func (o *Objects) SecretKeysNow(ctx context.Context, namespace, name string) (keys []string, found bool, err error) {
	secret, err := o.secrets.Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	for key, value := range secret.Data {
		if len(value) > 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, true, nil
}
