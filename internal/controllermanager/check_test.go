package controllermanager_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/controllermanager"
	"warrantgate.dev/internal/ownership"
)

const label = "cluster.x-k8s.io/cluster-name"

// objects answers with fixed objects of namespace ns.
type objects struct {
	t          *testing.T
	account    ownership.Account
	accountErr error
	keys       []string
	found      bool
	keysErr    error
}

func (o objects) Account(_ context.Context, cluster clusterapi.Cluster) (ownership.Account, error) {
	want := clusterapi.Cluster{Provider: v1beta1.ProviderCloudSigma, Namespace: "ns", Name: "metal"}
	if diff := cmp.Diff(want, cluster); diff != "" {
		o.t.Errorf("read another cluster (-want +got):\n%s", diff)
	}
	return o.account, o.accountErr
}

func (o objects) SecretKeysNow(_ context.Context, namespace, name string) ([]string, bool, error) {
	if namespace != "ns" || name != secret {
		o.t.Errorf("read Secret %s/%s", namespace, name)
	}
	return o.keys, o.found, o.keysErr
}

func TestCheck(t *testing.T) {
	const containersAt = "spec.template.spec.containers"
	selected := map[string]string{label: "metal", "app": "ccm"}
	problem := func(reason, at, message string) []controllermanager.Problem {
		return []controllermanager.Problem{{Reason: reason, Field: at, Message: message}}
	}
	deselected := problem("ControllerManagerDeselected", "metadata.labels", "its labels make it a controller manager (app=ccm), and without them "+
		"its next change would not be checked; leave them, or delete the object and make another one")
	type (
		config   = v1beta1.ControllerManager
		workload = controllermanager.Workload
	)
	selector := func(c *config) { c.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "ccm"}} }
	deselect := func(w *workload) { w.LabelsBefore, w.Labels = selected, map[string]string{label: "metal"} }
	byDefault := func(c *config) { *c = v1beta1.Default().ControllerManager }
	asReleased := func(command string) func(*workload) { // as CAPCS e03b577 does
		return func(w *workload) {
			c := &w.Pod.Containers[0]
			c.Name, c.Command = "manager", []string{command}
			c.Args = []string{"--leader-elect", "--metrics-bind-address=:8080", "--health-probe-bind-address=:8081"}
			c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz"}}}
		}
	}
	asNobody := func(command string) func(*workload) {
		return func(w *workload) {
			asReleased(command)(w)
			w.Labels, w.Pod.Containers[0].Env = map[string]string{"app": "cloudsigma-ccm"}, nil
		}
	}
	withoutCluster := controllermanager.Problem{
		Reason: "ControllerManagerWithoutCluster", Field: "metadata.labels[" + label + "]", Message: `it has no label "` + label + `", so the user of its ` +
			"cluster is unknown; set the label to the name of its CloudSigmaCluster",
	}
	for name, tc := range map[string]struct {
		config   func(*config)
		workload func(*workload)
		objects  func(*objects)
		want     []controllermanager.Problem
		manager  int
		// unknown means that the check ends before the account of the cluster is known.
		unknown bool
		// unnamed means that the cluster has no name.
		unnamed bool
		// nobody means that the controller manager has no identity.
		nobody bool
		err    string
	}{
		"all correct":                     {},
		"it is not selected any more":     {config: selector, workload: deselect, want: deselected, unknown: true},
		"it is created without labels":    {config: selector, workload: func(w *workload) { deselect(w); w.Exists = false }},
		"it was not selected before":      {config: selector, workload: func(w *workload) { deselect(w); w.LabelsBefore = nil }},
		"it is selected before and after": {config: selector, workload: func(w *workload) { deselect(w); w.Labels = selected }},
		"it is selected by its name": {config: func(c *config) {
			selector(c)
			c.Objects = []v1beta1.NamedObject{{Namespace: "ns", Name: "manager"}}
		}, workload: deselect},
		"another is selected by its name": {config: func(c *config) {
			selector(c)
			c.Objects = []v1beta1.NamedObject{{Namespace: "ns", Name: "other"}}
		}, workload: deselect, want: deselected, unknown: true},
		"no selector":                         {workload: deselect},
		"a selector that cannot be evaluated": {config: func(c *config) { c.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"-": ""}} }, workload: deselect},

		"the provider's own manifest, and the defaults": {config: byDefault, workload: asReleased("/ccm")},
		"the provider's own manifest word for word": {
			config: byDefault, workload: asNobody("/ccm"), unknown: true, nobody: true,
		},
		"the provider's own manifest, in which the cluster's label is empty": {
			config: byDefault, workload: func(w *workload) { asNobody("/ccm")(w); w.Labels = map[string]string{label: ""} }, unknown: true, nobody: true,
		},
		"no cluster, and another command": {
			config: byDefault, workload: asNobody("/bin/sh"), unknown: true, want: append(problem("CommandReplaced", containersAt+"[0].command",
				"it has a command in place of the image's entrypoint, which could act as any user with the credentials; remove it and put the flags into args, "+
					"or add the first word of the command to controllerManager.commands of warrantgate's configuration"), withoutCluster),
		},
		"another command, and the defaults": {
			config: byDefault, workload: asReleased("/bin/ccm"),
			want: problem("CommandReplaced", containersAt+"[0].command", "it has a command in place of the image's entrypoint, which could act as any user with the "+
				"credentials; remove it and put the flags into args, or add the first word of the command to controllerManager.commands of warrantgate's configuration"),
		},

		"the only container": {config: func(c *config) { c.Container = "" }},
		"the second container": {workload: func(w *workload) {
			w.Pod.Containers = append([]corev1.Container{{Name: "proxy"}}, w.Pod.Containers...)
		}, manager: 1},
		"the first container": {workload: func(w *workload) { w.Pod.Containers = append(w.Pod.Containers, corev1.Container{Name: "proxy"}) }},
		"no container of the name": {
			config: func(c *config) { c.Container = "manager" }, unknown: true,
			want: problem("ContainerMissing", containersAt, `it has no container "manager", which is the one that warrantgate is configured to give the identity to; `+
				"use this name, or change controllerManager.container of warrantgate's configuration"),
		},
		"no container": {
			config: func(c *config) { c.Container = "" }, workload: func(w *workload) { w.Pod.Containers = nil }, unknown: true,
			want: problem("ContainerMissing", containersAt, "it has no container that could be given the identity"),
		},
		"a container without a name": {
			config: func(c *config) { c.Container = "" }, workload: func(w *workload) { w.Pod.Containers[0].Name = "" }, unknown: true,
			want: problem("ContainerMissing", containersAt, "it has no container that could be given the identity"),
		},
		"several containers": {
			config: func(c *config) { c.Container = "" }, unknown: true,
			workload: func(w *workload) { w.Pod.Containers = append(w.Pod.Containers, corev1.Container{Name: "proxy"}) },
			want: problem("ContainerAmbiguous", containersAt, `it has several containers ("ccm", "proxy"), and it is not configured which one is the controller manager; `+
				"set controllerManager.container of warrantgate's configuration to its name"),
		},

		"no cluster": {
			workload: func(w *workload) { w.Labels = nil }, unknown: true,
			want: []controllermanager.Problem{withoutCluster},
		},
		"a label that is no name": { // it would be in a request to the API server, and in the log
			workload: func(w *workload) { w.Labels = map[string]string{label: strings.Repeat("x", 1<<20)} }, unknown: true, unnamed: true,
			want: problem("ControllerManagerWithoutCluster", "metadata.labels["+label+"]", `its label "`+label+`" has no valid value; `+
				"set the label to the name of its CloudSigmaCluster"),
		},
		"a cluster that does not exist": {
			objects: func(o *objects) {
				o.account, o.accountErr = ownership.Account{}, &clusterapi.AccountError{Reason: clusterapi.ClusterMissing, Message: "there is no such cluster"}
			},
			want:    problem(string(clusterapi.ClusterMissing), "metadata.labels["+label+"]", "the user or the region of its cluster is unknown: there is no such cluster"),
			unknown: true,
		},
		"a cluster with a region that is not allowed": { // which is not copied
			objects: func(o *objects) {
				o.account, o.accountErr = ownership.Account{}, &clusterapi.AccountError{Reason: "RegionNotAllowed", Message: `"@evil" is not a valid region`}
			},
			want:    problem("RegionNotAllowed", "metadata.labels["+label+"]", `the user or the region of its cluster is unknown: "@evil" is not a valid region`),
			unknown: true,
		},
		"a cluster without a user": {
			objects: func(o *objects) { o.account = ownership.Account{} }, unknown: true,
			want: problem(string(clusterapi.UserMissing), "metadata.labels["+label+"]", `the user or the region of its cluster is unknown: CloudSigmaCluster "metal" names no user`),
		},
		"a cluster that cannot be read": {
			objects: func(o *objects) { o.account, o.accountErr = ownership.Account{}, errors.New("timeout") }, unknown: true,
			err: "read the cluster: timeout",
		},

		"no Secret": {
			objects: func(o *objects) { o.keys, o.found = nil, false },
			want: problem("SecretMissing", containersAt+"[0].env", `there is no Secret "cloudsigma-impersonation" in its namespace, which its pods need to start; `+
				"create it first, with the keys oauth-url, client-id, client-secret"),
		},
		"a Secret without a key": {
			objects: func(o *objects) { o.keys = []string{"client-id"} },
			want: problem("SecretMissing", containersAt+"[0].env", `Secret "cloudsigma-impersonation" of its namespace has no values for oauth-url, client-secret, `+
				"which its pods need to start; add them first"),
		},
		"a Secret that cannot be read": {objects: func(o *objects) { o.keysErr = errors.New("timeout") }, err: "read the Secret: timeout"},

		"it acts as another user": {
			workload: func(w *workload) { w.Pod.Containers[0].Env[5].Value = "zrh" },
			want: problem("RegionMismatch", containersAt+"[0].env[5]", `CLOUDSIGMA_REGION is "zrh"; it has to be "next", the region of CloudSigmaCluster "metal": `+
				"remove the variable, and warrantgate sets it, or correct the cluster"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := config{ClusterNameLabel: label, SecretName: secret, Container: "ccm"}
			w := workload{Namespace: "ns", Name: "manager", Labels: selected, LabelsBefore: selected, Exists: true, Pod: pod().PodSpec}
			o := objects{t: t, account: metal.Account, keys: []string{"oauth-url", "client-id", "client-secret"}, found: true}
			if tc.config != nil {
				tc.config(&c)
			}
			if tc.workload != nil {
				tc.workload(&w)
			}
			if tc.objects != nil {
				tc.objects(&o)
			}
			want := controllermanager.Result{Cluster: w.Labels[label], Manager: tc.manager, Problems: tc.want, Nobody: tc.nobody}
			if !tc.unknown {
				want.Account = metal.Account
			}
			if tc.unnamed {
				want.Cluster = ""
			}
			got, err := controllermanager.Check(t.Context(), c, o, w)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || err.Error() != tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

// TestNobody checks that a controller manager without a cluster is denied as soon as anything could give it an identity.
func TestNobody(t *testing.T) {
	source := corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "any"}}}
	for name, modify := range map[string]func(*corev1.PodSpec){
		"a variable":               func(p *corev1.PodSpec) { p.Containers[0].Env = []corev1.EnvVar{{Name: "X"}} },
		"variables from elsewhere": func(p *corev1.PodSpec) { p.Containers[0].EnvFrom = []corev1.EnvFromSource{source} },
		"a variable of an init container": func(p *corev1.PodSpec) {
			p.InitContainers = []corev1.Container{{Name: "i", Env: []corev1.EnvVar{{Name: "X"}}}}
		},
		"variables of another container": func(p *corev1.PodSpec) {
			p.Containers = append(p.Containers, corev1.Container{Name: "o", EnvFrom: []corev1.EnvFromSource{source}})
		},
		"a volume": func(p *corev1.PodSpec) { p.Volumes = []corev1.Volume{{Name: "any"}} },
	} {
		t.Run(name, func(t *testing.T) {
			w := controllermanager.Workload{Namespace: "ns", Name: "ccm", Pod: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager"}}}}
			c := v1beta1.Default().ControllerManager
			c.Container = "manager"
			if got, err := controllermanager.Check(t.Context(), c, objects{t: t}, w); err != nil || !got.Nobody || len(got.Problems) > 0 {
				t.Fatalf("without anything: %+v, %v", got, err)
			}
			modify(&w.Pod)
			got, err := controllermanager.Check(t.Context(), c, objects{t: t}, w)
			if err != nil || got.Nobody || len(got.Problems) != 1 || got.Problems[0].Reason != "ControllerManagerWithoutCluster" {
				t.Errorf("Check() = %+v, %v", got, err)
			}
		})
	}
}

func TestGlobalCredentials(t *testing.T) {
	const global = "cloudsigma-credentials"
	envFrom := func(source corev1.EnvFromSource) func(*controllermanager.Pod) {
		return func(p *controllermanager.Pod) { p.Containers[0].EnvFrom = []corev1.EnvFromSource{source} }
	}
	fromSecretNamed := func(name string) corev1.EnvFromSource {
		return corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
	}
	volumes := func(sources ...corev1.VolumeSource) func(*controllermanager.Pod) {
		return func(p *controllermanager.Pod) {
			for _, source := range sources {
				p.Volumes = append(p.Volumes, corev1.Volume{Name: "creds", VolumeSource: source})
			}
		}
	}
	volumeOf := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}
	}
	for name, tc := range map[string]struct {
		modify func(*controllermanager.Pod)
		// where contains the fields with the global credentials, "" if there are none.
		where string
	}{
		"nothing":                              {modify: withEnv()},
		"a name":                               {modify: withEnv(corev1.EnvVar{Name: "CLOUDSIGMA_USERNAME", Value: "root"}), where: "CLOUDSIGMA_USERNAME"},
		"a password from anywhere":             {modify: withEnv(fromSecret("CLOUDSIGMA_PASSWORD", "own", "p")), where: "CLOUDSIGMA_PASSWORD"},
		"an empty name":                        {modify: withEnv(corev1.EnvVar{Name: "CLOUDSIGMA_USERNAME"})},
		"the legacy mode":                      {modify: withEnv(corev1.EnvVar{Name: "CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS", Value: "1"}), where: "CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS"},
		"the legacy mode, perhaps":             {modify: withEnv(corev1.EnvVar{Name: "CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS", Value: "on?"}), where: "CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS"},
		"the legacy mode from anywhere":        {modify: withEnv(fromSecret("CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS", "own", "p")), where: "CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS"},
		"the legacy mode is off":               {modify: withEnv(corev1.EnvVar{Name: "CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS", Value: "F"})},
		"the legacy mode is empty":             {modify: withEnv(corev1.EnvVar{Name: "CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS"})},
		"any variable of their Secret":         {modify: withEnv(fromSecret("A", global, "p")), where: "A"},
		"a variable of another Secret":         {modify: withEnv(fromSecret("A", "own", "p"))},
		"a variable of another source":         {modify: withEnv(corev1.EnvVar{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{}}})},
		"the environment of their Secret":      {modify: envFrom(corev1.EnvFromSource{Prefix: "X_", SecretRef: fromSecretNamed(global).SecretRef}), where: `envFrom Secret "cloudsigma-credentials"`},
		"the environment of another Secret":    {modify: envFrom(fromSecretNamed("own"))},
		"the environment of a ConfigMap":       {modify: fromConfigMap("X_")},
		"a volume of their Secret":             {modify: volumes(volumeOf(global)), where: `volume "creds" with Secret "cloudsigma-credentials"`},
		"a volume of another Secret":           {modify: volumes(volumeOf("own"), volumeOf(secret))},
		"volumes without a Secret":             {modify: volumes(corev1.VolumeSource{}, corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}, corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{}}, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{}}}})},
		"the Secret of impersonation has that": {modify: func(p *controllermanager.Pod) { p.Secret = global; volumes(volumeOf(global))(p) }},
		"a projected volume with their Secret": {
			modify: volumes(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: global}}},
			}}}), where: `volume "creds" with Secret "cloudsigma-credentials"`,
		},
		"two of them": {
			modify: func(p *controllermanager.Pod) { withEnv(fromSecret("A", global, "p"))(p); volumes(volumeOf(global))(p) },
			where:  `A, volume "creds" with Secret "cloudsigma-credentials"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var want []controllermanager.Problem
			if tc.where != "" {
				want = []controllermanager.Problem{{
					Reason: "GlobalCredentials", Field: "spec.template.spec",
					Message: "it has the global credentials (" + tc.where + "), but impersonation is on, and with them the cloud does not show it " +
						"the servers of the cluster's user; remove them",
				}}
			}
			if diff := cmp.Diff(want, pod(tc.modify).Confined(nil, nil)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
