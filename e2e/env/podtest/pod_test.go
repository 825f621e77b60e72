package podtest_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"warrantgate.dev/e2e/env/podtest"
)

const namespace = "system"

// newClient is a client of a server with a ConfigMap, a Secret, and tokens for all.
func newClient(objects ...client.Object) client.Client {
	objects = append(objects,
		&corev1.ConfigMap{
			ObjectMeta: named("files"), Data: map[string]string{"config.yaml": "kind: A", "ca.crt": "authority"}, BinaryData: map[string][]byte{"raw": {1}},
		},
		&corev1.Secret{ObjectMeta: named("admin"), Data: map[string][]byte{"kubeconfig": []byte("who"), "other": []byte("secret")}})
	return fake.NewClientBuilder().WithObjects(objects...).WithStatusSubresource(&corev1.Pod{}, &batchv1.Job{}).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, object, sub client.Object, _ ...client.SubResourceCreateOption) error {
			request := sub.(*authenticationv1.TokenRequest) //nolint:errcheck,forcetypeassert // it is the only subresource here
			request.Status.Token = "token of " + object.GetName()
			return nil
		},
	}).Build()
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }

// newPod is a pod whose volumes are mounted at their names.
func newPod(volumes ...corev1.Volume) corev1.PodSpec {
	pod := corev1.PodSpec{ServiceAccountName: "gate", Volumes: volumes, Containers: []corev1.Container{{}}}
	for _, volume := range volumes {
		pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: volume.Name, MountPath: "/etc/warrantgate/" + volume.Name})
	}
	return pod
}

func configMap(name string, items ...corev1.KeyToPath) *corev1.ConfigMapVolumeSource {
	return &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Items: items}
}

func TestArgs(t *testing.T) {
	container := corev1.Container{Args: []string{"serve", "--config=/etc/warrantgate/config/config.yaml", "--webhook-address=:9443", "--log-level=info"}}
	want := []string{"serve", "--config=/tmp/x/config/config.yaml", "--webhook-address=127.0.0.1:1", "--log-level=info"}
	if diff := cmp.Diff(want, podtest.Args(container, "/tmp/x", map[string]string{":9443": "127.0.0.1:1"})); diff != "" {
		t.Errorf("Args() (-want +got):\n%s", diff)
	}
}

func TestMount(t *testing.T) {
	item := corev1.KeyToPath{Key: "kubeconfig", Path: "config"}
	pod := newPod(
		corev1.Volume{Name: "all", VolumeSource: corev1.VolumeSource{ConfigMap: configMap("files")}},
		corev1.Volume{Name: "admin", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "admin", Items: []corev1.KeyToPath{item}}}},
		corev1.Volume{Name: "parts", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "files"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "admin"}, Items: []corev1.KeyToPath{item}}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](600)}},
		}}}},
	)
	dir := t.TempDir()
	if err := podtest.Mount(t.Context(), newClient(), namespace, pod, dir); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"all/config.yaml": "kind: A", "all/ca.crt": "authority", "all/raw": "\x01", "admin/config": "who",
		"parts/ca.crt": "authority", "parts/config": "who", "parts/token": "token of gate",
	}
	if diff := cmp.Diff(want, files(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	other := t.TempDir()
	if err := podtest.Mount(t.Context(), newClient(), namespace, pod, other, "admin"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"admin/config": "who"}, files(t, other)); diff != "" {
		t.Errorf("files of one volume (-want +got):\n%s", diff)
	}
}

// files returns the files below a folder and their content.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	within := os.DirFS(dir)
	err := fs.WalkDir(within, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(within, path)
		found[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestMountReportsWhatIsMissing(t *testing.T) {
	for name, tc := range map[string]struct {
		source corev1.VolumeSource
		want   string
	}{
		"a ConfigMap": {corev1.VolumeSource{ConfigMap: configMap("none")}, `configmaps "none" not found`},
		"a Secret":    {corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "none"}}, `secrets "none" not found`},
		"a key":       {corev1.VolumeSource{ConfigMap: configMap("files", corev1.KeyToPath{Key: "none"})}, `ConfigMap files has no key "none"`},
		"a part": {
			corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{}}}},
			"it has a part that is neither a ConfigMap nor a Secret nor a token",
		},
		"another kind": {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, "it is neither a ConfigMap, nor a Secret, nor a projected volume"},
	} {
		t.Run(name, func(t *testing.T) {
			err := podtest.Mount(t.Context(), newClient(), namespace, newPod(corev1.Volume{Name: "x", VolumeSource: tc.source}), t.TempDir())
			if err == nil || !strings.Contains(err.Error(), `volume "x": `+tc.want) {
				t.Errorf("Mount() error = %v, want one with %q", err, tc.want)
			}
		})
	}
}

// TestKubelet runs the shell of this machine instead of warrantgate.
func TestKubelet(t *testing.T) {
	shell := func(script string) corev1.PodSpec {
		return corev1.PodSpec{Containers: []corev1.Container{{Args: []string{"-c", script}}}}
	}
	c := newClient(
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fails", UID: "1"}, Spec: shell("echo no; exit 1")},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "another", UID: "2"}, Spec: shell("echo no")},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "works", UID: "3"}, Spec: shell("echo yes")},
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "job", UID: "4"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: shell("echo done")}}},
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "broken", UID: "5"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: shell("exit 1")}}},
	)
	kubelet := &podtest.Kubelet{Client: c, Namespace: namespace, Binary: "/bin/sh", Dir: t.TempDir()}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- kubelet.Run(ctx) }()
	want := map[string]string{"fails": "Failed: no\n", "works": "Succeeded: yes\n", "another": ": ", "job": "Complete: done\n", "broken": "Failed: "}
	var got map[string]string
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		var err error
		got, err = became(ctx, c, kubelet)
		return cmp.Equal(want, got), err
	})
	if err != nil {
		t.Errorf("%v: results (-want +got):\n%s", err, cmp.Diff(want, got))
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run() = %v", err)
	}
}

// became returns the phase of each Pod, or the last condition of each Job, with its output.
func became(ctx context.Context, c client.Client, kubelet *podtest.Kubelet) (map[string]string, error) {
	pods, jobs := &corev1.PodList{}, &batchv1.JobList{}
	if err := c.List(ctx, pods); err != nil {
		return nil, err
	}
	if err := c.List(ctx, jobs); err != nil {
		return nil, err
	}
	found := map[string]string{}
	for i := range pods.Items {
		found[pods.Items[i].Name] = string(pods.Items[i].Status.Phase) + ": " + kubelet.Output(pods.Items[i].Name)
	}
	for i := range jobs.Items {
		last := ""
		for _, condition := range jobs.Items[i].Status.Conditions {
			last = string(condition.Type)
		}
		found[jobs.Items[i].Name] = last + ": " + kubelet.Output(jobs.Items[i].Name)
	}
	return found, nil
}

func TestKubeletReportsWhatItCannotRun(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: named("pod"), Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}
	kubelet := &podtest.Kubelet{Client: newClient(pod), Namespace: namespace, Binary: filepath.Join(t.TempDir(), "none"), Dir: t.TempDir()}
	if err := kubelet.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "run pod: ") {
		t.Errorf("Run() without a program: error = %v", err)
	}
}
