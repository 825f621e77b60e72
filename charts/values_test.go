package charts_test

import (
	"encoding/json"
	"strings"
	"testing"

	"warrantgate.dev/charts/charttest"
)

// keystoneOnly are values that need no cloud.
const keystoneOnly = "config: {machine: {mode: Off}, audit: {mode: Off}}\n"

// generatedNowhere is the message if Helm cannot check whether a certificate already exists.
const generatedNowhere = "without access to the cluster (helm template, GitOps) a generated certificate would be another one each time: " +
	"set certificates.certManager.enabled or certificates.secret.name"

func TestInvalidValuesAreErrors(t *testing.T) {
	for name, tc := range map[string]struct{ values, want string }{
		"a typo at the top":                    {certificate + keystoneOnly + "replicaCount: 3", "replicaCount"},
		"a typo below":                         {certificate + keystoneOnly + "networkPolicy: {enable: true}", "enable"},
		"a typo in a gate":                     {certificate + "config: {machine: {mod: Off}}", "mod"},
		"a typo in a kind":                     {certificate + "config: {machine: {kinds: [{group: a, version: v1, kind: A, resource: as, provider: cloudsigma, path: b}]}}", "path"},
		"a kind without a group":               {certificate + "config: {machine: {kinds: [{version: v1, kind: A, resource: as, provider: cloudsigma}]}}", "group"},
		"an unknown field":                     {certificate + "config: {audit: {rate: 5}}", "'rate' not allowed"},
		"no request":                           {certificate + "config: {audit: {requestsPerSecond: 0}}", "requestsPerSecond"},
		"no concurrent request":                {certificate + "config: {cloudSigma: {concurrency: 0}}", "concurrency"},
		"an interval of a millisecond":         {certificate + "config: {audit: {interval: 1ms}}", "interval"},
		"an interval of zero":                  {certificate + "config: {audit: {interval: 0h0s}}", "interval"},
		"an interval without a unit":           {certificate + "config: {repair: {after: \"5\"}}", "after"},
		"a typo in a selector":                 {certificate + "config: {keystonePolicy: {selector: {matchLabel: {a: b}}}}", "matchLabel"},
		"an unknown mode":                      {certificate + "config: {machine: {mode: Maybe}}", "mode"},
		"a mode in another case":               {certificate + "config: {machine: {mode: enforce}}", "mode"},
		"a mode that YAML reads as true":       {certificate + "config: {machine: {mode: on}}", "mode"},
		"a region that is a host":              {certificate + "config: {cloudSigma: {regions: [zrh.example.com]}}", "/config/cloudSigma/regions/0"},
		"a URL that sends tokens without TLS":  {certificate + "config: {cloudSigma: {api: \"http://a/\"}}", "/config/cloudSigma/api"},
		"a Keystone without a scheme":          {certificate + "config: {openStack: {authURLs: [keystone:5000]}}", "/config/openStack/authURLs/0"},
		"a namespace that is none":             {certificate + "config: {cluster: {exemptNamespaces: [a.b]}}", "/config/cluster/exemptNamespaces/0"},
		"a field that is no path":              {certificate + "config: {machine: {kinds: [{group: a, version: v1, kind: A, resource: as, provider: openstack, instanceIDPath: id}]}}", "/config/machine/kinds/0/instanceIDPath"},
		"a workspace that is none":             {certificate + "config: {audit: {providers: [{workspace: Root, apiExport: a}]}}", "/config/audit/providers/0/workspace"},
		"a release of no Keystone":             {certificate + "config: {keystonePolicy: {keystoneRelease: \"2025\"}}", "/config/keystonePolicy/keystoneRelease"},
		"a release without quotes":             {certificate + "config: {keystonePolicy: {keystoneRelease: 2025.1}}", "got number, want string"},
		"a principal without a name":           {certificate + "config: {cluster: {delegation: {operators: {users: [{}]}}}}", "minProperties"},
		"a number in quotes":                   {certificate + keystoneOnly + "replicas: \"3\"", "replicas"},
		"no replica":                           {certificate + keystoneOnly + "replicas: 0", "replicas"},
		"a digest that is a tag":               {certificate + keystoneOnly + "image: {digest: latest}", "digest"},
		"a rewrite in another case":            {certificate + keystoneOnly + "kcp: {install: {rewrite: policy}}", "rewrite"},
		"a failure policy in another case":     {certificate + keystoneOnly + "failurePolicy: ignore", "failurePolicy"},
		"a URL without TLS":                    {certificate + "kubernetes: {enabled: false}\nkcp: {enabled: true, url: \"http://a\"}", "url"},
		"a configuration that is null":         {certificate + "config: null", "missing property 'config'"},
		"a Secret that is null":                {certificate + "cloudSigma: {secret: null}", "at '/cloudSigma': missing property 'secret'"},
		"kube-system, gated":                   {certificate + keystoneOnly + "kubernetes: {excludedNamespaces: []}", "excludedNamespaces"},
		"a Service that is published on nodes": {certificate + keystoneOnly + "service: {type: NodePort}", "type"},

		"a generated certificate without a cluster":   {keystoneOnly, generatedNowhere},
		"one for a kcp without a cluster":             {"kubernetes: {enabled: false}\nkcp: {enabled: true}", generatedNowhere},
		"the life of a generated certificate":         {keystoneOnly + "certificates: {selfManaged: {duration: 48h}}", "selfManaged"},
		"a CA of no certificate":                      {keystoneOnly + "certificates: {secret: {caBundle: \"-----BEGIN CERTIFICATE-----\"}}", "certificates.secret.caBundle requires certificates.secret.name"},
		"two certificates":                            {certificate + keystoneOnly + "---", "there are two serving certificates"},
		"a certificate without its CA":                {keystoneOnly + "certificates: {secret: {name: tls}}", "certificates.secret.caBundle has to be the CA"},
		"no gate":                                     {certificate + "kubernetes: {enabled: false}", "no gate is enabled"},
		"machines without a cloud":                    {certificate, "config.machine.mode and config.audit.mode need a cloud"},
		"an audit without a cloud":                    {certificate + "config: {machine: {mode: \"Off\"}}", "config.machine.mode and config.audit.mode need a cloud"},
		"policies by no labels":                       {certificate + "config: {machine: {mode: Off}, audit: {mode: Off}, keystonePolicy: {mode: Warn}}", "config.keystonePolicy.selector is required"},
		"controller managers by labels that are none": {certificate + "config: {machine: {mode: Off}, audit: {mode: Off}, controllerManager: {selector: {}}}", "config.controllerManager.selector is required"},
		"a cloud without regions": {
			certificate + "cloudSigma: {enabled: true, secret: {name: cloudsigma}}",
			"config.cloudSigma.regions is required: the region of an object becomes part of the host that tokens are sent to, so list the regions, such as [zrh]",
		},
		"a service provider API without regions": {
			certificate + "cloudSigma: {enabled: true, secret: {name: cloudsigma}}\nconfig: {cloudSigma: {api: \"https://cloud.example.com/api\"}}",
			"config.cloudSigma.regions is required",
		},
		"an API for legacy credentials without regions": {
			certificate + "cloudSigma: {enabled: true, secret: {name: cloudsigma}}\n" +
				"config: {cloudSigma: {flow: TokenExchange, api: \"https://cloud.example.com/api\", legacyAPI: \"https://{region}.example.com/\"}}",
			"config.cloudSigma.regions is required",
		},
		"legacy credentials that admit first claims without an answer": {
			certificate + "cloudSigma: {legacySecret: cloudsigma-credentials}\nconfig: {cloudSigma: {regions: [zrh]}}",
			"cloudSigma.legacySecret needs config.machine.unknown: Deny",
		},
		"legacy credentials without regions": {
			certificate + "cloudSigma: {legacySecret: cloudsigma-credentials}\nconfig: {machine: {unknown: Deny}}", "config.cloudSigma.regions is required",
		},
		"a cloud without credentials":       {certificate + "cloudSigma: {enabled: true}", "cloudSigma.enabled needs cloudSigma.secret.name"},
		"credentials that no pod can mount": {certificate + "kubernetes: {enabled: false}\nkcp: {enabled: true}\ncloudSigma: {enabled: true, secret: {name: a, namespace: b}}\nconfig: {cloudSigma: {regions: [zrh]}}", "has to be in the namespace of the release"},
		"an OpenStack beside a kcp only":    {certificate + "kubernetes: {enabled: false}\nkcp: {enabled: true}\nconfig: {openStack: {authURLs: [\"https://keystone.example.com/v3\"]}}", "config.openStack.authURLs and config.audit.reports need kubernetes.enabled"},
		"reports beside a kcp only":         {certificate + "kubernetes: {enabled: false}\nkcp: {enabled: true}\nconfig: {audit: {reports: true}}", "config.openStack.authURLs and config.audit.reports need kubernetes.enabled"},
		"a Job that installs in no kcp":     {certificate + keystoneOnly + "kcp: {install: {enabled: true, kubeconfigSecret: a}}", "kcp.install.enabled needs kcp.enabled"},
		"a Job without a kubeconfig":        {certificate + keystoneOnly + "kcp: {enabled: true, install: {enabled: true}}", "kcp.install.kubeconfigSecret"},
		"one of two values that the audit needs": {
			certificate + "kubernetes: {enabled: false}\ncloudSigma: {enabled: true, secret: {name: c}}\nconfig: {cloudSigma: {regions: [zrh]}}\n" +
				"kcp: {enabled: true, kubeconfigSecret: a, install: {enabled: true, kubeconfigSecret: b, providers: [{kubeconfigSecret: c, workspace: root:a}]}}",
			"kcp.install.providers: set both workspace and apiExport, or neither",
		},
		"an audit on kcp without a cloud": {
			certificate + "kubernetes: {enabled: false}\nconfig: {audit: {providers: [{workspace: root:a, apiExport: b}]}}\nkcp: {enabled: true, kubeconfigSecret: a}",
			"config.audit.providers needs kcp.enabled, cloudSigma.enabled and kcp.kubeconfigSecret",
		},
		"providers without a cloud": {
			certificate + keystoneOnly + "kcp: {enabled: true, kubeconfigSecret: a, install: {enabled: true, kubeconfigSecret: b, providers: [{kubeconfigSecret: c}]}}",
			"kcp.install.providers needs kcp.install.enabled, cloudSigma.enabled and kcp.kubeconfigSecret",
		},
		"a provider without a kubeconfig": {
			certificate + keystoneOnly + "kcp: {enabled: true, install: {enabled: true, kubeconfigSecret: b, providers: [{context: c}]}}", "kubeconfigSecret",
		},
		"clients of a CA, without names":    {certificate + keystoneOnly + "clients: {caBundle: \"-----BEGIN CERTIFICATE-----\"}", "set both clients.caBundle and clients.names, or neither"},
		"clients by name, without a CA":     {certificate + keystoneOnly + "clients: {names: [kube-apiserver]}", "set both clients.caBundle and clients.names, or neither"},
		"a client of two names in one":      {certificate + keystoneOnly + "clients: {caBundle: \"-----BEGIN CERTIFICATE-----\", names: [\"a,b\"]}", "names"},
		"profiles on no port":               {certificate + keystoneOnly + "pprof: {port: 70000}", "port"},
		"nodes that could never be drained": {certificate + keystoneOnly + "replicas: 2", "podDisruptionBudget.minAvailable has to be less than replicas"},
		"one replica":                       {certificate + keystoneOnly + "replicas: 1", "with one replica, set podDisruptionBudget.enabled to false"},
	} {
		t.Run(name, func(t *testing.T) {
			values, twice := strings.CutSuffix(tc.values, "---")
			args := []string{}
			if twice {
				args = append(args, "--set=certificates.certManager.enabled=true")
			}
			_, err := charttest.Template(t.Context(), values, args...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want one with %q", err, tc.want)
			}
		})
	}
}

// schema has the compared parts of a JSON schema.
type schema struct {
	Ref                  string            `json:"$ref"`
	Type                 any               `json:"type"`
	Properties           map[string]schema `json:"properties"`
	Items                *schema           `json:"items"`
	AdditionalProperties any               `json:"additionalProperties"`
	Definitions          map[string]schema `json:"definitions"`
}

func readSchema(t *testing.T) schema {
	t.Helper()
	var read schema
	if err := json.Unmarshal([]byte(readFile(t, "warrantgate/values.schema.json")), &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// TestTheSchemaAllowsEveryField checks that the schema, which has fewer rules than serve, allows what serve does.
func TestTheSchemaAllowsEveryField(t *testing.T) {
	_, file, _ := strings.Cut(readFile(t, "../internal/config/v1beta1/testdata/every-field.yaml"), "kind: GateConfiguration\n")
	template(t, certificate+"cloudSigma: {enabled: true, secret: {name: a}}\nkcp: {enabled: true, kubeconfigSecret: a}\nconfig:\n  "+strings.ReplaceAll(file, "\n", "\n  "))
}

// TestTheSchemaAllowsNoUnknownValues checks that no object allows unknown names, except for labels and annotations.
func TestTheSchemaAllowsNoUnknownValues(t *testing.T) {
	var walk func(path string, s schema)
	walk = func(path string, s schema) {
		for name, property := range s.Properties {
			walk(path+"."+name, property)
		}
		if s.Items != nil {
			walk(path+"[]", *s.Items)
		}
		if texts, isMap := s.AdditionalProperties.(map[string]any); s.Ref == "" && strings.Contains(typeOf(s), "object") &&
			s.AdditionalProperties != false && (!isMap || texts["type"] != "string") {
			t.Errorf("%s takes any name", path)
		}
	}
	root := readSchema(t)
	walk("values", root)
	for name, definition := range root.Definitions {
		walk(name, definition)
	}
}

func typeOf(s schema) string {
	text, _ := json.Marshal(s.Type)
	return string(text)
}
