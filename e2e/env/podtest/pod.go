// Package podtest runs the containers of the chart's pods as processes of this machine, with exactly their arguments and with the
// files that a kubelet mounts. Only the folder and the ports differ, because several processes share this machine.
package podtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mounted is the folder of all files of the chart's pods.
const mounted = "/etc/warrantgate/"

// Args returns the arguments of a container for a process whose files are below dir. addresses are the addresses of the process, by
// those of the container.
func Args(container corev1.Container, dir string, addresses map[string]string) []string {
	args := make([]string, 0, len(container.Args))
	for _, arg := range container.Args {
		arg = strings.Replace(arg, mounted, dir+"/", 1)
		for address, own := range addresses {
			if name, found := strings.CutSuffix(arg, "="+address); found {
				arg = name + "=" + own
			}
		}
		args = append(args, arg)
	}
	return args
}

// Mount writes below dir the files that a kubelet mounts for the only container of a pod in a namespace. It reads ConfigMaps and Secrets
// and requests tokens with the client. It returns an error if an object is missing or if the kind of volume is unknown. With names of
// volumes, it writes only these, as a kubelet does after a change of their Secrets.
func Mount(ctx context.Context, c client.Client, namespace string, pod corev1.PodSpec, dir string, only ...string) error {
	volumes := map[string]corev1.Volume{}
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = volume
	}
	reader := source{client: c, namespace: namespace, account: pod.ServiceAccountName}
	for _, mount := range pod.Containers[0].VolumeMounts {
		if len(only) > 0 && !slices.Contains(only, mount.Name) {
			continue
		}
		files, err := reader.volume(ctx, volumes[mount.Name])
		if err != nil {
			return fmt.Errorf("volume %q: %w", mount.Name, err)
		}
		folder := filepath.Join(dir, strings.TrimPrefix(mount.MountPath, mounted))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// source reads the files of the volumes of a pod.
type source struct {
	client             client.Client
	namespace, account string
}

// volume returns the files of a volume by their names.
func (s source) volume(ctx context.Context, volume corev1.Volume) (map[string][]byte, error) {
	switch {
	case volume.ConfigMap != nil:
		return s.configMap(ctx, volume.ConfigMap.Name, volume.ConfigMap.Items)
	case volume.Secret != nil:
		return s.secret(ctx, volume.Secret.SecretName, volume.Secret.Items)
	case volume.Projected == nil:
		return nil, errors.New("it is neither a ConfigMap, nor a Secret, nor a projected volume")
	}
	all := map[string][]byte{}
	for _, part := range volume.Projected.Sources {
		files, err := s.projected(ctx, part)
		if err != nil {
			return nil, err
		}
		for name, content := range files {
			all[name] = content
		}
	}
	return all, nil
}

func (s source) projected(ctx context.Context, part corev1.VolumeProjection) (map[string][]byte, error) {
	switch {
	case part.ConfigMap != nil:
		return s.configMap(ctx, part.ConfigMap.Name, part.ConfigMap.Items)
	case part.Secret != nil:
		return s.secret(ctx, part.Secret.Name, part.Secret.Items)
	case part.ServiceAccountToken != nil:
		token, err := s.token(ctx, part.ServiceAccountToken.ExpirationSeconds)
		return map[string][]byte{part.ServiceAccountToken.Path: []byte(token)}, err
	}
	return nil, errors.New("it has a part that is neither a ConfigMap nor a Secret nor a token")
}

func (s source) configMap(ctx context.Context, name string, items []corev1.KeyToPath) (map[string][]byte, error) {
	object := &corev1.ConfigMap{}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, object); err != nil {
		return nil, err
	}
	content := object.BinaryData
	if content == nil {
		content = map[string][]byte{}
	}
	for key, text := range object.Data {
		content[key] = []byte(text)
	}
	return picked("ConfigMap "+name, content, items)
}

func (s source) secret(ctx context.Context, name string, items []corev1.KeyToPath) (map[string][]byte, error) {
	object := &corev1.Secret{}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, object); err != nil {
		return nil, err
	}
	return picked("Secret "+name, object.Data, items)
}

// picked returns the named items of an object, or all if there are no names.
func picked(object string, content map[string][]byte, items []corev1.KeyToPath) (map[string][]byte, error) {
	if len(items) == 0 {
		return content, nil
	}
	files := map[string][]byte{}
	for _, item := range items {
		value, found := content[item.Key]
		if !found {
			return nil, fmt.Errorf("%s has no key %q", object, item.Key)
		}
		files[item.Path] = value
	}
	return files, nil
}

// token requests a token of the pod's service account.
func (s source) token(ctx context.Context, seconds *int64) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.account}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: seconds}}
	if err := s.client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("token of service account %q: %w", s.account, err)
	}
	return request.Status.Token, nil
}
