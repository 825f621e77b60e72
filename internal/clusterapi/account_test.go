package clusterapi_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
)

// secret returns the Secret bob with a user.
func secret(namespace, email string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bob"}, Data: map[string][]byte{"userEmail": []byte(email)},
	}
}

// account returns the account of a user in the region of cluster.
func account(user string) ownership.Account {
	return ownership.Account{Cloud: "cloudsigma", User: user, Region: "next"}
}

func TestAccount(t *testing.T) {
	userRef := func(fields ...string) func(map[string]any) {
		ref := map[string]any{}
		for field := range slices.Chunk(fields, 2) {
			ref[field[0]] = field[1]
		}
		return with("spec.userRef", ref)
	}
	bobs := secret(namespace, "bob@example.com")

	for name, tc := range map[string]struct {
		cluster *unstructured.Unstructured // nil: does not exist
		secret  *corev1.Secret
		// shared and byAll are Options.SharedAccount and Options.SharedByAll.
		shared, byAll bool
		want          ownership.Account
		wantErr       *clusterapi.AccountError
	}{
		"a user in the cluster": {
			cluster: cluster(with("spec.userEmail", "tenant@example.com")), want: account("tenant@example.com"),
		},
		"an email with capital letters": {
			cluster: cluster(with("spec.userEmail", "Tenant@Example.COM")), want: account("tenant@example.com"),
		},
		"a user in a Secret": {
			cluster: cluster(userRef("name", "bob")), secret: bobs, want: account("bob@example.com"),
		},
		"a user in a Secret, with capital letters": {
			cluster: cluster(userRef("name", "bob")), secret: secret(namespace, "Bob@example.com"), want: account("bob@example.com"),
		},
		"a user in a Secret of another namespace": {
			cluster: cluster(userRef("name", "bob", "namespace", "team-b")), secret: secret("team-b", "bob@example.com"),
			want: ownership.Account{
				Cloud: "cloudsigma", User: "bob@example.com", UserSecret: types.NamespacedName{Namespace: "team-b", Name: "bob"}, Region: "next",
			},
		},
		"a user in a Secret of another namespace, and another in the cluster": {
			cluster: cluster(with("spec.userEmail", "tenant@example.com"), userRef("name", "bob", "namespace", "team-b")),
			secret:  secret("team-b", "bob@example.com"), want: account("tenant@example.com"),
		},
		"a user in a Secret of the same namespace, by its name": {
			cluster: cluster(userRef("name", "bob", "namespace", namespace)), secret: bobs, want: account("bob@example.com"),
		},
		"a user in the cluster and another in the Secret": {
			cluster: cluster(with("spec.userEmail", "tenant@example.com"), userRef("name", "bob")), secret: bobs, want: account("tenant@example.com"),
		},
		"a null user": {
			cluster: cluster(with("spec.userEmail", nil), userRef("name", "bob")), secret: bobs, want: account("bob@example.com"),
		},
		"shared account, no user": {cluster: cluster(), shared: true, want: account("")},
		"shared account, and a user": {
			cluster: cluster(with("spec.userEmail", "tenant@example.com")), shared: true, want: account("tenant@example.com"),
		},
		"shared account, and a missing Secret": {cluster: cluster(userRef("name", "bob")), shared: true, want: account("")},
		"shared account, and an empty Secret": {
			cluster: cluster(userRef("name", "bob")), secret: &corev1.Secret{ObjectMeta: bobs.ObjectMeta}, shared: true, want: account(""),
		},
		"shared account, and a missing Secret of another namespace": {
			cluster: cluster(userRef("name", "bob", "namespace", "team-b")), shared: true,
			want: ownership.Account{Cloud: "cloudsigma", UserSecret: types.NamespacedName{Namespace: "team-b", Name: "bob"}, Region: "next"},
		},
		"shared account, no cluster": {shared: true, want: ownership.Account{Cloud: "cloudsigma", Region: "zrh"}},
		"shared account of all clusters, and a user": {
			cluster: cluster(with("spec.userEmail", "tenant@example.com")), shared: true, byAll: true, want: account(""),
		},
		"shared account of all clusters, and a user in a Secret": {
			cluster: cluster(userRef("name", "bob", "namespace", "team-b")), secret: secret("team-b", "bob@example.com"),
			shared: true, byAll: true, want: account(""),
		},
		"shared account of all clusters, and a missing Secret": {
			cluster: cluster(userRef("name", "bob")), shared: true, byAll: true, want: account(""),
		},
		"shared account of all clusters, no cluster": {shared: true, byAll: true, want: ownership.Account{Cloud: "cloudsigma", Region: "zrh"}},
		"shared account of all clusters, and an odd region": {
			cluster: cluster(with("spec.region", int64(1))), shared: true, byAll: true,
			wantErr: &clusterapi.AccountError{Reason: "ClusterUnreadable", Message: `CloudSigmaCluster "metal": spec.region is int64 where a string belongs`},
		},
		"no cluster": {wantErr: &clusterapi.AccountError{
			Reason: "ClusterMissing", Message: `there is no CloudSigmaCluster "metal" in namespace "team-a"`,
		}},
		"no user": {cluster: cluster(), wantErr: &clusterapi.AccountError{
			Reason: "UserMissing", Message: `CloudSigmaCluster "metal": it names no user: neither spec.userEmail nor spec.userRef is set`,
		}},
		"a reference without a name": {cluster: cluster(userRef("namespace", "team-b")), wantErr: &clusterapi.AccountError{
			Reason: "UserMissing", Message: `CloudSigmaCluster "metal": it names no user: neither spec.userEmail nor spec.userRef is set`,
		}},
		"no Secret": {cluster: cluster(userRef("name", "bob")), wantErr: &clusterapi.AccountError{
			Reason: "UserSecretMissing", Message: `CloudSigmaCluster "metal": spec.userRef: there is no Secret "bob" in namespace "team-a"`,
		}},
		"the Secret is in another namespace": {
			cluster: cluster(userRef("name", "bob")), secret: secret("team-b", "bob@example.com"),
			wantErr: &clusterapi.AccountError{
				Reason: "UserSecretMissing", Message: `CloudSigmaCluster "metal": spec.userRef: there is no Secret "bob" in namespace "team-a"`,
			},
		},
		"the Secret is empty": {
			cluster: cluster(userRef("name", "bob")), secret: &corev1.Secret{ObjectMeta: bobs.ObjectMeta},
			wantErr: &clusterapi.AccountError{
				Reason: "UserMissing", Message: `CloudSigmaCluster "metal": spec.userRef: Secret "bob" in namespace "team-a" has nothing under the key userEmail`,
			},
		},
		"blanks around the email": {
			cluster: cluster(with("spec.userEmail", " tenant@example.com"), userRef("name", "bob")), secret: bobs, shared: true,
			wantErr: &clusterapi.AccountError{Reason: "UserMalformed", Message: `CloudSigmaCluster "metal": spec.userEmail: ` + clusterapi.BlanksAroundEmail},
		},
		"many blanks around the email": {
			cluster: cluster(with("spec.userEmail", strings.Repeat("\n", 2000)+"tenant@example.com")),
			wantErr: &clusterapi.AccountError{Reason: "UserMalformed", Message: `CloudSigmaCluster "metal": spec.userEmail: ` + clusterapi.BlanksAroundEmail},
		},
		"an email of blanks": {
			cluster: cluster(with("spec.userEmail", " "), userRef("name", "bob")), secret: bobs,
			wantErr: &clusterapi.AccountError{Reason: "UserMalformed", Message: `CloudSigmaCluster "metal": spec.userEmail: ` + clusterapi.BlanksAroundEmail},
		},
		"a line break after the email in the Secret": {
			cluster: cluster(userRef("name", "bob")), secret: secret(namespace, "bob@example.com\n"),
			wantErr: &clusterapi.AccountError{
				Reason: "UserMalformed", Message: `CloudSigmaCluster "metal": spec.userRef: key userEmail of Secret "bob" in namespace "team-a": ` + clusterapi.BlanksAroundEmail,
			},
		},
		"blanks around the name of the Secret": {
			cluster: cluster(userRef("name", " bob")), secret: bobs,
			wantErr: &clusterapi.AccountError{
				Reason: "UserSecretMissing", Message: `CloudSigmaCluster "metal": spec.userRef: there is no Secret " bob" in namespace "team-a"`,
			},
		},
		"no region": {
			cluster: cluster(with("spec.userEmail", "tenant@example.com"), with("spec.region", nil)),
			want:    ownership.Account{Cloud: "cloudsigma", User: "tenant@example.com", Region: "zrh"},
		},
		"a region with a space": {
			cluster: cluster(with("spec.userEmail", "tenant@example.com"), with("spec.region", "next ")),
			wantErr: &clusterapi.AccountError{Reason: "RegionNotAllowed", Message: `CloudSigmaCluster "metal": spec.region: region "next " is none of those configured (next, zrh)`},
		},
		"another host as the region": {
			cluster: cluster(with("spec.userEmail", "tenant@example.com"), with("spec.region", "@127.0.0.1:8443/#")), shared: true,
			wantErr: &clusterapi.AccountError{
				Reason: "RegionNotAllowed", Message: `CloudSigmaCluster "metal": spec.region: region "@127.0.0.1:8443/#" is none of those configured (next, zrh)`,
			},
		},
		"a region that is a number": {
			cluster: cluster(with("spec.userEmail", "tenant@example.com"), with("spec.region", int64(1))),
			wantErr: &clusterapi.AccountError{Reason: "ClusterUnreadable", Message: `CloudSigmaCluster "metal": spec.region is int64 where a string belongs`},
		},
		"a user that is a list": {
			cluster: cluster(with("spec.userEmail", []any{"tenant@example.com"})),
			wantErr: &clusterapi.AccountError{Reason: "ClusterUnreadable", Message: `CloudSigmaCluster "metal": spec.userEmail is []interface {} where a string belongs`},
		},
		"a reference that is a string": {
			cluster: cluster(with("spec.userRef", "bob")),
			wantErr: &clusterapi.AccountError{Reason: "ClusterUnreadable",
				Message: `CloudSigmaCluster "metal": spec.userRef.name cannot be read: the field above it is not an object`},
		},
		"two fields of the wrong type: always the same error": {
			cluster: cluster(with("spec.userRef", map[string]any{"name": int64(1), "namespace": int64(2)})),
			wantErr: &clusterapi.AccountError{Reason: "ClusterUnreadable",
				Message: `CloudSigmaCluster "metal": spec.userRef.name is int64 where a string belongs`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []runtime.Object
			if tc.cluster != nil {
				objects = append(objects, tc.cluster)
			}
			if tc.secret != nil {
				objects = append(objects, tc.secret)
			}
			server := newServerWith(t, clusterapi.Options{
				SharedAccount: tc.shared, SharedByAll: tc.byAll, DefaultRegion: "zrh", Regions: []string{"next", "zrh"},
			}, objects...)
			server.compareAccount(t, metalCluster, tc.want, tc.wantErr)
		})
	}
}

// compareAccount compares the account of a cluster, or the error.
func (s *fakeServer) compareAccount(t *testing.T, of clusterapi.Cluster, want ownership.Account, wantErr *clusterapi.AccountError) {
	t.Helper()
	got, err := s.objects.Account(t.Context(), of)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("account (-want +got):\n%s", diff)
	}
	rejected, _ := err.(*clusterapi.AccountError) //nolint:errorlint // the promise is that it is one
	if diff := cmp.Diff(wantErr, rejected); diff != "" || err != nil && rejected == nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
}

// The credentials of OpenStack belong to each cluster.
func TestOpenStackSharesNoAccount(t *testing.T) {
	server := newServerWith(t, clusterapi.Options{SharedAccount: true, SharedByAll: true, DefaultRegion: "zrh"})
	cluster := clusterapi.Cluster{Provider: "openstack", Namespace: namespace, Name: "metal"}
	got, err := server.objects.Account(t.Context(), cluster)
	if rejected, ok := errors.AsType[*clusterapi.AccountError](err); !ok || rejected.Reason != clusterapi.ClusterMissing {
		t.Errorf("Account() = %v, %v, want %s", got, err, clusterapi.ClusterMissing)
	}
}

func TestReadErrorsAreNotAccountErrors(t *testing.T) {
	reject := func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("etcd is away") }
	for name, tc := range map[string]struct {
		breakIt func(server *fakeServer)
		want    string
	}{
		"the cluster": {
			breakIt: func(server *fakeServer) { server.machines.PrependReactor("get", "cloudsigmaclusters", reject) },
			want:    `read CloudSigmaCluster "metal": etcd is away`,
		},
		"the Secret": {
			breakIt: func(server *fakeServer) { server.core.PrependReactor("get", "secrets", reject) },
			want:    `CloudSigmaCluster "metal": read the Secret of spec.userRef: etcd is away`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newServer(t, true, cluster(with("spec.userRef", map[string]any{"name": "bob"})), secret(namespace, "bob@example.com"))
			tc.breakIt(server)
			got, err := server.objects.Account(t.Context(), metalCluster)
			if message := text(err); message != tc.want {
				t.Errorf("error = %q, want %q", message, tc.want)
			}
			var rejected *clusterapi.AccountError
			if errors.As(err, &rejected) {
				t.Errorf("the error is an AccountError, which would blame the objects: %v", rejected)
			}
			if diff := cmp.Diff(ownership.Account{}, got); diff != "" {
				t.Errorf("account (-want +got):\n%s", diff)
			}
		})
	}
}

// client-go sends no request for a name that is not a segment of a path, and a request for a long name fails. The error must not look like an
// outage: the audit would check no cluster of any tenant.
func TestNamesThatNoObjectCanHaveAreMissing(t *testing.T) {
	reject := func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, fmt.Errorf("invalid resource name: %v", action)
	}
	server := newServer(t, false)
	server.core.PrependReactor("get", "secrets", reject)
	server.machines.PrependReactor("get", "machines", reject)
	server.machines.PrependReactor("get", "openstackclusters", reject)
	for _, name := range []string{"../x", "a/b", "..", "%2f", strings.Repeat("x", 254)} {
		for _, ref := range []clusterapi.UserRef{{SecretNamespace: namespace, SecretName: name}, {SecretNamespace: name, SecretName: "bob"}} {
			_, err := server.objects.User(t.Context(), ref)
			if rejected, ok := errors.AsType[*clusterapi.AccountError](err); !ok || rejected.Reason != clusterapi.UserSecretMissing {
				t.Errorf("User(%+v) = %v, want %s", ref, err, clusterapi.UserSecretMissing)
			}
		}
		_, err := server.objects.Owner(t.Context(), clusterapi.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, OwnerReferences: []metav1.OwnerReference{machineRef(name)},
		}})
		if rejected, ok := errors.AsType[*clusterapi.AccountError](err); !ok || rejected.Reason != clusterapi.OwnerMachineMissing {
			t.Errorf("Owner() of a machine of %q = %v, want %s", name, err, clusterapi.OwnerMachineMissing)
		}
		_, err = server.objects.AccountBy(t.Context(), metalOnOpenStack, name)
		if rejected, ok := errors.AsType[*clusterapi.AccountError](err); !ok || rejected.Reason != clusterapi.ClusterMissing {
			t.Errorf("AccountBy(%q) = %v, want %s", name, err, clusterapi.ClusterMissing)
		}
	}
}

// Only a part of a long text is kept. It must not be another valid value.
func TestAccountWithBlanksInALongText(t *testing.T) {
	long := func(value string) string { return value + strings.Repeat(" ", 2000) + "x" }
	far := metalCluster
	far.Name = "far"
	server := newServer(t, false, cluster(with("spec.userEmail", long("bob@example.com"))),
		cluster(with("metadata.name", far.Name), with("spec.userEmail", "bob@example.com"), with("spec.region", long("next"))))
	if got, err := server.objects.Account(t.Context(), metalCluster); err != nil || got.User == "bob@example.com" {
		t.Errorf("account %+v, %v, and that is not the user", got, err)
	}
	_, err := server.objects.Account(t.Context(), far)
	if rejected, ok := errors.AsType[*clusterapi.AccountError](err); !ok || rejected.Reason != clusterapi.RegionNotAllowed {
		t.Errorf("error %v, want %s", err, clusterapi.RegionNotAllowed)
	}
}

func TestReadUserRef(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster *unstructured.Unstructured
		want    clusterapi.UserRef
	}{
		"no fields": {cluster: cluster(), want: clusterapi.UserRef{SecretNamespace: namespace}},
		"all fields": {
			cluster: cluster(with("spec.userEmail", " Tenant@example.com "), with("spec.userRef", map[string]any{"name": " bob", "namespace": "team-b "})),
			want:    clusterapi.UserRef{Email: " Tenant@example.com ", SecretNamespace: "team-b ", SecretName: " bob"},
		},
		"the namespace is empty": {
			cluster: cluster(with("spec.userRef", map[string]any{"name": "bob", "namespace": ""})),
			want:    clusterapi.UserRef{SecretNamespace: namespace, SecretName: "bob"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := clusterapi.ReadUserRef(tc.cluster)
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("ReadUserRef() error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestUserDependents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ref := func(fields map[string]any) func(map[string]any) { return with("spec.userRef", fields) }
		named := func(name string, modify ...func(map[string]any)) *unstructured.Unstructured {
			return cluster(append(modify, with("metadata.name", name))...)
		}
		server := newServer(t, false,
			named("second", ref(map[string]any{"name": "bob"})),
			named("first", ref(map[string]any{"name": "bob"})),
			named("elsewhere", ref(map[string]any{"name": "bob", "namespace": namespace}), inNamespace("team-b")),
			named("own-email", ref(map[string]any{"name": "bob"}), with("spec.userEmail", "tenant@example.com")),
			named("other-secret", ref(map[string]any{"name": "carol"})),
			named("same-name-elsewhere", ref(map[string]any{"name": "bob"}), inNamespace("team-c")),
			named("odd", with("spec.userRef", "bob")),
			named("none"),
		)
		defer server.start(t.Context(), t)()
		dependents := func(name string) string {
			t.Helper()
			found, err := server.objects.UserDependents(t.Context(), namespace, name, "next@example.com")
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, dependent := range found {
				if diff := cmp.Diff(account("next@example.com"), dependent.Account); diff != "" {
					t.Errorf("account (-want +got):\n%s", diff)
				}
				names = append(names, dependent.Cluster.Namespace+"/"+dependent.Cluster.Name)
			}
			return strings.Join(names, " ")
		}
		if got, want := dependents("bob"), "team-a/first team-a/second team-b/elsewhere"; got != want {
			t.Errorf("UserDependents() = %q, want %s", got, want)
		}
		if got := dependents("nobodys"); got != "" {
			t.Errorf("UserDependents() = %q, want none", got)
		}
	})
}

// TestClustersThatNameAnEmailBlockNoSecret: only authors that may read a Secret can refer to it as the user of a cluster. With an email in the
// cluster, anyone can refer to it, and such clusters do not count.
func TestClustersThatNameAnEmailBlockNoSecret(t *testing.T) {
	const tooMany = 101
	for name, tc := range map[string]struct {
		modify func(map[string]any)
		want   error
	}{
		"with an email":    {modify: with("spec.userEmail", "mallory@example.com")},
		"without an email": {modify: func(map[string]any) {}, want: clusterapi.ErrTooManyDependents},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var clusters []runtime.Object
				for i := range tooMany {
					clusters = append(clusters, cluster(with("spec.userRef", map[string]any{"name": "bob", "namespace": namespace}), tc.modify,
						with("metadata.name", fmt.Sprintf("c%d", i)), inNamespace("mallory")))
				}
				server := newServer(t, false, clusters...)
				defer server.start(t.Context(), t)()
				if _, err := server.objects.UserDependents(t.Context(), namespace, "bob", "next@example.com"); !errors.Is(err, tc.want) {
					t.Errorf("UserDependents() = %v, want %v", err, tc.want)
				}
			})
		})
	}
}
