package controllermanager_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"warrantgate.dev/internal/controllermanager"
	"warrantgate.dev/internal/ownership"
)

const (
	user   = "tenant@example.com"
	secret = "cloudsigma-impersonation"
	argsAt = "spec.template.spec.containers[0].args"
)

var metal = controllermanager.Identity{Cluster: "metal", Account: ownership.Account{Cloud: "cloudsigma", User: user, Region: "next"}}

func fromSecret(name, secret, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key},
	}}
}

// identity is the required environment of a controller manager, with additional variables.
func identity(more ...corev1.EnvVar) []corev1.EnvVar {
	return append([]corev1.EnvVar{
		{Name: "CLOUDSIGMA_IMPERSONATION_ENABLED", Value: "true"},
		fromSecret("CLOUDSIGMA_OAUTH_URL", secret, "oauth-url"),
		fromSecret("CLOUDSIGMA_CLIENT_ID", secret, "client-id"),
		fromSecret("CLOUDSIGMA_CLIENT_SECRET", secret, "client-secret"),
		{Name: "CLOUDSIGMA_USER_EMAIL", Value: user},
		{Name: "CLOUDSIGMA_REGION", Value: "next"},
	}, more...)
}

// pod is the pod of a valid controller manager, changed by modify.
func pod(modify ...func(*controllermanager.Pod)) controllermanager.Pod {
	p := controllermanager.Pod{Secret: secret, PodSpec: corev1.PodSpec{Containers: []corev1.Container{{Name: "ccm", Env: identity()}}}}
	for _, m := range modify {
		m(&p)
	}
	return p
}

func fromConfigMap(prefix string) func(*controllermanager.Pod) {
	return func(p *controllermanager.Pod) {
		p.Containers[0].EnvFrom = []corev1.EnvFromSource{{Prefix: prefix, ConfigMapRef: &corev1.ConfigMapEnvSource{}}}
	}
}

func withEnv(more ...corev1.EnvVar) func(*controllermanager.Pod) {
	return func(p *controllermanager.Pod) { p.Containers[0].Env = identity(more...) }
}

func TestFlags(t *testing.T) {
	const byVariable = "an argument begins with a variable, so that it could be any flag; write it as --flag=$(VARIABLE)"
	unknown := func(name string) string {
		return "the flag " + name + " is not known to be harmless, and could select another identity; remove it, because warrantgate sets the " +
			"identity in the environment, or add it to controllerManager.flags of warrantgate's configuration"
	}
	at := func(i int, reason, message string) controllermanager.Problem {
		return controllermanager.Problem{Reason: reason, Field: argsAt + "[" + strconv.Itoa(i) + "]", Message: message}
	}
	denied := func(i int, name string) []controllermanager.Problem {
		return []controllermanager.Problem{at(i, "FlagNotAllowed", unknown(name))}
	}
	variable := []controllermanager.Problem{at(0, "FlagNotAllowed", byVariable)}
	csiToken := []controllermanager.Problem{at(0, "CSITokenEnabled", "the flag --enable-csi-token is set; it "+writesToken+": remove the flag")}
	allowCSIToken := func(p *controllermanager.Pod) { p.AllowCSIToken = true }
	for name, tc := range map[string]struct {
		args, allowed []string
		modify        func(*controllermanager.Pod)
		want          []controllermanager.Problem
	}{
		"none":                                 {},
		"harmless ones":                        {args: []string{"--cloud-provider=cloudsigma", "-v=4", "-v", "4", "--leader-elect", "serve", "user-email", "--kubeconfig=$(HOME)/k"}},
		"those of CloudSigma's own README":     {args: []string{"--tenant-kubeconfig=/etc/kubernetes/kubeconfig", "--cluster-name=$(CLUSTER_NAME)", "--disable-lb-ip-pool"}},
		"one that the configuration allows":    {args: []string{"--zap-devel", "-zap-level", "x"}, allowed: []string{"zap-devel", "zap-level"}},
		"an email":                             {args: []string{"--user-email=boss@example.com"}, want: denied(0, "--user-email")},
		"an email, and the configuration":      {args: []string{"--user-email=boss@example.com"}, allowed: []string{"user", "email"}, want: denied(0, "--user-email")},
		"one dash":                             {args: []string{"-user-email=boss@example.com"}, want: denied(0, "-user-email")},
		"three dashes":                         {args: []string{"---user-email=boss@example.com"}, want: denied(0, "---user-email")},
		"an underscore":                        {args: []string{"--user_email=boss@example.com"}, want: denied(0, "--user_email")},
		"other letters":                        {args: []string{"--Leader-Elect"}, want: denied(0, "--Leader-Elect")},
		"the prefix of the environment":        {args: []string{"--cloudsigma-user-email=boss@example.com"}, want: denied(0, "--cloudsigma-user-email")},
		"after an argument that is not a flag": {args: []string{"serve", "--user-email=boss@example.com"}, want: denied(1, "--user-email")},
		"after a harmless one":                 {args: []string{"--leader-elect", "--user-email=boss@example.com"}, want: denied(1, "--user-email")},
		"after two dashes":                     {args: []string{"serve", "--", "--user-email=boss@example.com"}, want: denied(1, "--")},
		"a part of an allowed name":            {args: []string{"--leader", "x"}, want: denied(0, "--leader")},
		"two":                                  {args: []string{"--region=zrh", "--user-email=boss@example.com"}, want: append(denied(0, "--region"), denied(1, "--user-email")...)},
		"a value with a dash is not shown":     {args: []string{"--client-secret", "-s3cret", "--region"}, want: append(denied(0, "--client-secret"), denied(2, "--region")...)},
		"a value is not shown":                 {args: []string{"--client-secret=s3cret"}, want: denied(0, "--client-secret")},
		"a variable":                           {args: []string{"$(FLAG)"}, want: variable},
		"a variable before a flag":             {args: []string{"$(EMPTY)--user-email=boss@example.com"}, want: variable},
		"a variable in the name":               {args: []string{"--user$(HALF)=boss@example.com"}, want: variable},
		"a dash and a variable":                {args: []string{"-$(FLAG)"}, want: variable},
		"a variable in a value":                {args: []string{"--cluster-name=$(NAME)", "/path/$(NODE)"}},
		"a token for the tenant cluster":       {args: []string{"--enable-csi-token"}, want: csiToken},
		"a token, one dash and a value":        {args: []string{"-enable-csi-token=TRUE"}, want: csiToken},
		"a token that is allowed":              {args: []string{"--enable-csi-token", "--enable-csi-token=true"}, modify: allowCSIToken},
		"a flag in the command": {
			modify: func(p *controllermanager.Pod) { p.Containers[0].Command = []string{"/ccm", "--region=zrh"} },
			want:   []controllermanager.Problem{{Reason: "FlagNotAllowed", Field: "spec.template.spec.containers[0].command[1]", Message: unknown("--region")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod()
			if tc.modify != nil {
				tc.modify(&p)
			}
			p.Containers[0].Args = tc.args
			got := p.Confined([]string{"/ccm"}, tc.allowed)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if strings.Contains(controllermanager.Joined(got), "s3cret") {
				t.Error("the secret is repeated")
			}
		})
	}
}

// writesToken follows the flag or the variable that turns on the token for a CSI driver.
const writesToken = "makes the controller manager write a token of the cluster's user into the tenant cluster, " +
	"which controllerManager.allowCSIToken of warrantgate's configuration does not allow"

func TestCSIToken(t *testing.T) {
	token := func(value string) corev1.EnvVar {
		return corev1.EnvVar{Name: "CLOUDSIGMA_ENABLE_CSI_TOKEN", Value: value}
	}
	allowed := func(p *controllermanager.Pod) { p.AllowCSIToken = true }
	for name, tc := range map[string]struct {
		modify []func(*controllermanager.Pod)
		want   bool
	}{
		"on":                         {modify: []func(*controllermanager.Pod){withEnv(token("true"))}, want: true},
		"on, in another spelling":    {modify: []func(*controllermanager.Pod){withEnv(token("T"))}, want: true},
		"perhaps":                    {modify: []func(*controllermanager.Pod){withEnv(token("$(ON)"))}, want: true},
		"from anywhere":              {modify: []func(*controllermanager.Pod){withEnv(fromSecret("CLOUDSIGMA_ENABLE_CSI_TOKEN", "own", "on"))}, want: true},
		"off":                        {modify: []func(*controllermanager.Pod){withEnv(token("false"))}},
		"empty":                      {modify: []func(*controllermanager.Pod){withEnv(token(""))}},
		"on, and allowed":            {modify: []func(*controllermanager.Pod){withEnv(token("true")), allowed}},
		"from anywhere, and allowed": {modify: []func(*controllermanager.Pod){withEnv(fromSecret("CLOUDSIGMA_ENABLE_CSI_TOKEN", "own", "on")), allowed}},
	} {
		t.Run(name, func(t *testing.T) {
			var want []controllermanager.Problem
			if tc.want {
				want = []controllermanager.Problem{{
					Reason: "CSITokenEnabled", Field: "spec.template.spec.containers[0].env[6]",
					Message: "CLOUDSIGMA_ENABLE_CSI_TOKEN is set; it " + writesToken + ": remove the variable",
				}}
			}
			p := pod(tc.modify...)
			if diff := cmp.Diff(want, append(p.Confined(nil, nil), p.ActsAs(metal)...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnvFromCannotEnableWhatIsDenied(t *testing.T) {
	off := map[string]string{
		"CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS": "false", "CLOUDSIGMA_USERNAME": "", "CLOUDSIGMA_PASSWORD": "", "CLOUDSIGMA_ENABLE_CSI_TOKEN": "false",
	}
	for name, tc := range map[string]struct {
		modify []func(*controllermanager.Pod)
		want   []string
	}{
		"no envFrom": {},
		"any names": {[]func(*controllermanager.Pod){fromConfigMap("")}, []string{
			"CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS", "CLOUDSIGMA_USERNAME", "CLOUDSIGMA_PASSWORD", "CLOUDSIGMA_ENABLE_CSI_TOKEN",
		}},
		"any names, and a token for a CSI driver is allowed": {
			[]func(*controllermanager.Pod){fromConfigMap(""), func(p *controllermanager.Pod) { p.AllowCSIToken = true }},
			[]string{"CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS", "CLOUDSIGMA_USERNAME", "CLOUDSIGMA_PASSWORD"},
		},
		"names after a prefix":        {[]func(*controllermanager.Pod){fromConfigMap("CLOUDSIGMA_USER")}, []string{"CLOUDSIGMA_USERNAME"}},
		"names after another prefix":  {[]func(*controllermanager.Pod){fromConfigMap("APP_")}, nil},
		"nothing is left of the name": {[]func(*controllermanager.Pod){fromConfigMap("CLOUDSIGMA_USERNAME")}, nil},
		"variables that are already set": {[]func(*controllermanager.Pod){
			fromConfigMap(""), withEnv(corev1.EnvVar{Name: "CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS"}, corev1.EnvVar{Name: "CLOUDSIGMA_USERNAME"}),
		}, []string{"CLOUDSIGMA_PASSWORD", "CLOUDSIGMA_ENABLE_CSI_TOKEN"}},
	} {
		t.Run(name, func(t *testing.T) {
			var want []controllermanager.Problem
			for _, variable := range tc.want {
				want = append(want, controllermanager.Problem{
					Reason: "EnvironmentUnchecked", Field: "spec.template.spec.containers[0].env",
					Message: variable + ` is missing; it has to be "` + off[variable] + `", or envFrom could set it to something else`,
					Fix:     &controllermanager.Fix{Index: -1, Variable: corev1.EnvVar{Name: variable, Value: off[variable]}},
				})
			}
			if diff := cmp.Diff(want, pod(tc.modify...).ActsAs(metal)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	const (
		at          = "spec.template.spec.containers[0].env"
		ofTheSecret = ` of Secret "cloudsigma-impersonation" (valueFrom.secretKeyRef, not optional)`
		hasEmail    = `it has to be "tenant@example.com", the user of CloudSigmaCluster "metal"`
		removeIt    = ": remove the variable, and warrantgate sets it"
	)
	optional := func(of bool, key string) corev1.EnvVar {
		v := fromSecret("CLOUDSIGMA_CLIENT_ID", secret, key)
		v.ValueFrom.SecretKeyRef.Optional = ptr.To(of)
		return v
	}
	fieldRef := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}
	correct := identity()
	replaced := func(i int) *controllermanager.Fix {
		return &controllermanager.Fix{Index: i, Variable: correct[i], Replaces: true}
	}
	for name, tc := range map[string]struct {
		index int
		have  corev1.EnvVar
		want  *controllermanager.Problem
	}{
		"impersonation is off": {0, corev1.EnvVar{Value: "false"}, &controllermanager.Problem{
			Reason: "ImpersonationNotEnabled", Message: `CLOUDSIGMA_IMPERSONATION_ENABLED has another value; it has to be "true"`, Fix: replaced(0),
		}},
		"impersonation is empty": {0, corev1.EnvVar{}, &controllermanager.Problem{
			Reason: "ImpersonationNotEnabled", Message: `CLOUDSIGMA_IMPERSONATION_ENABLED is empty; it has to be "true"`,
			Fix: &controllermanager.Fix{Index: 0, Variable: correct[0]},
		}},
		"another Secret": {1, fromSecret("", "own", "oauth-url"), &controllermanager.Problem{
			Reason: "SecretReferenceMismatch", Fix: replaced(1),
			Message: `CLOUDSIGMA_OAUTH_URL comes from the key "oauth-url" of Secret "own"; it has to come from the key oauth-url` + ofTheSecret,
		}},
		"another source": {1, corev1.EnvVar{ValueFrom: fieldRef}, &controllermanager.Problem{
			Reason: "SecretReferenceMismatch", Fix: replaced(1),
			Message: "CLOUDSIGMA_OAUTH_URL has another value; it has to come from the key oauth-url" + ofTheSecret,
		}},
		"a plain client ID": {2, corev1.EnvVar{Value: "x"}, &controllermanager.Problem{
			Reason: "SecretReferenceMismatch", Fix: replaced(2),
			Message: "CLOUDSIGMA_CLIENT_ID has another value; it has to come from the key client-id" + ofTheSecret,
		}},
		"a key that is optional": {2, optional(true, "client-id"), &controllermanager.Problem{
			Reason: "SecretReferenceMismatch", Fix: replaced(2),
			Message: `CLOUDSIGMA_CLIENT_ID comes from the key "client-id" of Secret "cloudsigma-impersonation"; it has to come from the key client-id` + ofTheSecret,
		}},
		"a key that is not optional": {2, optional(false, "client-id"), nil},
		"another key that is not optional": {2, optional(false, "client-secret"), &controllermanager.Problem{
			Reason: "SecretReferenceMismatch", Fix: replaced(2),
			Message: `CLOUDSIGMA_CLIENT_ID comes from the key "client-secret" of Secret "cloudsigma-impersonation"; it has to come from the key client-id` + ofTheSecret,
		}},
		"a plain client secret": {3, corev1.EnvVar{Value: "s3cret"}, &controllermanager.Problem{
			Reason: "ClientSecretByValue", Fix: replaced(3),
			Message: "CLOUDSIGMA_CLIENT_SECRET was sent as a plain value, which audit logs, the annotation of kubectl apply and the history of manifests may keep; " +
				"it has to come from the key client-secret" + ofTheSecret + ": create a new client secret, and store it there",
		}},
		"a client secret of another Secret": {3, fromSecret("", "own", "client-secret"), &controllermanager.Problem{
			Reason: "SecretReferenceMismatch", Fix: replaced(3),
			Message: `CLOUDSIGMA_CLIENT_SECRET comes from the key "client-secret" of Secret "own"; it has to come from the key client-secret` + ofTheSecret,
		}},
		"an email in capitals": {4, corev1.EnvVar{Value: "TENANT@example.com"}, nil},
		"another email": {4, corev1.EnvVar{Value: "boss@example.com"}, &controllermanager.Problem{
			Reason: "UserEmailMismatch", Message: `CLOUDSIGMA_USER_EMAIL is "boss@example.com"; ` + hasEmail + removeIt + ", or correct the cluster",
		}},
		"an email from elsewhere": {4, corev1.EnvVar{ValueFrom: fieldRef}, &controllermanager.Problem{
			Reason:  "UserEmailMismatch",
			Message: "CLOUDSIGMA_USER_EMAIL comes from another source (valueFrom), which cannot be checked; " + hasEmail + removeIt,
		}},
		"an empty email": {4, corev1.EnvVar{}, &controllermanager.Problem{
			Reason: "UserEmailMismatch", Message: "CLOUDSIGMA_USER_EMAIL is empty; " + hasEmail, Fix: &controllermanager.Fix{Index: 4, Variable: correct[4]},
		}},
		"a region in capitals": {5, corev1.EnvVar{Value: "NEXT"}, &controllermanager.Problem{
			Reason: "RegionMismatch", Message: `CLOUDSIGMA_REGION is "NEXT"; it has to be "next", the region of CloudSigmaCluster "metal"` + removeIt + ", or correct the cluster",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.have.Name = correct[tc.index].Name
			var want []controllermanager.Problem
			if tc.want != nil {
				tc.want.Field = at + "[" + strconv.Itoa(tc.index) + "]"
				want = append(want, *tc.want)
			}
			p := pod(func(p *controllermanager.Pod) { p.Containers[0].Env[tc.index] = tc.have })
			if diff := cmp.Diff(want, p.ActsAs(metal)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			// If a name occurs twice, the valid variable does not hide the other one.
			p = pod(func(p *controllermanager.Pod) { p.Containers[0].Env = slices.Insert(identity(), 0, tc.have) })
			if got := p.ActsAs(metal); len(got) != len(want) {
				t.Errorf("with a correct one after it: %d problems, want %d", len(got), len(want))
			}
			p = pod(func(p *controllermanager.Pod) {
				p.Containers[0].Env = slices.Delete(p.Containers[0].Env, tc.index, tc.index+1)
			})
			missing := []controllermanager.Problem{{Field: at, Fix: &controllermanager.Fix{Index: -1, Variable: correct[tc.index]}}}
			texts := cmpopts.IgnoreFields(controllermanager.Problem{}, "Reason", "Message")
			if diff := cmp.Diff(missing, p.ActsAs(metal), texts); diff != "" {
				t.Errorf("without it (-want +got):\n%s", diff)
			}
			if got := controllermanager.Joined(p.ActsAs(metal)); !strings.HasPrefix(got, tc.have.Name+" is missing; it has to ") {
				t.Errorf("without it: %s", got)
			}
		})
	}
}

// If the email of a cluster were expanded, the client secret would be sent as part of it.
func TestDollarsAreNotExpanded(t *testing.T) {
	odd := controllermanager.Identity{Cluster: "metal", Account: ownership.Account{User: "$(clientsecret)@example.com", Region: "$(CLIENTSECRET)"}}
	p := pod(func(p *controllermanager.Pod) { p.Containers[0].Env = identity()[:4] })
	for _, problem := range p.ActsAs(odd) {
		p.Containers[0].Env = append(p.Containers[0].Env, problem.Fix.Variable)
	}
	want := slices.Concat(identity()[:4], []corev1.EnvVar{{Name: "CLOUDSIGMA_USER_EMAIL", Value: "$$(clientsecret)@example.com"},
		{Name: "CLOUDSIGMA_REGION", Value: "$$(CLIENTSECRET)"}})
	if diff := cmp.Diff(want, p.Containers[0].Env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if got := p.ActsAs(odd); got != nil {
		t.Errorf("problems %+v", got)
	}
	for i, raw := range map[int]string{4: odd.Account.User, 5: odd.Account.Region} {
		p.Containers[0].Env = slices.Clone(want)
		p.Containers[0].Env[i].Value = raw
		if got := p.ActsAs(odd); len(got) != 1 {
			t.Errorf("problems %+v, want one", got)
		}
	}
}

func TestOnlyTheManagerHasTheCredentials(t *testing.T) {
	const where = " and could act as any user with them; only container \"ccm\" may have them: remove them from the other one"
	volume := func(source corev1.VolumeSource) func(*controllermanager.Pod) {
		return func(p *controllermanager.Pod) { p.Volumes = []corev1.Volume{{Name: "creds", VolumeSource: source}} }
	}
	mounts := []corev1.VolumeMount{{Name: "creds", MountPath: "/creds"}}
	sidecar := func(c corev1.Container) func(*controllermanager.Pod) {
		return func(p *controllermanager.Pod) { c.Name = "other"; p.Containers = append(p.Containers, c) }
	}
	initial := func(c corev1.Container) func(*controllermanager.Pod) {
		return func(p *controllermanager.Pod) { c.Name = "other"; p.InitContainers = append(p.InitContainers, c) }
	}
	debug := func(c corev1.EphemeralContainerCommon) func(*controllermanager.Pod) {
		return func(p *controllermanager.Pod) {
			c.Name = "other"
			p.EphemeralContainers = append(p.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: c})
		}
	}
	share := func(p *controllermanager.Pod) { p.ShareProcessNamespace = ptr.To(true) }
	always := ptr.To(corev1.ContainerRestartPolicyAlways)
	ofSecret := func(name string) corev1.EnvFromSource {
		return corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
	}
	projected := corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}},
	}}}
	csi := corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: &corev1.LocalObjectReference{Name: secret}}}
	flex := corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{SecretRef: &corev1.LocalObjectReference{Name: secret}}}
	plain := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}
	for name, tc := range map[string]struct {
		modify []func(*controllermanager.Pod)
		// in is the path of the container with the problem, has the field with the credentials.
		in, has string
		shared  bool
	}{
		"a sidecar without them":           {modify: []func(*controllermanager.Pod){sidecar(corev1.Container{Env: []corev1.EnvVar{fromSecret("A", "own", "a")}})}},
		"other variables of a sidecar":     {modify: []func(*controllermanager.Pod){sidecar(corev1.Container{Env: []corev1.EnvVar{{Name: "A", Value: "a"}}, EnvFrom: []corev1.EnvFromSource{ofSecret("own"), {ConfigMapRef: &corev1.ConfigMapEnvSource{}}}})}},
		"another volume of a sidecar":      {modify: []func(*controllermanager.Pod){volume(plain), sidecar(corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "tmp"}}})}},
		"a volume of another Secret":       {modify: []func(*controllermanager.Pod){volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "own"}}), sidecar(corev1.Container{VolumeMounts: mounts})}},
		"a variable of a sidecar":          {modify: []func(*controllermanager.Pod){sidecar(corev1.Container{Env: []corev1.EnvVar{fromSecret("A", secret, "client-secret")}})}, in: "containers[1]", has: "A"},
		"the environment of a sidecar":     {modify: []func(*controllermanager.Pod){sidecar(corev1.Container{EnvFrom: []corev1.EnvFromSource{ofSecret(secret)}})}, in: "containers[1]", has: `envFrom Secret "cloudsigma-impersonation"`},
		"a volume of a sidecar":            {modify: []func(*controllermanager.Pod){volume(plain), sidecar(corev1.Container{VolumeMounts: mounts})}, in: "containers[1]", has: `volume "creds"`},
		"a projected volume":               {modify: []func(*controllermanager.Pod){volume(projected), sidecar(corev1.Container{VolumeMounts: mounts})}, in: "containers[1]", has: `volume "creds"`},
		"a volume of a CSI driver":         {modify: []func(*controllermanager.Pod){volume(csi), sidecar(corev1.Container{VolumeMounts: mounts})}, in: "containers[1]", has: `volume "creds"`},
		"a FlexVolume":                     {modify: []func(*controllermanager.Pod){volume(flex), sidecar(corev1.Container{VolumeMounts: mounts})}, in: "containers[1]", has: `volume "creds"`},
		"a volume that it does not mount":  {modify: []func(*controllermanager.Pod){volume(plain), sidecar(corev1.Container{})}},
		"a volume of the manager":          {modify: []func(*controllermanager.Pod){volume(plain), func(p *controllermanager.Pod) { p.Containers[0].VolumeMounts = mounts }}},
		"an init container":                {modify: []func(*controllermanager.Pod){initial(corev1.Container{EnvFrom: []corev1.EnvFromSource{ofSecret(secret)}})}, in: "initContainers[0]", has: `envFrom Secret "cloudsigma-impersonation"`},
		"an init container, all clusters'": {modify: []func(*controllermanager.Pod){initial(corev1.Container{EnvFrom: []corev1.EnvFromSource{ofSecret("cloudsigma-credentials")}})}, in: "initContainers[0]", has: `envFrom Secret "cloudsigma-credentials"`},
		"a container for debugging":        {modify: []func(*controllermanager.Pod){debug(corev1.EphemeralContainerCommon{EnvFrom: []corev1.EnvFromSource{ofSecret(secret)}})}, in: "ephemeralContainers[0]", has: `envFrom Secret "cloudsigma-impersonation"`},
		"processes are shared":             {modify: []func(*controllermanager.Pod){share, sidecar(corev1.Container{})}, in: "containers[1]", shared: true},
		"processes of the node":            {modify: []func(*controllermanager.Pod){func(p *controllermanager.Pod) { p.HostPID = true }, sidecar(corev1.Container{})}, in: "containers[1]", shared: true},
		"processes with an init container": {modify: []func(*controllermanager.Pod){share, initial(corev1.Container{})}},
		"processes with one that stays":    {modify: []func(*controllermanager.Pod){share, initial(corev1.Container{RestartPolicy: always})}, in: "initContainers[0]", shared: true},
		"no processes":                     {modify: []func(*controllermanager.Pod){share}},
	} {
		t.Run(name, func(t *testing.T) {
			var want []controllermanager.Problem
			switch {
			case tc.has != "":
				want = []controllermanager.Problem{{
					Reason: "SecretInAnotherContainer", Field: "spec.template.spec." + tc.in,
					Message: `container "other" also has the credentials (` + tc.has + ")," + where,
				}}
			case tc.shared:
				want = []controllermanager.Problem{{
					Reason: "ProcessesShared", Field: "spec.template.spec." + tc.in,
					Message: `container "other" could read the credentials from the process of container "ccm", because they share processes; ` +
						"remove shareProcessNamespace and hostPID",
				}}
			}
			if diff := cmp.Diff(want, pod(tc.modify...).Confined(nil, nil)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCommands(t *testing.T) {
	denied := []controllermanager.Problem{{
		Reason: "CommandReplaced", Field: "spec.template.spec.containers[0].command",
		Message: "it has a command in place of the image's entrypoint, which could act as any user with the credentials; remove it and put the flags " +
			"into args, or add the first word of the command to controllerManager.commands of warrantgate's configuration",
	}}
	for name, tc := range map[string]struct {
		command, allowed []string
		want             []controllermanager.Problem
	}{
		"none":                     {},
		"a shell":                  {command: []string{"sh", "-c", "exec /manager --user-email=boss@example.com"}, want: denied},
		"none is allowed":          {command: []string{"/manager"}, want: denied},
		"the one that is allowed":  {command: []string{"/manager", "--leader-elect"}, allowed: []string{"/ccm", "/manager"}},
		"another than the allowed": {command: []string{"/bin/manager"}, allowed: []string{"/manager"}, want: denied},
		"by way of a variable":     {command: []string{"$(PROGRAM)"}, allowed: []string{"/manager"}, want: denied},
		"a command without words":  {command: []string{""}, want: denied},
	} {
		t.Run(name, func(t *testing.T) {
			got := pod(func(p *controllermanager.Pod) { p.Containers[0].Command = tc.command }).Confined(tc.allowed, nil)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestExecHandlers(t *testing.T) {
	exec := func(command ...string) *corev1.ExecAction { return &corev1.ExecAction{Command: command} }
	probe := func(command ...string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: exec(command...)}}
	}
	attack := []string{"sh", "-c", "exec /manager --user-email=boss@example.com"}
	replaced := func(field string) controllermanager.Problem {
		field = "spec.template.spec.containers[0]." + field + ".exec.command"
		return controllermanager.Problem{Reason: "CommandReplaced", Field: field, Message: field + " runs another command with the credentials, " +
			"which could act as any user; use httpGet, grpc or tcpSocket for a probe, and remove the command of a lifecycle event, or add its " +
			"first word to controllerManager.commands of warrantgate's configuration"}
	}
	const word = "spec.template.spec.containers[0].readinessProbe.exec.command[1]"
	for name, tc := range map[string]struct {
		modify func(*corev1.Container)
		want   []controllermanager.Problem
	}{
		"a liveness probe": {
			modify: func(c *corev1.Container) { c.LivenessProbe = probe(attack...) }, want: []controllermanager.Problem{replaced("livenessProbe")},
		},
		"a readiness probe": {
			modify: func(c *corev1.Container) { c.ReadinessProbe = probe(attack...) }, want: []controllermanager.Problem{replaced("readinessProbe")},
		},
		"a startup probe": {
			modify: func(c *corev1.Container) { c.StartupProbe = probe(attack...) }, want: []controllermanager.Problem{replaced("startupProbe")},
		},
		"both lifecycle events": {
			modify: func(c *corev1.Container) {
				c.Lifecycle = &corev1.Lifecycle{
					PostStart: &corev1.LifecycleHandler{Exec: exec(attack...)}, PreStop: &corev1.LifecycleHandler{Exec: exec("sleep", "5")},
				}
			},
			want: []controllermanager.Problem{replaced("lifecycle.postStart"), replaced("lifecycle.preStop")},
		},
		"a command without words": {
			modify: func(c *corev1.Container) { c.StartupProbe = probe() }, want: []controllermanager.Problem{replaced("startupProbe")},
		},
		"no exec handler": {
			modify: func(c *corev1.Container) {
				c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz"}}}
				c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}}
			},
		},
		"an allowed command": {modify: func(c *corev1.Container) {
			c.ReadinessProbe = probe("/ccm", "health", "-v=1")
			c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: exec("/ccm", "stop")}}
		}},
		"an allowed command with another user": {
			modify: func(c *corev1.Container) { c.ReadinessProbe = probe("/ccm", "--user-email", "boss@example.com") },
			want: []controllermanager.Problem{{Reason: "FlagNotAllowed", Field: word, Message: "the flag --user-email is not known to be harmless, and could " +
				"select another identity; remove it, because warrantgate sets the identity in the environment, or add it to controllerManager.flags of " +
				"warrantgate's configuration"}},
		},
		"an allowed command with a variable": {
			modify: func(c *corev1.Container) {
				c.ReadinessProbe = probe("/ccm", "$(CLOUDSIGMA_CLIENT_ID)--user-email=boss@example.com")
			},
			want: []controllermanager.Problem{{Reason: "FlagNotAllowed", Field: word,
				Message: "an argument begins with a variable, so that it could be any flag; write it as --flag=$(VARIABLE)"}},
		},
		"an allowed command by way of a variable": {
			modify: func(c *corev1.Container) { c.ReadinessProbe = probe("$(PROGRAM)") }, want: []controllermanager.Problem{replaced("readinessProbe")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod(func(p *controllermanager.Pod) { tc.modify(&p.Containers[0]) })
			if diff := cmp.Diff(tc.want, p.Confined([]string{"/ccm"}, nil)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestKelvinSignIsNoK(t *testing.T) {
	kate := controllermanager.Identity{Cluster: "metal", Account: ownership.Account{User: "kate@example.com", Region: "next"}}
	p := pod()
	p.Containers[0].Env[4].Value = "\u212aate@example.com"
	var got []string
	for _, problem := range p.ActsAs(kate) {
		got = append(got, problem.Reason)
	}
	if diff := cmp.Diff([]string{"UserEmailMismatch"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
