package machines

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/clitest"
	"warrantgate.dev/cmd/warrantgate/internal/clouds"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/preflight"
)

const (
	own     = "7a7c5f0e-2f4b-4c0a-9a3e-1d2b3c4d5e6f"
	spare   = "8b8d6a1f-3a5c-4d1b-8b4f-2e3c4d5e6f70"
	foreign = "9c9e7b20-4b6d-4e2c-9c50-3f4d5e6f7081"
	userID  = "0d0f8c31-5c7e-4f3d-8d61-405e6f708192"

	infrastructure = "/apis/infrastructure.cluster.x-k8s.io/v1beta1"
	inTenant       = infrastructure + "/namespaces/tenant"
)

// fakeAPI is an API server with objects, by their paths. It answers 403 to requests for the forbidden paths.
type fakeAPI struct {
	objects   map[string]map[string]any
	forbidden []string
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	answer := func(code int, body any) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(body)
	}
	for _, path := range f.forbidden {
		if path == r.URL.Path {
			forbidden := clitest.Forbidden(fmt.Sprintf("User %q cannot read %s", "alice", path))
			forbidden.Kind, forbidden.APIVersion = "Status", "v1"
			answer(http.StatusForbidden, forbidden)
			return
		}
	}
	switch r.URL.Path {
	case "/apis/infrastructure.cluster.x-k8s.io":
		answer(http.StatusOK, clitest.Group("infrastructure.cluster.x-k8s.io", "v1beta1"))
		return
	case infrastructure:
		answer(http.StatusOK, clitest.Resources("infrastructure.cluster.x-k8s.io/v1beta1", "cloudsigmamachines", "CloudSigmaMachine",
			"cloudsigmaclusters", "CloudSigmaCluster", "metalmachines", "MetalMachine", "openstackmachines", "OpenStackMachine", "awsmachines", "AWSMachine"))
		return
	case "/apis/cluster.x-k8s.io":
		answer(http.StatusOK, clitest.Group("cluster.x-k8s.io", "v1beta2"))
		return
	case "/apis/cluster.x-k8s.io/v1beta2":
		answer(http.StatusOK, clitest.Resources("cluster.x-k8s.io/v1beta2", "machines", "Machine"))
		return
	}
	if object, found := f.objects[r.URL.Path]; found {
		answer(http.StatusOK, object)
		return
	}
	collection := r.URL.Path[strings.LastIndex(r.URL.Path, "/"):]
	if !strings.HasSuffix(collection, "machines") {
		answer(http.StatusNotFound, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404})
		return
	}
	items := []any{}
	for path, object := range f.objects {
		if within := strings.TrimSuffix(r.URL.Path, collection); strings.HasPrefix(path, within+"/") && strings.Contains(path, collection+"/") {
			items = append(items, object)
		}
	}
	answer(http.StatusOK, map[string]any{"kind": "List", "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "items": items})
}

// add adds an object, with changes.
func (f *fakeAPI) add(kind, resource, namespace, name string, fields map[string]any) *fakeAPI {
	if f.objects == nil {
		f.objects = map[string]map[string]any{}
	}
	object := map[string]any{
		"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": kind,
		"metadata": map[string]any{"namespace": namespace, "name": name, "uid": "uid-of-" + kind + "-" + namespace + "-" + name,
			"labels": map[string]any{clusterapi.ClusterNameLabel: "metal"}},
	}
	for field, value := range fields {
		if field == "metadata" {
			for key, changed := range value.(map[string]any) { //nolint:errcheck,forcetypeassert // the tests below write it
				object["metadata"].(map[string]any)[key] = changed //nolint:errcheck,forcetypeassert // written above
			}
			continue
		}
		object[field] = value
	}
	f.objects[fmt.Sprintf("%s/namespaces/%s/%s/%s", infrastructure, namespace, resource, name)] = object
	return f
}

// machine adds a CloudSigmaMachine of cluster metal that names an instance, in status.instanceID and, if it is not "", spec.providerID.
func (f *fakeAPI) machine(namespace, name, id, provider string) *fakeAPI {
	fields := map[string]any{"status": map[string]any{"instanceID": id}}
	if provider != "" {
		fields["spec"] = map[string]any{"providerID": "cloudsigma://" + provider}
	}
	return f.add("CloudSigmaMachine", "cloudsigmamachines", namespace, name, fields)
}

// external adds an AWSMachine that names an ID.
func (f *fakeAPI) external(namespace, name, id string) *fakeAPI {
	return f.add("AWSMachine", "awsmachines", namespace, name, map[string]any{"spec": map[string]any{"providerID": id}})
}

// newAPI has the cluster metal of tenant@example.com.
func newAPI() *fakeAPI {
	return (&fakeAPI{}).add("CloudSigmaCluster", "cloudsigmaclusters", "tenant", "metal", map[string]any{
		"spec": map[string]any{"region": "next", "userEmail": "tenant@example.com"},
	})
}

// fakeCloud is a cloud with the instances of one user.
type fakeCloud struct {
	instances []ownership.Instance
	foreign   string
	// absentFor is the namespace of credentials of another project, which has none.
	absentFor string
	err       error
	asked     []string
}

func (c *fakeCloud) Ask(_ context.Context, claim ownership.Claim) (ownership.Answer, error) {
	c.asked = append(c.asked, claim.ID)
	if c.err != nil {
		return ownership.Answer{}, c.err
	}
	answer := ownership.Answer{Verdict: ownership.Absent, Response: "404 not found", RequestID: "r-1", UserID: userID}
	for _, instance := range c.instances {
		if instance.ID == claim.ID && (c.absentFor == "" || claim.Identity.Namespace != c.absentFor) {
			return ownership.Answer{Verdict: ownership.Owned, Response: "200", RequestID: "r-1", UserID: userID}, nil
		}
		if instance.Name == claim.Name {
			answer.Candidates = append(answer.Candidates, instance)
		}
	}
	if claim.ID == c.foreign {
		answer.Verdict, answer.Response = ownership.Foreign, "403 permission"
	}
	return answer, nil
}

func (c *fakeCloud) Instances(context.Context, ownership.Account) ([]ownership.Instance, int, error) {
	return c.instances, 1, c.err
}

// explainWorker explains machine worker of namespace tenant. cloud is nil without credentials.
func explainWorker(t *testing.T, api *fakeAPI, cloud *fakeCloud) explanation {
	t.Helper()
	config := v1beta1.Default()
	config.OpenStack.AuthURLs = []string{"https://keystone.example.com/v3"}
	config.Machine.Unknown = v1beta1.AdmitFirstClaims
	config.Machine.Kinds = []v1beta1.MachineKind{{
		Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Kind: "AWSMachine", Resource: "awsmachines", ProviderIDPath: "spec.providerID",
		Provider: "external-aws",
	}}
	server := httptest.NewServer(api)
	defer server.Close()
	kinds := clouds.Kinds(config)
	objects, err := clusterapi.NewObjects(&rest.Config{Host: server.URL}, clusterapi.Options{Kinds: kinds})
	if err != nil {
		t.Fatal(err)
	}
	e := explainer{
		objects: objects, kinds: kinds, gate: config.Machine, cloud: &cloudOnce{},
		api: func(_ context.Context, account ownership.Account) (string, error) {
			return "https://" + account.Region + ".example.com/api/2.0/", nil
		},
	}
	if cloud != nil {
		e.cloud.gate = ownership.NewGate(map[string]ownership.Cloud{"cloudsigma": cloud, "openstack": cloud}, nil)
		defer e.cloud.gate.Close()
	}
	kind, object, err := find(t.Context(), objects, kinds, "", "tenant", "worker")
	if err != nil {
		t.Fatal(err)
	}
	report, err := e.explain(t.Context(), kind, object)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestAMachineExplained(t *testing.T) {
	for name, tc := range map[string]struct {
		api   *fakeAPI
		cloud *fakeCloud
		want  string
	}{
		"it names the user's server": {
			api:   newAPI().machine("tenant", "worker", own, own),
			cloud: &fakeCloud{instances: []ownership.Instance{{ID: own, Name: "worker"}, {ID: spare, Name: "desktop"}}},
			want: `Machine:  CloudSigmaMachine worker of namespace tenant
Cluster:  metal
Owner:    none
Account:  user "tenant@example.com" in region "next"
API:      https://next.example.com/api/2.0/

Instance 7a7c5f0e-2f4b-4c0a-9a3e-1d2b3c4d5e6f in status.instanceID and spec.providerID:
  the cloud's answer:  it belongs to the account (200), asked as 0d0f8c31-5c7e-4f3d-8d61-405e6f708192, request id r-1
  also named by:       no machine
  a write of it now:   allowed

Nothing is wrong with it.
`,
		},
		"it names another user's server, and the user has one of that name": {
			api:   newAPI().machine("tenant", "worker", foreign, "").machine("elsewhere", "worker", "", ""),
			cloud: &fakeCloud{instances: []ownership.Instance{{ID: spare, Name: "worker"}}, foreign: foreign},
			want: `Machine:  CloudSigmaMachine worker of namespace tenant
Cluster:  metal
Owner:    none
Account:  user "tenant@example.com" in region "next"
API:      https://next.example.com/api/2.0/

Instance 9c9e7b20-4b6d-4e2c-9c50-3f4d5e6f7081 in status.instanceID:
  the cloud's answer:  it exists, and does not belong to the account (403 permission), asked as 0d0f8c31-5c7e-4f3d-8d61-405e6f708192, request id r-1
  also named by:       no machine
  a write of it now:   denied (InstanceNotOwned)

Other instances of the account for this machine:
  8b8d6a1f-3a5c-4d1b-8b4f-2e3c4d5e6f70  worker  named by no machine

Something is wrong with it:

  InstanceNotOwned
    instance 9c9e7b20-4b6d-4e2c-9c50-3f4d5e6f7081 exists, but is not one of user "tenant@example.com" in region "next", which cluster "metal" acts as; ` +
				`the user's own instance for this machine is 8b8d6a1f-3a5c-4d1b-8b4f-2e3c4d5e6f70; clear the field, so that the provider adopts an instance of the user or creates one
`,
		},
		"of an external provider, and one of another namespace names the ID": {
			api: newAPI().external("tenant", "worker", "aws:///eu-1a/i-1").external("elsewhere", "thief", "AWS://eu-1a/i-1"),
			want: `Machine:  AWSMachine worker of namespace tenant
Cluster:  metal
Owner:    none
Account:  not checked: of the provider external-aws only IDs are compared

Instance aws:///eu-1a/i-1 in spec.providerID:
  the cloud's answer:  it was not asked
  also named by:       AWSMachine "thief" of namespace "elsewhere"
  a write of it now:   denied (InstanceIDConflict)

Something is wrong with it:

  InstanceIDConflict
    2 machines name instance aws:/eu-1a/i-1, which can be that of one only
`,
		},
		"of an external provider": {
			api: newAPI().external("tenant", "worker", "aws:///eu-1a/i-1"),
			want: `Machine:  AWSMachine worker of namespace tenant
Cluster:  metal
Owner:    none
Account:  not checked: of the provider external-aws only IDs are compared

Instance aws:///eu-1a/i-1 in spec.providerID:
  the cloud's answer:  it was not asked
  also named by:       no machine
  a write of it now:   allowed

Nothing is wrong with it.
`,
		},
		"without credentials": {
			api: newAPI().machine("tenant", "worker", own, ""),
			want: `Machine:  CloudSigmaMachine worker of namespace tenant
Cluster:  metal
Owner:    none
Account:  user "tenant@example.com" in region "next"
API:      unknown

Instance 7a7c5f0e-2f4b-4c0a-9a3e-1d2b3c4d5e6f in status.instanceID:
  the cloud's answer:  it was not asked
  also named by:       no machine
  a write of it now:   unknown, as not everything could be checked

Whether something is wrong with it could not be determined:

  Undetermined
    the cloud was not asked for the instances of user "tenant@example.com" in region "next", because no credentials for it were given
    What to do: give those of serve: --impersonation-enabled with --impersonation-secret, or with --oauth-url, --client-id and --client-secret-file; ` +
				`or the environment variables for legacy credentials
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := printMachine(&out, explainWorker(t, tc.api, tc.cloud)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// summary contains what the cases of TestExplanations differ in.
type summary struct {
	Code     int
	Writes   []string
	NamedBy  []string
	Own      []string
	Findings []string
}

func summaryOf(e explanation) summary {
	s := summary{}
	s.Code, _ = cli.ExitCode(cli.Status(preflight.Verdict(e.Findings)))
	for _, instance := range e.Instances {
		s.Writes = append(s.Writes, strings.TrimSpace(instance.Write.Decision+" "+instance.Write.Reason))
		s.NamedBy = append(s.NamedBy, instance.NamedBy...)
	}
	for _, instance := range e.Own {
		s.Own = append(s.Own, instance.ID)
	}
	for _, finding := range e.Findings {
		s.Findings = append(s.Findings, string(finding.Reason))
	}
	return s
}

func TestExplanations(t *testing.T) {
	users := func() *fakeCloud {
		return &fakeCloud{instances: []ownership.Instance{{ID: own, Name: "worker"}, {ID: spare, Name: "another"}}, foreign: foreign}
	}
	machineOwner := map[string]any{"ownerReferences": []any{map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "worker", "uid": "u"}}}
	for name, tc := range map[string]struct {
		api   *fakeAPI
		cloud *fakeCloud
		want  summary
	}{
		"a server that does not exist": {
			api: newAPI().machine("tenant", "worker", "00000000-5c7e-4f3d-8d61-405e6f708192", ""), cloud: users(),
			want: summary{Code: 1, Writes: []string{"denied InstanceNotFound"}, Own: []string{own}, Findings: []string{"InstanceNotFound"}},
		},
		"a server that another machine names": {
			api: newAPI().machine("tenant", "worker", own, "").machine("tenant", "thief", own, ""), cloud: users(),
			want: summary{Code: 1, Writes: []string{"denied InstanceIDConflict"}, Findings: []string{"InstanceIDConflict"},
				NamedBy: []string{`CloudSigmaMachine "thief" of namespace "tenant"`}},
		},
		"a server that a machine of nobody names elsewhere": {
			api: newAPI().machine("tenant", "worker", own, "").machine("elsewhere", "thief", own, ""), cloud: users(),
			want: summary{Code: 1, Writes: []string{"allowed"}, Findings: []string{"InstanceIDConflict"},
				NamedBy: []string{`CloudSigmaMachine "thief" of namespace "elsewhere"`}},
		},
		"no server, and one that was created for it": {
			api: newAPI().machine("tenant", "worker", "", ""), cloud: users(),
			want: summary{Code: 1, Own: []string{own}, Findings: []string{"InstanceNotNamed"}},
		},
		"a second server of its name": {
			api:   newAPI().machine("tenant", "worker", own, ""),
			cloud: &fakeCloud{instances: []ownership.Instance{{ID: own, Name: "worker"}, {ID: spare, Name: "worker"}}},
			want:  summary{Code: 1, Writes: []string{"allowed"}, Own: []string{spare}, Findings: []string{"InstanceDuplicate"}},
		},
		"a server of its name, created for a machine that was deleted": {
			api:   newAPI().machine("tenant", "worker", own, ""),
			cloud: &fakeCloud{instances: []ownership.Instance{{ID: own, Name: "worker"}, {ID: spare, Name: "worker", MachineUID: "deleted"}}},
			want:  summary{Code: 1, Writes: []string{"allowed"}, Own: []string{spare}, Findings: []string{"InstanceOrphaned"}},
		},
		"the same, if machines of other namespaces may not be read": {
			api: func() *fakeAPI {
				api := newAPI().machine("tenant", "worker", own, "")
				api.forbidden = []string{infrastructure + "/cloudsigmamachines"}
				return api
			}(),
			cloud: &fakeCloud{instances: []ownership.Instance{{ID: own, Name: "worker"}, {ID: spare, Name: "worker", MachineUID: "deleted"}}},
			want:  summary{Code: 2, Writes: []string{"allowed"}, Own: []string{spare}, Findings: []string{"Undetermined"}},
		},
		"a malformed ID": {
			api: newAPI().machine("tenant", "worker", "no-uuid", ""), cloud: users(),
			want: summary{Code: 1, Writes: []string{"denied InstanceIDInvalid"}, Own: []string{own}, Findings: []string{"InstanceIDInvalid"}},
		},
		"no cluster": {
			api: newAPI().add("CloudSigmaMachine", "cloudsigmamachines", "tenant", "worker", map[string]any{
				"metadata": map[string]any{"labels": map[string]any{}}, "status": map[string]any{"instanceID": own},
			}), cloud: users(),
			want: summary{Code: 1, Writes: []string{"denied MachineWithoutCluster"}, Findings: []string{"MachineWithoutCluster"}},
		},
		"a cluster that does not exist": {
			api: (&fakeAPI{}).machine("tenant", "worker", own, ""), cloud: users(),
			want: summary{Code: 1, Writes: []string{"denied ClusterMissing"}, Findings: []string{"ClusterMissing"}},
		},
		"a cluster that does not exist, and no server": {
			api: (&fakeAPI{}).machine("tenant", "worker", "", ""), cloud: users(),
			want: summary{Code: 1, Findings: []string{"ClusterMissing"}},
		},
		"a cluster that may not be read": {
			api: func() *fakeAPI {
				api := newAPI().machine("tenant", "worker", own, "")
				api.forbidden = []string{inTenant + "/cloudsigmaclusters/metal"}
				return api
			}(),
			cloud: users(),
			want:  summary{Code: 2, Writes: []string{"unknown"}, Findings: []string{"Undetermined"}},
		},
		"an owner of another cluster": {
			api: func() *fakeAPI {
				api := newAPI().add("CloudSigmaMachine", "cloudsigmamachines", "tenant", "worker", map[string]any{"metadata": machineOwner})
				api.objects["/apis/cluster.x-k8s.io/v1beta2/namespaces/tenant/machines/worker"] = map[string]any{
					"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
					"metadata": map[string]any{"namespace": "tenant", "name": "worker", "labels": map[string]any{clusterapi.ClusterNameLabel: "another"}},
				}
				return api
			}(),
			cloud: &fakeCloud{},
			want:  summary{Code: 1, Findings: []string{"OwnerClusterMismatch"}},
		},
		"an owner that may not be read": {
			api: func() *fakeAPI {
				api := newAPI().add("CloudSigmaMachine", "cloudsigmamachines", "tenant", "worker", map[string]any{
					"metadata": machineOwner, "status": map[string]any{"instanceID": own},
				})
				api.forbidden = []string{"/apis/cluster.x-k8s.io/v1beta2/namespaces/tenant/machines/worker"}
				return api
			}(),
			cloud: users(),
			want:  summary{Code: 2, Writes: []string{"unknown"}, Findings: []string{"Undetermined"}},
		},
		"a cloud that does not answer": {
			api:   newAPI().machine("tenant", "worker", own, ""),
			cloud: &fakeCloud{err: &ownership.UnknownError{Cause: ownership.CauseTimeout, Err: io.ErrUnexpectedEOF}},
			want:  summary{Code: 2, Writes: []string{"undecided OwnershipUnknown"}, Findings: []string{"Undetermined"}},
		},
		"a region that is not configured": {
			api:   newAPI().machine("tenant", "worker", own, ""),
			cloud: &fakeCloud{err: &ownership.RegionError{Region: "next", Allowed: []string{"zrh"}}},
			want:  summary{Code: 1, Writes: []string{"denied RegionNotAllowed"}, Findings: []string{"RegionNotAllowed"}},
		},
		"a region that is not configured, and no server": {
			api:   newAPI().machine("tenant", "worker", "", ""),
			cloud: &fakeCloud{err: &ownership.RegionError{Region: "next", Allowed: []string{"zrh"}}},
			want:  summary{Code: 1, Findings: []string{"RegionNotAllowed"}},
		},
		"a denial that needs no cloud, without credentials": {
			api:  newAPI().machine("tenant", "worker", own, "").machine("tenant", "thief", own, ""),
			want: summary{Code: 1, Writes: []string{"denied InstanceIDConflict"}, Findings: []string{"InstanceIDConflict", "Undetermined"}, NamedBy: []string{`CloudSigmaMachine "thief" of namespace "tenant"`}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			report := explainWorker(t, tc.api, tc.cloud)
			if diff := cmp.Diff(tc.want, summaryOf(report)); diff != "" {
				t.Errorf("(-want +got):\n%s\nfindings: %+v", diff, report.Findings)
			}
			for _, finding := range report.Findings {
				if len(tc.api.forbidden) > 0 && finding.Reason == preflight.Undetermined && !strings.Contains(finding.Message, `User "alice" cannot read `+tc.api.forbidden[0]) {
					t.Errorf("finding = %+v does not name the missing permission", finding)
				}
			}
			if tc.cloud != nil && len(tc.cloud.asked) > 1 {
				t.Errorf("the cloud was asked for %q, want one request", tc.cloud.asked)
			}
		})
	}
}

// While a provider replaces a server, the fields of the machine name two: each is explained.
func TestAMachineThatNamesTwoServersExplained(t *testing.T) {
	cloud := &fakeCloud{instances: []ownership.Instance{{ID: own, Name: "worker"}}, foreign: foreign}
	report := explainWorker(t, newAPI().machine("tenant", "worker", own, foreign), cloud)
	var got []string
	for _, instance := range report.Instances {
		got = append(got, fmt.Sprintf("%s %s %s", instance.ID, instance.Fields, instance.Cloud.Verdict))
	}
	if diff := cmp.Diff([]string{own + " [status.instanceID] Owned", foreign + " [spec.providerID] Foreign"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !report.has(ownership.ReasonMismatch) || !report.has(ownership.ReasonNotOwned) {
		t.Errorf("findings = %+v", report.Findings)
	}
}

func TestAMachineOnOpenStackExplained(t *testing.T) {
	api := (&fakeAPI{}).add("OpenStackMachine", "openstackmachines", "tenant", "worker", map[string]any{
		"spec":   map[string]any{"identityRef": map[string]any{"name": "cloud-config", "cloudName": "openstack"}, "providerID": "openstack:///" + foreign},
		"status": map[string]any{"instanceID": foreign},
	})
	report := explainWorker(t, api, &fakeCloud{instances: []ownership.Instance{{ID: own, Name: "worker"}}})
	want := summary{Code: 1, Writes: []string{"denied InstanceNotFound"}, Own: []string{own}, Findings: []string{"InstanceNotFound"}}
	if diff := cmp.Diff(want, summaryOf(report)); diff != "" {
		t.Errorf("(-want +got):\n%s\nfindings: %+v", diff, report.Findings)
	}
	wantAccount := &accountReport{
		Cloud: "openstack", Description: `the project of cloud "openstack" of Secret "cloud-config" in the region of its credentials`,
		Identity: "tenant/cloud-config/openstack", API: "https://.example.com/api/2.0/",
	}
	if diff := cmp.Diff(wantAccount, report.Account); diff != "" {
		t.Errorf("account (-want +got):\n%s", diff)
	}
	if got := explainWorker(t, api, nil).Findings; len(got) != 1 || !strings.HasPrefix(got[0].Next, "name the Keystone in openStack.authURLs") {
		t.Errorf("findings without access = %+v", got)
	}
}

// Each machine has its own credentials. Another project cannot own the server.
func TestAServerThatMachinesOfTwoTenantsNameExplained(t *testing.T) {
	fields := map[string]any{
		"spec": map[string]any{"identityRef": map[string]any{"name": "own", "cloudName": "openstack"}}, "status": map[string]any{"instanceID": own},
	}
	api := (&fakeAPI{}).add("OpenStackMachine", "openstackmachines", "tenant", "worker", fields).add("OpenStackMachine", "openstackmachines", "other", "worker", fields)
	for absentFor, want := range map[string]string{"": "denied InstanceIDConflict", "other": "allowed"} {
		report := explainWorker(t, api, &fakeCloud{instances: []ownership.Instance{{ID: own, Name: "worker"}}, absentFor: absentFor})
		got := summaryOf(report)
		if diff := cmp.Diff([]string{want}, got.Writes); diff != "" || report.Instances[0].Cloud.Verdict != ownership.Owned {
			t.Errorf("server absent for %q: %s, writes (-want +got):\n%s", absentFor, report.Instances[0].Cloud.Verdict, diff)
		}
	}
}

// The gate decides what a first claim gets while the cloud is away.
func TestAFirstClaimDuringAnOutageExplained(t *testing.T) {
	report := explainWorker(t, newAPI().machine("tenant", "worker", own, ""),
		&fakeCloud{err: &ownership.UnknownError{Cause: ownership.CauseTimeout, Err: io.ErrUnexpectedEOF}})
	got := report.Instances[0].Write
	if got.Decision != decisionUndecided || got.First != "warned" {
		t.Errorf("write = %+v, want a first claim admitted with a warning, and a changed one undecided", got)
	}
}

func TestDescribeWrite(t *testing.T) {
	for want, write := range map[string]writeReport{
		"denied with 503 and retried": {Decision: decisionUndecided},
		"denied with 503 and retried if the machine named another instance before, and admitted with a warning if it named none": {
			Decision: decisionUndecided, First: "warned",
		},
		"admitted with a warning (OwnershipUnknown)": {Decision: "warned", Reason: "OwnershipUnknown"},
	} {
		if got := describeWrite(write); got != want {
			t.Errorf("describeWrite(%+v) = %q, want %q", write, got, want)
		}
	}
}

// A tenant writes the IDs and labels of a machine.
func TestAnExplainedMachineIsForATerminal(t *testing.T) {
	const hostile = "x\x1b[2J\r\n---\ny\u202e"
	report := explanation{
		Machine:   machineReport{Kind: hostile, Namespace: hostile, Name: hostile, Cluster: hostile, Owner: hostile},
		Account:   &accountReport{Description: hostile, API: hostile},
		Instances: []instanceReport{{Value: hostile, Cloud: &cloudReport{Error: hostile, UserID: hostile, RequestID: hostile}, NamedBy: []string{hostile}, Write: writeReport{Decision: decisionDenied, Reason: hostile}}},
		Own:       []ownReport{{ID: hostile, Name: hostile, NamedBy: []string{hostile}}},
		Findings:  []preflight.Finding{{Reason: hostile, Message: hostile, Next: hostile}},
	}
	for _, format := range []string{"text", "json", "yaml"} {
		var out bytes.Buffer
		if err := cli.PrintReport(&out, format, report, func(out io.Writer) error { return printMachine(out, report) }); err != nil {
			t.Error(err)
		}
		if text := out.String(); strings.ContainsAny(text, "\x1b\r\u202e") || strings.Contains(text, "\n---\n") {
			t.Errorf("%s output = %q, want all texts escaped", format, text)
		}
	}
}

func TestExplainMachineExitsWith2IfNothingIsKnown(t *testing.T) {
	api := newAPI().machine("tenant", "worker", own, "").add("MetalMachine", "metalmachines", "tenant", "worker", nil).machine("default", "one", own, "")
	server := httptest.NewServer(api)
	defer server.Close()
	kubeconfig := clitest.WriteKubeconfig(t, map[string]string{"home": server.URL})
	configuration := clitest.WriteFile(t, "config.yaml", `apiVersion: config.warrantgate.dev/v1beta1
kind: GateConfiguration
machine:
  kinds:
  - {group: infrastructure.cluster.x-k8s.io, version: v1beta1, kind: MetalMachine, resource: metalmachines, provider: cloudsigma}
`)
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no name":           {want: "accepts 1 arg(s), received 0"},
		"an unknown flag":   {args: []string{"a", "--foo"}, want: "unknown flag: --foo"},
		"an unknown format": {args: []string{"a", "-o", "xml"}, want: `--output: "xml" must be one of text, json, yaml`},
		"two namespaces":    {args: []string{"a/b", "-n", "c"}, want: `the namespace in "a/b" is not "c" (--namespace)`},
		"no namespace":      {args: []string{"/b"}, want: `"/b" is not of the form NAMESPACE/NAME`},
		"three parts":       {args: []string{"a/b/c"}, want: `"a/b/c" is not the name of a machine, such as tenant/worker-1`},
		"no such machine": {
			args: []string{"worker"}, want: `there is no machine "worker" in namespace "default" (kinds: CloudSigmaMachine, MetalMachine); ` +
				`machine.kinds and openStack of the configuration (--config) add others`,
		},
		"two of the name": {
			args: []string{"tenant/worker"},
			want: `machines of several kinds are named "worker" in namespace "tenant": choose one with --kind=CloudSigmaMachine or --kind=MetalMachine`,
		},
		"an unknown kind": {
			args: []string{"worker", "--kind=Foo"}, want: `--kind: "Foo" is none of the kinds of machines (CloudSigmaMachine, MetalMachine); ` +
				`machine.kinds and openStack of the configuration (--config) add others`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, errOut, err := clitest.Run(t, []*cobra.Command{NewExplainCommand()},
				append([]string{"machine", "--kubeconfig=" + kubeconfig, "--config=" + configuration}, tc.args...)...)
			code, message := cli.ExitCode(err)
			if code != cli.ExitUnknown || !strings.HasPrefix(fmt.Sprint(message), tc.want) || out != "" || errOut != "" {
				t.Errorf("exit code = %d, message = %v, output = %q, %q, want %d and %q", code, message, out, errOut, cli.ExitUnknown, tc.want)
			}
		})
	}
	for name, args := range map[string][]string{
		"chosen by its kind": {"tenant/worker", "--kind=cloudsigmamachine"}, "in the namespace of a flag": {"worker", "-n=tenant", "--kind=metalmachines"},
		"in the namespace of the context": {"one"},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := clitest.Run(t, []*cobra.Command{NewExplainCommand()},
				append([]string{"machine", "-o=json", "--kubeconfig=" + kubeconfig, "--config=" + configuration}, args...)...)
			code, message := cli.ExitCode(err)
			var got explanation
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatal(err)
			}
			if code == 0 || message != nil || !strings.HasSuffix(args[0], got.Machine.Name) {
				t.Errorf("exit code = %d, message = %v, machine = %+v", code, message, got.Machine)
			}
		})
	}
}

// What can be read is explained although the cloud cannot be asked.
func TestExplainMachineWithFlagsThatGiveNoAccess(t *testing.T) {
	api := newAPI().machine("tenant", "worker", own, "").machine("tenant", "held", spare, "").machine("elsewhere", "thief", spare, "")
	server := httptest.NewServer(api)
	defer server.Close()
	kubeconfig := clitest.WriteKubeconfig(t, map[string]string{"home": server.URL})
	for name, tc := range map[string]struct {
		args     []string
		config   string // in cloudSigma
		wantCode int
		want     string // in the finding about the cloud
	}{
		"no credentials":     {args: []string{"tenant/worker"}, wantCode: 2, want: "because no credentials for it were given"},
		"no regions":         {args: []string{"tenant/worker", "--impersonation-enabled"}, wantCode: 2, want: "cloudSigma.regions: Required value"},
		"no client":          {args: []string{"tenant/worker", "--impersonation-enabled"}, config: "regions: [next]", wantCode: 2, want: "impersonation is enabled, but neither"},
		"a CA of the pod":    {args: []string{"tenant/worker"}, config: "caFile: /no/such/file", wantCode: 2, want: "cloudSigma.caFile: open /no/such/file"},
		"something is wrong": {args: []string{"tenant/held", "--impersonation-enabled"}, wantCode: 1, want: "cloudSigma.regions: Required value"},
	} {
		t.Run(name, func(t *testing.T) {
			configuration := clitest.WriteFile(t, "config.yaml", "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\ncloudSigma: {"+tc.config+"}\n")
			out, errOut, err := clitest.Run(t, []*cobra.Command{NewExplainCommand()},
				append([]string{"machine", "--kubeconfig=" + kubeconfig, "--config=" + configuration}, tc.args...)...)
			code, message := cli.ExitCode(err)
			if code != tc.wantCode || message != nil || errOut != "" {
				t.Errorf("exit code = %d, message = %v, notes = %q, want %d", code, message, errOut, tc.wantCode)
			}
			const account = `user "tenant@example.com" in region "next"`
			if !strings.Contains(out, "Account:  "+account) || !strings.Contains(out, "the cloud was not asked for the instances of "+account) || !strings.Contains(out, tc.want) {
				t.Errorf("output = %s, want the account, and %q", out, tc.want)
			}
		})
	}
}
