package clusterapi_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"warrantgate.dev/internal/clusterapi"
)

// recorded sets the record of a cluster.
func recorded(record string) func(map[string]any) {
	return with("metadata.annotations", map[string]any{clusterapi.RecordAnnotation: record, "other": "x"})
}

func TestNamed(t *testing.T) {
	secret := func(namespace, record string) *corev1.Secret {
		s := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "user"}, Data: map[string][]byte{"userEmail": []byte(" Secret@example.com\n")},
		}
		if record != "" {
			s.Annotations = map[string]string{clusterapi.RecordAnnotation: record}
		}
		return s
	}
	away := errors.New("etcd is away")
	for name, tc := range map[string]struct {
		cluster   clusterapi.Cluster // default: metalCluster
		objects   []runtime.Object
		secretErr error
		want      clusterapi.Named
		wantErr   error
	}{
		"no cluster":           {},
		"a cluster of nobody":  {objects: []runtime.Object{cluster(recorded("one"))}, want: clusterapi.Named{Record: "one"}},
		"an email":             {objects: []runtime.Object{cluster(with("spec.userEmail", "A@example.com"), recorded("one"))}, want: clusterapi.Named{User: "A@example.com", Record: "one"}},
		"no record":            {objects: []runtime.Object{cluster(with("spec.userEmail", "a@example.com"))}, want: clusterapi.Named{User: "a@example.com"}},
		"a record of 8 KiB":    {objects: []runtime.Object{cluster(with("spec.userEmail", "a@b"), recorded(strings.Repeat("r", 8<<10)))}, want: clusterapi.Named{User: "a@b", Record: strings.Repeat("r", 8<<10)}},
		"a larger record":      {objects: []runtime.Object{cluster(with("spec.userEmail", "a@b"), recorded(strings.Repeat("r", 8<<10+1)))}, want: clusterapi.Named{User: "a@b"}},
		"a user of wrong type": {objects: []runtime.Object{cluster(with("spec.userEmail", int64(1)), recorded("one"))}},
		"an email and a Secret": {
			objects: []runtime.Object{cluster(with("spec.userEmail", "a@b"), with("spec.userRef.name", "user"), recorded("one")), secret(namespace, "two")},
			want:    clusterapi.Named{User: "a@b", Record: "one"},
		},
		"a Secret": {
			objects: []runtime.Object{cluster(with("spec.userRef.name", "user"), recorded("one")), secret(namespace, "two")},
			want:    clusterapi.Named{User: " Secret@example.com\n", Secret: types.NamespacedName{Namespace: namespace, Name: "user"}, Record: "one", SecretRecord: "two"},
		},
		"a Secret of another namespace, and only one record": {
			objects: []runtime.Object{cluster(with("spec.userRef", map[string]any{"name": "user", "namespace": "shared"})), secret("shared", "two")},
			want:    clusterapi.Named{User: " Secret@example.com\n", Secret: types.NamespacedName{Namespace: "shared", Name: "user"}, SecretRecord: "two"},
		},
		"a Secret that does not exist": {objects: []runtime.Object{cluster(with("spec.userRef.name", "user"), recorded("one"))}},
		"no name of a Secret":          {objects: []runtime.Object{cluster(with("spec.userRef.name", "../x"), recorded("one"))}, want: clusterapi.Named{Record: "one"}},
		"a Secret that cannot be read": {
			objects: []runtime.Object{cluster(with("spec.userRef.name", "user"))}, secretErr: away, wantErr: away,
		},
		"a cluster of another provider": {
			cluster: clusterapi.Cluster{Provider: "openstack", Namespace: namespace, Name: "metal"},
			objects: []runtime.Object{cluster(with("spec.userEmail", "a@b"))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newServer(t, false, tc.objects...)
			if tc.secretErr != nil {
				server.core.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.secretErr })
			}
			if tc.cluster == (clusterapi.Cluster{}) {
				tc.cluster = metalCluster
			}
			got, err := server.objects.Named(t.Context(), tc.cluster)
			if !errors.Is(err, tc.wantErr) {
				t.Errorf("error = %v, want %v", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Named() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNamedByUnreadableCluster checks that an outage is not a cluster without a user, which would hide a finding.
func TestNamedByUnreadableCluster(t *testing.T) {
	away := errors.New("etcd is away")
	server := newServer(t, false)
	server.machines.PrependReactor("get", "cloudsigmaclusters", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, away })
	if got, err := server.objects.Named(t.Context(), metalCluster); !errors.Is(err, away) {
		t.Errorf("Named() = %+v, %v", got, err)
	}
}
