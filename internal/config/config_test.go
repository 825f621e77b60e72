package config_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/internal/config"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/identity"
)

const (
	header = "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"
	// versions are those that are understood.
	versions = `"config.warrantgate.dev/v1beta1"`
)

// configuration returns the default configuration with the changes of modify.
func configuration(modify ...func(*v1beta1.GateConfiguration)) v1beta1.GateConfiguration {
	config := v1beta1.GateConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "config.warrantgate.dev/v1beta1", Kind: "GateConfiguration"},
		Workspace: v1beta1.Workspace{
			OwnerRewrite:   v1beta1.Gate{Mode: v1beta1.Enforce},
			OwnerIntegrity: v1beta1.Gate{Mode: v1beta1.Enforce},
		},
		Repair:  v1beta1.Repair{Mode: v1beta1.Enforce, After: metav1.Duration{Duration: time.Minute}, WorkspacesPerSecond: 50},
		Machine: v1beta1.Machine{Mode: v1beta1.Enforce},
		Cluster: v1beta1.Cluster{
			Impersonation: v1beta1.ClusterImpersonation{Mode: v1beta1.Enforce},
			Delegation: v1beta1.ClusterDelegation{
				Mode: v1beta1.Enforce, Through: v1beta1.ApplicationCredential, UnrestrictedApplicationCredentials: v1beta1.WarnOfUnrestricted,
			},
		},
		Delegation: v1beta1.Delegation{OpenStackRoles: v1beta1.Roles{
			Required: []string{"load-balancer_member"}, Allowed: []string{"member", "load-balancer_member", "reader"},
		}},
		ControllerManager: v1beta1.ControllerManager{
			Mode: v1beta1.Off, ClusterNameLabel: "cluster.x-k8s.io/cluster-name", SecretName: "cloudsigma-impersonation", Commands: []string{"/ccm"},
		},
		Audit: v1beta1.Audit{Mode: v1beta1.Enforce, Interval: metav1.Duration{Duration: 10 * time.Minute}, RequestsPerSecond: 5},
		CloudSigma: v1beta1.CloudSigma{
			DefaultRegion:      "zrh",
			API:                "https://direct.{region}.cloudsigma.com/api/2.0/",
			LegacyAPI:          "https://{region}.cloudsigma.com/api/2.0/",
			ServiceProviderAPI: "https://direct.{region}.cloudsigma.com/service_provider/api/v1/",
			TokenPath:          "/realms/cloudsigma/protocol/openid-connect/token",
			Flow:               v1beta1.ServiceProvider,
			Audience:           "service_provider_api",
			Concurrency:        16,
		},
		OpenStack: v1beta1.OpenStack{Concurrency: 16},
		KeystonePolicy: v1beta1.KeystonePolicy{
			Mode: v1beta1.Off, ManagerRoles: []string{"manager"}, ManagedRoles: []string{"member", "load-balancer_member"},
		},
	}
	for _, m := range modify {
		m(&config)
	}
	return config
}

func withModes(rewrite, integrity v1beta1.Mode) func(*v1beta1.GateConfiguration) {
	return func(c *v1beta1.GateConfiguration) {
		c.Workspace.OwnerRewrite.Mode, c.Workspace.OwnerIntegrity.Mode = rewrite, integrity
	}
}

func withRepair(mode v1beta1.Mode, after time.Duration, rate int32) func(*v1beta1.GateConfiguration) {
	return func(c *v1beta1.GateConfiguration) {
		c.Repair = v1beta1.Repair{Mode: mode, After: metav1.Duration{Duration: after}, WorkspacesPerSecond: rate}
	}
}

func exampleMachine(kind, instanceIDPath, providerIDPath string) v1beta1.MachineKind {
	return v1beta1.MachineKind{
		Group: "infrastructure.example.com", Version: "v1", Kind: kind, Resource: strings.ToLower(kind) + "s",
		InstanceIDPath: instanceIDPath, ProviderIDPath: providerIDPath, Provider: v1beta1.ProviderCloudSigma,
	}
}

func withKeptWarrants(users, groups []string) func(*v1beta1.GateConfiguration) {
	return func(c *v1beta1.GateConfiguration) {
		c.Delegation.KeepWarrants = v1beta1.KeepWarrants{Users: users, Groups: groups}
	}
}

func TestParseReadsWhatIsWritten(t *testing.T) {
	for name, tc := range map[string]struct {
		raw  string
		want v1beta1.GateConfiguration
	}{
		"an empty file is the default": {
			raw:  header,
			want: configuration(),
		},
		"every field in YAML": {
			raw: header + `delegation:
  keepWarrants:
    users: ["bob", "team-*"]
    groups: [ops]
workspace:
  ownerRewrite:
    mode: Warn
  ownerIntegrity:
    mode: "Off"
repair:
  mode: Warn
  after: 90s
  workspacesPerSecond: 5
`,
			want: configuration(withModes(v1beta1.Warn, v1beta1.Off), withRepair(v1beta1.Warn, 90*time.Second, 5), withKeptWarrants([]string{"bob", "team-*"}, []string{"ops"})),
		},
		"every field in JSON": {
			raw: `{"kind":"GateConfiguration","apiVersion":"config.warrantgate.dev/v1beta1",` +
				`"delegation":{"keepWarrants":{"users":["bob","team-*"],"groups":["ops"]}},` +
				`"workspace":{"ownerRewrite":{"mode":"Warn"},"ownerIntegrity":{"mode":"Off"}},"repair":{"mode":"Off","after":"2m","workspacesPerSecond":100}}`,
			want: configuration(withModes(v1beta1.Warn, v1beta1.Off), withRepair(v1beta1.Off, 2*time.Minute, 100), withKeptWarrants([]string{"bob", "team-*"}, []string{"ops"})),
		},
		"Off needs no quotes, although YAML 1.1 reads it as false": {
			raw:  header + "workspace:\n  ownerRewrite:\n    mode: Off\n",
			want: configuration(withModes(v1beta1.Off, v1beta1.Enforce)),
		},
		"everything about machines": {
			raw: header + `machine:
  mode: Warn
  unknown: Admit
  kinds:
  - {group: infrastructure.example.com, version: v1, kind: ExampleMachine, resource: examplemachines, provider: cloudsigma}
  - group: infrastructure.example.com
    version: v1
    kind: OtherMachine
    resource: othermachines
    instanceIDPath: status.vm.id
    providerIDPath: spec.vm.providerID
    provider: cloudsigma
  - {group: infrastructure.example.com, version: v1, kind: ElseMachine, resource: elsemachines, idPattern: "aws:///[^/]+/(i-[0-9a-f]+)", provider: external-aws}
cluster: {impersonation: {mode: Off}}
controllerManager:
  selector: {matchLabels: {app: cloudsigma-ccm}}
  container: ccm
audit: {mode: Off, interval: 1h, requestsPerSecond: 1}
cloudSigma:
  regions: [zrh, next]
  api: https://cloud.example.com/{region}/
  flow: TokenExchange
`,
			want: configuration(func(c *v1beta1.GateConfiguration) {
				c.Machine = v1beta1.Machine{Mode: v1beta1.Warn, Unknown: v1beta1.Admit, Kinds: []v1beta1.MachineKind{
					exampleMachine("ExampleMachine", "status.instanceID", "spec.providerID"),
					exampleMachine("OtherMachine", "status.vm.id", "spec.vm.providerID"),
					{
						Group: "infrastructure.example.com", Version: "v1", Kind: "ElseMachine", Resource: "elsemachines", ProviderIDPath: "spec.providerID",
						IDPattern: "aws:///[^/]+/(i-[0-9a-f]+)", Provider: "external-aws",
					},
				}}
				c.Cluster.Impersonation.Mode = v1beta1.Off
				c.ControllerManager.Mode, c.ControllerManager.Container = v1beta1.Enforce, "ccm"
				c.ControllerManager.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cloudsigma-ccm"}}
				c.Audit = v1beta1.Audit{Mode: v1beta1.Off, Interval: metav1.Duration{Duration: time.Hour}, RequestsPerSecond: 1}
				c.CloudSigma.Regions, c.CloudSigma.API = []string{"zrh", "next"}, "https://cloud.example.com/{region}/"
				c.CloudSigma.LegacyAPI = c.CloudSigma.API
				c.CloudSigma.Flow, c.CloudSigma.Audience = v1beta1.TokenExchange, "cloudsigma-api"
			}),
		},
		"policies for Keystone, checked if a selector is set": {
			raw: header + "keystonePolicy:\n  selector: {matchLabels: {holds: keystone-policy}}\n",
			want: configuration(func(c *v1beta1.GateConfiguration) {
				c.KeystonePolicy.Mode = v1beta1.Enforce
				c.KeystonePolicy.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"holds": "keystone-policy"}}
			}),
		},
		"policies for Keystone, checked if objects are set": {
			raw: header + "keystonePolicy:\n  objects: [{namespace: keystone, name: policy}]\n",
			want: configuration(func(c *v1beta1.GateConfiguration) {
				c.KeystonePolicy.Mode = v1beta1.Enforce
				c.KeystonePolicy.Objects = []v1beta1.NamedObject{{Namespace: "keystone", Name: "policy"}}
			}),
		},
		"everything about policies for Keystone": {
			raw: header + `keystonePolicy:
  mode: Warn
  selector:
    matchExpressions:
    - {key: app.kubernetes.io/name, operator: In, values: [keystone]}
  keys: [policy.yaml, policy.json]
  base: [{namespace: keystone, name: live, keys: [policy.json]}, {namespace: keystone, name: more}]
  managerRoles: [manager, domain-admin]
  managedRoles: [member]
  knownRules: ["identity:scim_*"]
`,
			want: configuration(func(c *v1beta1.GateConfiguration) {
				c.KeystonePolicy = v1beta1.KeystonePolicy{
					Mode: v1beta1.Warn,
					Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
						{Key: "app.kubernetes.io/name", Operator: metav1.LabelSelectorOpIn, Values: []string{"keystone"}},
					}},
					Keys:         []string{"policy.yaml", "policy.json"},
					Base:         []v1beta1.KeystonePolicyBase{{Namespace: "keystone", Name: "live", Keys: []string{"policy.json"}}, {Namespace: "keystone", Name: "more"}},
					ManagerRoles: []string{"manager", "domain-admin"}, ManagedRoles: []string{"member"}, KnownRules: []string{"identity:scim_*"},
				}
			}),
		},
		"everything about OpenStack": {
			raw: header + `delegation:
  openStackRoles: {required: [], allowed: [member, heat_stack_owner], denied: [cloud-support]}
cluster:
  delegation:
    mode: Warn
    through: Trust
    operators: {users: [{name: admin, domain: Default}], projects: [{id: 91ab}]}
    unrestrictedApplicationCredentials: Deny
machine:
  kinds:
  - {group: infrastructure.example.com, version: v1, kind: ExampleMachine, resource: examplemachines, identityRefPath: spec.identity, provider: openstack}
openStack:
  authURLs: ["https://keystone.example.com:5000/v3", "http://127.0.0.1:5000"]
  caFile: /etc/ca.pem
  concurrency: 4
`,
			want: configuration(func(c *v1beta1.GateConfiguration) {
				c.Delegation.OpenStackRoles = v1beta1.Roles{
					Required: []string{}, Allowed: []string{"member", "heat_stack_owner"}, Denied: []string{"cloud-support"},
				}
				c.Cluster.Delegation = v1beta1.ClusterDelegation{
					Mode: v1beta1.Warn, Through: v1beta1.Trust, UnrestrictedApplicationCredentials: v1beta1.DenyUnrestricted,
					Operators: v1beta1.OpenStackOperators{
						Users: []v1beta1.OpenStackPrincipal{{Name: "admin", Domain: "Default"}}, Projects: []v1beta1.OpenStackPrincipal{{ID: "91ab"}},
					},
				}
				kind := exampleMachine("ExampleMachine", "status.instanceID", "spec.providerID")
				kind.IdentityRefPath, kind.Provider = "spec.identity", v1beta1.ProviderOpenStack
				c.Machine.Kinds = []v1beta1.MachineKind{kind}
				c.OpenStack = v1beta1.OpenStack{
					AuthURLs: []string{"https://keystone.example.com:5000/v3", "http://127.0.0.1:5000"}, CAFile: "/etc/ca.pem", Concurrency: 4,
				}
			}),
		},
		"a mode that is null or empty is the default": {
			raw:  header + "workspace:\n  ownerRewrite:\n    mode: null\n  ownerIntegrity:\n    mode: ''\n",
			want: configuration(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := config.Parse([]byte(tc.raw))
			if err != nil {
				t.Fatalf("Parse() error = %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Parse() (-want +got):\n%s", diff)
			}
		})
	}
}

// Texts of apimachinery and of validateTemplate.
const (
	subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end " +
		"with an alphanumeric character (e.g. 'example.com', regex used for validation is " +
		"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
	label = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end " +
		"with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
	notAnAuthURL = "must be a URL without user, query and fragment, such as https://keystone.example.com:5000/v3"
	notExternal  = "cannot be set with an external provider: providerIDPath is the field with the ID"
	notUnique    = "is the resource of another kind, also in another group: a webhook has its name"
	notATemplate = "must be an https URL without user, query and fragment; {region} stands for the region"
)

func TestParseReturnsMistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		raw string
		// want is compared line by line, in any order.
		want []string
	}{
		"a file without a kind": {
			raw: "{}",
			want: []string{
				`apiVersion: Unsupported value: "": supported values: ` + versions,
				`kind: Unsupported value: "": supported values: "GateConfiguration"`,
			},
		},
		"more than one document": {
			raw:  "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n---\nworkspace: {ownerRewrite: {mode: Warn}}\n",
			want: []string{"there is more than one document"},
		},
		"an empty file": {
			raw: "",
			want: []string{
				`apiVersion: Unsupported value: "": supported values: ` + versions,
				`kind: Unsupported value: "": supported values: "GateConfiguration"`,
			},
		},
		"another kind and version": {
			raw: "apiVersion: config.warrantgate.dev/v1\nkind: Gate\n",
			want: []string{
				`apiVersion: Unsupported value: "config.warrantgate.dev/v1": supported values: ` + versions,
				`kind: Unsupported value: "Gate": supported values: "GateConfiguration"`,
			},
		},
		"an unknown version, with unknown fields, which are not checked": {
			raw:  "apiVersion: config.warrantgate.dev/v1\nkind: GateConfiguration\ngates: []\nrepair: {mode: Sometimes}\n",
			want: []string{`apiVersion: Unsupported value: "config.warrantgate.dev/v1": supported values: ` + versions},
		},
		"an object of another kind": {
			raw: "apiVersion: v1\nkind: ConfigMap\ndata: {}\n",
			want: []string{
				`apiVersion: Unsupported value: "v1": supported values: ` + versions,
				`kind: Unsupported value: "ConfigMap": supported values: "GateConfiguration"`,
			},
		},
		"every mistake at once, each with its path": {
			raw: header + `color: blue
delegation:
  keepWarrants:
    users: ["bob", "["]
    groups: ["", "ops", "a[z-"]
workspace:
  ownerRewrites: {}
  ownerRewrite:
    mode: enforce
  ownerIntegrity:
    mode: 1
`,
			want: []string{
				`color: unknown field; allowed: apiVersion, audit, cloudSigma, cluster, controllerManager, delegation, keystonePolicy, kind, machine, openStack, repair, workspace`,
				`workspace.ownerRewrites: unknown field; did you mean ownerRewrite?`,
				`workspace.ownerRewrite.mode: Unsupported value: "enforce": supported values: "Enforce", "Warn", "Off"`,
				`workspace.ownerIntegrity.mode: Unsupported value: "1": supported values: "Enforce", "Warn", "Off"`,
				`delegation.keepWarrants.users[1]: Invalid value: "[": must be a pattern of path.Match, such as "team-*"`,
				`delegation.keepWarrants.groups[0]: Required value: a pattern of names`,
				`delegation.keepWarrants.groups[2]: Invalid value: "a[z-": must be a pattern of path.Match, such as "team-*"`,
			},
		},
		"a repair that cannot be": {
			raw: header + "repair: {mode: always, after: -1s, workspacesPerSecond: -1}",
			want: []string{
				`repair.mode: Unsupported value: "always": supported values: "Enforce", "Warn", "Off"`,
				`repair.after: Invalid value: "-1s": must be a duration of at least 1s, such as 90s or 10m`,
				`repair.workspacesPerSecond: Invalid value: "-1": must be a whole number, at least 1`,
			},
		},
		"machines that cannot be": {
			raw: header + `machine:
  unknown: Perhaps
  kinds:
  - {group: infrastructure.cluster.x-k8s.io, version: v1beta1, kind: CloudSigmaMachine, resource: cloudsigmamachines, provider: cloudsigma}
  - {group: A_B, version: "1", kind: "", resource: Things, instanceIDPath: "status['id']", providerIDPath: id, identityRefPath: "spec[0]", provider: elsewhere}
  - {group: infrastructure.cluster.x-k8s.io, version: v1beta1, kind: OpenStackMachine, resource: openstackmachines, provider: openstack}
  - {group: a.io, version: v1, kind: A, resource: as, provider: external-, instanceIDPath: status.id, identityRefPath: spec.ref, idPattern: "(a"}
  - {group: a.io, version: v1, kind: B, resource: bs, provider: external, providerIDPath: id, idPattern: a}
  - {group: a.io, version: v1, kind: C, resource: cs, provider: cloudsigma, idPattern: (a)}
cluster: {impersonation: {mode: maybe}}
controllerManager: {mode: Enforce, secretName: "No Secret", clusterNameLabel: "/"}
audit:
  interval: -1m
  requestsPerSecond: -1
  providers: [{workspace: "root:../a", apiExport: A_B}, {workspace: "root:a", apiExport: b}, {workspace: "root:a", apiExport: b}]
`,
			want: []string{
				`machine.unknown: Unsupported value: "Perhaps": supported values: "AdmitFirstClaims", "Deny", "Admit"`,
				`machine.kinds[0].resource: Invalid value: "cloudsigmamachines": ` + notUnique,
				`machine.kinds[1].group: Invalid value: "A_B": ` + subdomain,
				`machine.kinds[1].version: Invalid value: "1": ` + label,
				`machine.kinds[1].resource: Invalid value: "Things": ` + label,
				`machine.kinds[1].kind: Required value`,
				`machine.kinds[1].instanceIDPath: Invalid value: "status['id']": must be a path of fields, such as status.instanceID`,
				`machine.kinds[1].providerIDPath: Invalid value: "id": must be a path of fields, such as status.instanceID`,
				`machine.kinds[1].identityRefPath: Invalid value: "spec[0]": must be a path of fields, such as spec.identityRef`,
				`machine.kinds[1].provider: Unsupported value: "elsewhere": supported values: "cloudsigma", "openstack", "external"`,
				`machine.kinds[2].resource: Invalid value: "openstackmachines": ` + notUnique,
				`machine.kinds[2].provider: Invalid value: "openstack": needs openStack.authURLs, the Keystones that may be called`,
				`machine.kinds[3].instanceIDPath: Invalid value: "status.id": ` + notExternal,
				`machine.kinds[3].identityRefPath: Invalid value: "spec.ref": ` + notExternal,
				"machine.kinds[3].idPattern: Invalid value: \"(a\": must be a regular expression: error parsing regexp: missing closing ): `(a`",
				`machine.kinds[3].provider: Unsupported value: "external-": supported values: "cloudsigma", "openstack", "external"`,
				`machine.kinds[4].idPattern: Invalid value: "a": must have one group, the part that is compared, such as aws:///[^/]+/(i-[0-9a-f]+)`,
				`machine.kinds[4].providerIDPath: Invalid value: "id": must be a path of fields, such as status.instanceID`,
				`machine.kinds[5].idPattern: Invalid value: "(a)": needs an external provider, because the IDs of others are UUIDs`,
				`cluster.impersonation.mode: Unsupported value: "maybe": supported values: "Enforce", "Warn", "Off"`,
				`controllerManager.selector: Required value: without labels, every Deployment would be treated as a cloud controller manager`,
				`controllerManager.clusterNameLabel: Invalid value: "/": prefix part must be non-empty`,
				`controllerManager.clusterNameLabel: Invalid value: "/": name part must be non-empty`,
				`controllerManager.clusterNameLabel: Invalid value: "/": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
				`controllerManager.secretName: Invalid value: "No Secret": ` + subdomain,
				`audit.interval: Invalid value: "-1m": must be a duration of at least 1s, such as 90s or 10m`,
				`audit.providers[0].workspace: Invalid value: "root:../a": must be the path of a workspace, such as root:provider, or its logical cluster`,
				`audit.providers[0].apiExport: Invalid value: "A_B": ` + subdomain,
				`audit.providers[2]: Duplicate value: {"workspace":"root:a","apiExport":"b"}`,
				`audit.requestsPerSecond: Invalid value: "-1": must be a whole number, at least 1`,
			},
		},
		"first claims that nothing checks later": {
			raw:  header + "machine: {unknown: AdmitFirstClaims}\naudit: {mode: Off}\n",
			want: []string{`machine.unknown: Invalid value: "AdmitFirstClaims": needs audit.mode, because nothing else checks the admitted claims later`},
		},
		"reports that nothing writes": {
			raw:  header + "audit: {mode: Off, reports: true}\n",
			want: []string{`audit.reports: Invalid value: true: needs audit.mode, because the audit writes the reports`},
		},
		"an API from which another field is derived": {
			raw:  header + "cloudSigma: {api: http://example.com/}\n",
			want: []string{`cloudSigma.api: Invalid value: "http://example.com/": ` + notATemplate},
		},
		"kinds of several groups with one resource": {
			raw: header + `openStack: {authURLs: [https://keystone.example.com]}
machine:
  kinds:
  - {group: a.io, version: v1, kind: Instance, resource: instances, provider: external, providerIDPath: spec.providerID}
  - {group: b.io, version: v1, kind: Instance, resource: instances, provider: external, providerIDPath: spec.providerID}
cluster:
  impersonation: {kinds: [{group: a.io, version: v1, kind: Secret, resource: secrets, emailPath: spec.email}]}
  delegation:
    kinds:
    - {group: a.io, version: v1, kind: Cluster, resource: clusters}
    - {group: b.io, version: v1, kind: Cluster, resource: clusters}
    - {group: cluster.x-k8s.io, version: v1beta2, kind: Cluster, resource: clusters}
`,
			want: []string{
				`machine.kinds[1].resource: Invalid value: "instances": ` + notUnique,
				`cluster.impersonation.kinds[0].resource: Invalid value: "secrets": ` + notUnique,
				`cluster.delegation.kinds[1].resource: Invalid value: "clusters": ` + notUnique,
				`cluster.delegation.kinds[2].resource: Invalid value: "clusters": ` + notUnique,
			},
		},
		"an object without a namespace": {
			raw:  header + "controllerManager: {objects: [{name: ccm}]}\n",
			want: []string{"controllerManager.objects[0].namespace: Required value"},
		},
		"a default region that is not listed": {
			raw:  header + "cloudSigma: {regions: [zrh, next], defaultRegion: zhr}\n",
			want: []string{`cloudSigma.defaultRegion: Invalid value: "zhr": must be one of cloudSigma.regions, because machines of clusters without spec.region are denied otherwise`},
		},
		"a cloud to which tokens must not be sent": {
			raw: header + `cloudSigma:
  regions: [zrh, "evil.example.com/"]
  defaultRegion: "@127.0.0.1/#"
  api: http://{region}.cloudsigma.com/api/2.0/
  legacyAPI: ftp://{region}.cloudsigma.com/api/2.0/
  serviceProviderAPI: https://user:password@example.com/?x={region}
  tokenPath: token
  flow: Magic
  concurrency: -1
`,
			want: []string{
				`cloudSigma.regions[1]: Invalid value: "evil.example.com/": must match ^[a-z0-9-]{1,63}$`,
				`cloudSigma.defaultRegion: Invalid value: "@127.0.0.1/#": must match ^[a-z0-9-]{1,63}$`,
				`cloudSigma.api: Invalid value: "http://{region}.cloudsigma.com/api/2.0/": ` + notATemplate,
				`cloudSigma.legacyAPI: Invalid value: "ftp://{region}.cloudsigma.com/api/2.0/": ` + notATemplate,
				`cloudSigma.serviceProviderAPI: Invalid value: "https://user:xxxxx@example.com/?x={region}": ` + notATemplate,
				`cloudSigma.tokenPath: Invalid value: "token": must be a plain path that begins with /`,
				`cloudSigma.flow: Unsupported value: "Magic": supported values: "ServiceProvider", "TokenExchange"`,
				`cloudSigma.concurrency: Invalid value: "-1": must be a whole number, at least 1`,
			},
		},
		"policies for Keystone, but not where they are": {
			raw:  header + "keystonePolicy: {mode: Enforce}\n",
			want: []string{`keystonePolicy.selector: Required value: without labels, every ConfigMap and Secret would be treated as a policy`},
		},
		"policies for Keystone under names that there are not": {
			raw: header + "keystonePolicy: {objects: [{namespace: keystone, name: policy}, {namespace: a/b, name: policy}, {namespace: keystone, name: policy}, {namespace: keystone, name: \"\"}]}\n",
			want: []string{
				`keystonePolicy.objects[1].namespace: Invalid value: "a/b": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', ` +
					`and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
				`keystonePolicy.objects[2]: Duplicate value: "keystone/policy"`,
				`keystonePolicy.objects[3].name: Required value`,
			},
		},
		"policies for Keystone over a base that there is not": {
			raw: header + "keystonePolicy: {objects: [{namespace: keystone, name: policy}], base: [{namespace: keystone, name: live}, {namespace: keystone, name: live, keys: [a/b]}]}\n",
			want: []string{
				`keystonePolicy.base[1]: Duplicate value: "keystone/live"`,
				`keystonePolicy.base[1].keys[0]: Invalid value: "a/b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' ` +
					`(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`,
			},
		},
		"policies for a Keystone that is not known": {
			raw: header + "keystonePolicy: {objects: [{namespace: keystone, name: policy}], keystoneRelease: \"2021.1\"}\n",
			want: []string{
				`keystonePolicy.keystoneRelease: Unsupported value: "2021.1": supported values: "2022.2", "2023.1", "2023.2", "2024.1", "2024.2", "2025.1", "2025.2", "2026.1", "2026.2"`,
			},
		},
		"rules of extensions by a pattern that there is not": {
			raw:  header + "keystonePolicy: {objects: [{namespace: keystone, name: policy}], keystoneRelease: caracal, knownRules: [\"identity:scim_*\", \"identity:[\"]}\n",
			want: []string{`keystonePolicy.knownRules[1]: Invalid value: "identity:[": must be a pattern of path.Match, such as "identity:scim_*"`},
		},
		"policies for Keystone in a mode, under labels and keys that there are not": {
			raw: header + "keystonePolicy: {mode: maybe, selector: {matchExpressions: [{key: a, operator: Like}]}, keys: [policy.yaml, a/b]}\n",
			want: []string{
				`keystonePolicy.mode: Unsupported value: "maybe": supported values: "Enforce", "Warn", "Off"`,
				`keystonePolicy.selector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator`,
				`keystonePolicy.keys[1]: Invalid value: "a/b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' ` +
					`(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`,
			},
		},
		"an OpenStack without a URL, and roles that contradict each other": {
			raw: header + `delegation:
  openStackRoles: {required: [Admin], allowed: ["", member], denied: [Member]}
cluster:
  delegation:
    mode: maybe
    through: Hope
    operators: {users: [{name: "[a"}], projects: [{}]}
    unrestrictedApplicationCredentials: Enforce
openStack:
  authURLs: [keystone, "https://user:password@keystone.example.com/v3"]
  concurrency: -1
`,
			want: []string{
				`delegation.openStackRoles.required[0]: Forbidden: an administrator's role is never delegated`,
				`delegation.openStackRoles.allowed[0]: Required value: the name of a role`,
				`delegation.openStackRoles.allowed[1]: Invalid value: "member": is among those denied as well`,
				`cluster.delegation.mode: Unsupported value: "maybe": supported values: "Enforce", "Warn", "Off"`,
				`cluster.delegation.through: Unsupported value: "Hope": supported values: "ApplicationCredential", "Trust"`,
				`cluster.delegation.unrestrictedApplicationCredentials: Unsupported value: "Enforce": supported values: "Warn", "Deny"`,
				`cluster.delegation.operators.users[0].name: Invalid value: "[a": must be a pattern of path.Match, such as "team-*"`,
				`cluster.delegation.operators.projects[0]: Required value: id, name or domain`,
				`openStack.authURLs[0]: Invalid value: "keystone": ` + notAnAuthURL,
				`openStack.authURLs[1]: Invalid value: "https://user:xxxxx@keystone.example.com/v3": ` + notAnAuthURL,
				`openStack.concurrency: Invalid value: "-1": must be a whole number, at least 1`,
			},
		},
		"a mode that YAML 1.1 reads as true": {
			raw:  header + "workspace: {ownerRewrite: {mode: on}}",
			want: []string{`workspace.ownerRewrite.mode: Unsupported value: "on": supported values: "Enforce", "Warn", "Off"`},
		},
		"a field in another case, which would otherwise win or lose by chance": {
			raw:  header + "workspace: {ownerRewrite: {mode: Enforce, Mode: Warn}}",
			want: []string{`workspace.ownerRewrite.Mode: unknown field; did you mean mode?`},
		},
		"a field that occurs twice in YAML": {
			raw:  header + "workspace: {}\nworkspace: {}\n",
			want: []string{"workspace: is set twice, first in line 3"},
		},
		"a field that occurs twice in JSON": {
			raw: `{"apiVersion":"config.warrantgate.dev/v1beta1","kind":"GateConfiguration","kind":"GateConfiguration"}`,
			want: []string{
				"kind: is set twice, first in line 1",
			},
		},
		"a number where a name belongs": {
			raw:  header + "delegation: {keepWarrants: {users: [1]}}",
			want: []string{`delegation.keepWarrants.users[0]: Invalid value: "1": must be text: write it in quotes, as "1"`},
		},
		"a list where the configuration belongs": {
			raw:  "[]",
			want: []string{"the file must be a mapping of fields"},
		},
		"neither YAML nor JSON": {
			raw:  "{",
			want: []string{"yaml: line 1: did not find expected node content"},
		},
		"a tab before the first field of a mapping": {
			raw:  header + "audit:\n\tinterval: 5m\n",
			want: []string{"begins with a tab; indent it with spaces"},
		},
		"a tab before a later field of a mapping": {
			raw:  header + "audit:\n  mode: Off\n  \tinterval: 5m\n",
			want: []string{"begins with a tab; indent it with spaces"},
		},
		"a character that is reserved, in a file with a tab": {
			raw:  header + "audit: {\n\t}\nmachine: @\n\trepair: {}\n",
			want: []string{"yaml: line 5: found character that cannot start any token"},
		},
		"brackets without end": {
			raw:  strings.Repeat("[", 100_000),
			want: []string{"yaml: exceeded max depth of 10000"},
		},
		"no UTF-8": {
			raw:  "\xff",
			want: []string{"yaml: invalid leading UTF-8 octet"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := config.Parse([]byte(tc.raw))
			if err == nil {
				t.Fatalf("Parse() = %+v, want an error", got)
			}
			if diff := cmp.Diff(tc.want, mistakes(err), cmpopts.SortSlices(strings.Compare)); diff != "" {
				t.Errorf("Parse() error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(v1beta1.GateConfiguration{}, got); diff != "" {
				t.Errorf("Parse() returns a configuration next to the error:\n%s", diff)
			}
		})
	}
}

var atLine = regexp.MustCompile("^line [0-9]+: ")

// mistakes returns the texts of err, without lines, one for each error that it is made of.
func mistakes(err error) []string {
	many, ok := errors.AsType[config.Mistakes](err)
	if !ok {
		return []string{err.Error()}
	}
	var texts []string
	for _, one := range many {
		texts = append(texts, atLine.ReplaceAllString(one.Error(), ""))
	}
	return texts
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.yaml", header+"workspace: {ownerRewrite: {mode: Warn}}")
	bad := write("bad.yaml", header+"workspace: {ownerRewrite: {mode: Sometimes}}")
	newer := write("newer.yaml", "apiVersion: config.warrantgate.dev/v1\nkind: GateConfiguration\n")

	for name, tc := range map[string]struct {
		path    string
		want    v1beta1.GateConfiguration
		wantErr string
	}{
		"no path means the defaults": {
			path: "",
			want: configuration(),
		},
		"a file is read": {
			path: good,
			want: configuration(withModes(v1beta1.Warn, v1beta1.Enforce)),
		},
		"a file of a version that there is not is named": {
			path:    newer,
			wantErr: "configuration " + newer + `: line 1: apiVersion: Unsupported value: "config.warrantgate.dev/v1": supported values: ` + versions,
		},
		"a missing file is named": {
			path:    filepath.Join(dir, "missing.yaml"),
			wantErr: "read the configuration: open " + filepath.Join(dir, "missing.yaml") + ": no such file or directory",
		},
		"a file with a mistake is named": {
			path: bad,
			wantErr: "configuration " + bad +
				`: line 3: workspace.ownerRewrite.mode: Unsupported value: "Sometimes": supported values: "Enforce", "Warn", "Off"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := config.Load(tc.path)
			gotErr := ""
			if err != nil {
				gotErr = err.Error()
			}
			if diff := cmp.Diff(tc.wantErr, gotErr); diff != "" {
				t.Errorf("Load() error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Load() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDefaultEnforcesAndPassesOnNoDelegation(t *testing.T) {
	if diff := cmp.Diff(configuration(), v1beta1.Default()); diff != "" {
		t.Errorf("Default() (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(identity.Policy{}, v1beta1.Default().Policy()); diff != "" {
		t.Errorf("Default().Policy() (-want +got):\n%s", diff)
	}
}

func TestPolicyIsThatOfTheFile(t *testing.T) {
	config := configuration(withKeptWarrants([]string{"bob"}, []string{"ops", "team-*"}))
	want := identity.Policy{Users: []string{"bob"}, Groups: []string{"ops", "team-*"}}
	if diff := cmp.Diff(want, config.Policy()); diff != "" {
		t.Errorf("Policy() (-want +got):\n%s", diff)
	}
}

// FuzzParse checks that no file makes Parse panic, and that an accepted file is complete, valid, and read the same again, from YAML and
// from JSON.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"",
		header,
		header + "workspace:\n  ownerRewrite:\n    mode: Off\n  ownerIntegrity:\n    mode: Warn\n",
		header + "delegation: {keepWarrants: {users: [bob, 'team-*', '['], groups: ['', \"\\u00e9?\"]}}\n",
		`{"apiVersion":"config.warrantgate.dev/v1beta1","kind":"GateConfiguration","workspace":{"ownerRewrite":{"mode":false}}}`,
		"a: &a [*a]",
		"\xff\xfe",
	} {
		f.Add([]byte(seed))
	}
	f.Add(read(f, everyField))
	modes := []v1beta1.Mode{v1beta1.Enforce, v1beta1.Warn, v1beta1.Off}
	f.Fuzz(func(t *testing.T, raw []byte) {
		accepted, err := config.Parse(raw)
		if err != nil {
			if diff := cmp.Diff(v1beta1.GateConfiguration{}, accepted); diff != "" {
				t.Fatalf("a configuration comes with the error %v:\n%s", err, diff)
			}
			return
		}
		for _, gate := range []v1beta1.Gate{accepted.Workspace.OwnerRewrite, accepted.Workspace.OwnerIntegrity} {
			if !slices.Contains(modes, gate.Mode) {
				t.Errorf("mode %q was accepted", gate.Mode)
			}
		}
		inYAML, err := yaml.Marshal(accepted)
		if err != nil {
			t.Fatal(err)
		}
		inJSON, err := json.Marshal(accepted)
		if err != nil {
			t.Fatal(err)
		}
		for _, written := range [][]byte{inYAML, inJSON} {
			again, err := config.Parse(written)
			if err != nil {
				t.Fatalf("read again: %v\n%s", err, written)
			}
			if diff := cmp.Diff(accepted, again, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("read again (-want +got):\n%s", diff)
			}
		}
	})
}

func TestTheFileOfDefaults(t *testing.T) {
	got, err := config.Load("defaults.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v1beta1.Default(), got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("defaults.yaml has other defaults (-want +got):\n%s", diff)
	}
}

func TestWhereRegionsAreRequired(t *testing.T) {
	for name, tc := range map[string]struct {
		cloud v1beta1.CloudSigma
		want  bool
	}{
		"by default":                                    {want: true},
		"with regions":                                  {cloud: v1beta1.CloudSigma{Regions: []string{"zrh"}}},
		"a region in a path":                            {cloud: v1beta1.CloudSigma{API: "https://a/{region}/", ServiceProviderAPI: "https://b/{region}/"}},
		"a region in the host of the API":               {cloud: v1beta1.CloudSigma{API: "https://{region}.a/", ServiceProviderAPI: "https://b/"}, want: true},
		"a region in the host for legacy credentials":   {cloud: v1beta1.CloudSigma{API: "https://a/", LegacyAPI: "https://{region}.a/", ServiceProviderAPI: "https://b/"}, want: true},
		"a region in the other host":                    {cloud: v1beta1.CloudSigma{API: "https://a/", ServiceProviderAPI: "https://b.{region}:8443/"}, want: true},
		"a region in the other host, which is not used": {cloud: v1beta1.CloudSigma{API: "https://a/", Flow: v1beta1.TokenExchange}},
	} {
		t.Run(name, func(t *testing.T) {
			config := v1beta1.GateConfiguration{CloudSigma: tc.cloud}
			v1beta1.SetDefaults(&config)
			if err := config.CloudSigma.RequireRegions(); (err != nil) != tc.want {
				t.Errorf("RequireRegions() = %v, want an error: %t", err, tc.want)
			}
		})
	}
}

func TestHostForLegacyCredentials(t *testing.T) {
	const direct, legacy = "https://direct.{region}.cloudsigma.com/api/2.0/", "https://{region}.cloudsigma.com/api/2.0/"
	for name, tc := range map[string]struct {
		cloud v1beta1.CloudSigma
		want  string
	}{
		"by default":            {want: legacy},
		"the default, repeated": {cloud: v1beta1.CloudSigma{API: direct}, want: legacy},
		"a private endpoint":    {cloud: v1beta1.CloudSigma{API: "https://cloud.example.com/{region}/"}, want: "https://cloud.example.com/{region}/"},
		"one for each":          {cloud: v1beta1.CloudSigma{API: "https://a/", LegacyAPI: "https://b/"}, want: "https://b/"},
		"only its own":          {cloud: v1beta1.CloudSigma{LegacyAPI: "https://b/"}, want: "https://b/"},
	} {
		t.Run(name, func(t *testing.T) {
			config := v1beta1.GateConfiguration{CloudSigma: tc.cloud}
			for range 2 { // the defaults of defaults are the same
				v1beta1.SetDefaults(&config)
				if got := config.CloudSigma.LegacyAPI; got != tc.want {
					t.Errorf("LegacyAPI = %q, want %q", got, tc.want)
				}
			}
		})
	}
}

func TestUnknownPolicy(t *testing.T) {
	for _, tc := range []struct{ set, audited, not v1beta1.UnknownPolicy }{
		{"", v1beta1.AdmitFirstClaims, v1beta1.Deny}, {v1beta1.AdmitFirstClaims, v1beta1.AdmitFirstClaims, v1beta1.Deny},
		{v1beta1.Deny, v1beta1.Deny, v1beta1.Deny}, {v1beta1.Admit, v1beta1.Admit, v1beta1.Admit},
	} {
		machine := v1beta1.Machine{Unknown: tc.set}
		if audited, not := machine.UnknownPolicy(true), machine.UnknownPolicy(false); audited != tc.audited || not != tc.not {
			t.Errorf("%q: %s for machines that are audited, %s for others, want %s and %s", tc.set, audited, not, tc.audited, tc.not)
		}
	}
}
