package machine_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	apiadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/policytest"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/machine"
)

// builtIn are the kinds with a policy. The second one has an identity.
var builtIn = v1beta1.GateConfiguration{OpenStack: v1beta1.OpenStack{AuthURLs: []string{"any"}}}.BuiltInMachineKinds()

func providerIDs(provider v1beta1.Provider) ownership.IDFormat {
	if provider == v1beta1.ProviderOpenStack {
		return openstack.ProviderIDs
	}
	return cloudsigma.ProviderIDs
}

// validator is the admission plugin ValidatingAdmissionPolicy of the API server, with the policies of this package, next to the gate.
type validator struct {
	plugin     *validating.Plugin
	interfaces apiadmission.ObjectInterfaces
	gate       *machine.Gate
}

func newValidator(tb testing.TB) validator {
	tb.Helper()
	plugin, err := validating.NewPlugin(nil)
	if err != nil {
		tb.Fatal(err)
	}
	kinds := make([]clusterapi.Kind, 0, len(builtIn))
	for _, kind := range builtIn {
		kinds = append(kinds, clusterapi.Kind{MachineKind: kind, ParseInstanceID: ownership.ParseInstanceID, ParseProviderID: providerIDs(kind.Provider).Parse})
	}
	w := newWorld(func(w *world) { w.err = errors.New("no answer") })
	v := validator{
		plugin: plugin, interfaces: apiadmission.NewObjectInterfacesFromScheme(apiruntime.NewScheme()),
		gate: machine.New(v1beta1.Machine{}, kinds, w, w),
	}
	policytest.Start(tb, plugin, policytest.Options{
		Policies: machine.Policies(v1beta1.Enforce, builtIn, providerIDs),
		Authorizer: authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			return authorizer.DecisionDeny, "", nil
		}),
		Objects: []apiruntime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}},
		Evaluates: func(ctx context.Context) error {
			for _, kind := range builtIn {
				if v.validate(ctx, tb, kind, nil, newMachine(providerID("x"))) == nil {
					return errors.New("the policy denies nothing")
				}
			}
			return nil
		},
	})
	return v
}

// validate admits a write as the API server does.
func (v validator) validate(ctx context.Context, tb testing.TB, kind v1beta1.MachineKind, old, changed object) error {
	tb.Helper()
	asStored := func(o object) apiruntime.Object { // encoded and decoded as JSON, as all objects are
		o = maps.Clone(o)
		o["kind"] = kind.Kind
		var stored unstructured.Unstructured
		if err := stored.UnmarshalJSON(encode(tb, o)); err != nil {
			tb.Fatal(err)
		}
		return &stored
	}
	operation, before := apiadmission.Create, apiruntime.Object(nil)
	if old != nil {
		operation, before = apiadmission.Update, asStored(old)
	}
	resource := clusterapi.Kind{MachineKind: kind}.Resource()
	return v.plugin.Validate(ctx, apiadmission.NewAttributesRecord(asStored(changed), before, resource.GroupVersion().WithKind(kind.Kind), "team-a", machineName,
		resource, "", operation, nil, false, &user.DefaultInfo{Name: "alice"}), v.interfaces)
}

// byPolicy are the reasons of denials that the policy decides.
var byPolicy = map[string]int32{
	"InstanceIDInvalid": http.StatusUnprocessableEntity, "ProviderIDInvalid": http.StatusUnprocessableEntity,
	"MachineWithoutCluster": http.StatusForbidden,
}

const notByPolicy = "not by the policy"

var printable = regexp.MustCompile(`^[[:print:]]*$`)

// check evaluates a write by the policy and by the gate, and returns the reason if the policy denies it. Both must deny it with the same
// message, unless a field has a type that the gate rejects. The owners are the same before and after the write.
func (v validator) check(tb testing.TB, kind v1beta1.MachineKind, old, changed object) string {
	tb.Helper()
	err := v.validate(tb.Context(), tb, kind, old, changed)
	resource := clusterapi.Kind{MachineKind: kind}.Resource()
	r := admission.Request{AdmissionRequest: *review(tb, old, changed).Request}
	r.Resource = metav1.GroupVersionResource(resource)
	answer := v.gate.Review(tb.Context(), r)
	code, decided := byPolicy[answer.Reason]
	if _, oldErr := kindOf(kind).Decode(encode(tb, old)); answer.Reason == "Undecodable" || old != nil && oldErr != nil {
		if err != nil && answer.Decision == webhooks.Allowed {
			tb.Errorf("%v -> %v\npolicy: %v\n  gate: %s", old, changed, err, answer.Reason)
		}
		return notByPolicy // fields of other types are left to the gate
	}
	if (err != nil) != decided {
		tb.Errorf("%v -> %v\npolicy: %v\n  gate: %s %s", old, changed, err, answer.Reason, answer.Message)
	}
	if err == nil || !decided {
		return notByPolicy
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != code {
		tb.Errorf("%v -> %v\npolicy: %v, want code %d", old, changed, err, code)
	}
	policy := kind.Resource + ".machine.warrantgate.dev"
	prefix := kind.Resource + `.infrastructure.cluster.x-k8s.io "` + machineName + `" is forbidden: ValidatingAdmissionPolicy '` + policy + `' with binding '` + policy + `' denied request: `
	want := answer.Subject.Name + ": " + answer.Message
	got, found := strings.CutPrefix(err.Error(), prefix)
	text := string(encode(tb, changed))
	if !found || got != want && printable.MatchString(text) && !strings.Contains(text, `\`) { // only one of them escapes other characters
		tb.Errorf("%v -> %v: message (-gate +policy):\n%s", old, changed, cmp.Diff(prefix+want, err.Error()))
	}
	return answer.Reason
}

func TestPolicy(t *testing.T) {
	v := newValidator(t)
	label := func(name any) func(object) {
		return with("metadata.labels", object{"cluster.x-k8s.io/cluster-name": name})
	}
	identity := with("spec.identityRef", object{"type": "Secret", "name": "clouds", "cloudName": "other"})
	const openstackID = "openstack:///"
	for name, tc := range map[string]struct {
		kind     int // of builtIn
		old, new []func(object)
		want     string
	}{
		"a valid ID":                          {new: fields(instanceID(ownID)), want: notByPolicy},
		"another spelling":                    {new: fields(instanceID(" "+strings.ToUpper(ownID)+"/\n"), providerID("CloudSigma:///"+ownID)), want: notByPolicy},
		"a malformed ID":                      {new: fields(instanceID("soon")), want: "InstanceIDInvalid"},
		"a blank":                             {new: fields(instanceID(" ")), want: "InstanceIDInvalid"},
		"the nil UUID":                        {new: fields(instanceID("00000000-0000-0000-0000-000000000000")), want: "InstanceIDInvalid"},
		"an ID of a MiB":                      {new: fields(instanceID(strings.Repeat("é", 1<<19))), want: "InstanceIDInvalid"},
		"an ID after many blanks":             {new: fields(instanceID(strings.Repeat(" ", 1<<19) + ownID)), want: notByPolicy},
		"a quoted ID":                         {new: fields(instanceID(`"` + ownID + `"`)), want: "InstanceIDInvalid"},
		"a letter that folds":                 {new: fields(providerID("cloud\u017Figma://" + ownID)), want: "ProviderIDInvalid"},
		"the provider ID of another cloud":    {new: fields(providerID(openstackID + ownID)), want: "ProviderIDInvalid"},
		"two instances":                       {new: fields(instanceID(ownID), providerID("cloudsigma://"+foreignID)), want: notByPolicy},
		"no cluster":                          {new: fields(instanceID(ownID), label(nil)), want: "MachineWithoutCluster"},
		"an empty cluster":                    {new: fields(providerID("cloudsigma://"+ownID), label("")), want: "MachineWithoutCluster"},
		"no cluster and no instance":          {new: fields(label(nil)), want: notByPolicy},
		"a label removed":                     {old: fields(instanceID(ownID)), new: fields(instanceID(ownID), with("metadata.labels", nil)), want: "MachineWithoutCluster"},
		"a label changed, with a stored ID":   {old: fields(instanceID("soon")), new: fields(instanceID("soon"), label("other")), want: "InstanceIDInvalid"},
		"a heartbeat with a stored ID":        {old: fields(instanceID("soon")), new: fields(instanceID("soon"), with("status.ready", true)), want: notByPolicy},
		"the ID cleared":                      {old: fields(instanceID("soon")), new: fields(instanceID("")), want: notByPolicy},
		"a provider ID next to a stored ID":   {old: fields(instanceID("soon")), new: fields(instanceID("soon"), providerID("cloudsigma://"+ownID)), want: notByPolicy},
		"that of the stored ID, no cluster":   {old: fields(instanceID(ownID), label(nil)), new: fields(instanceID(ownID), providerID("cloudsigma://"+ownID), label(nil)), want: notByPolicy},
		"in another spelling, no cluster":     {old: fields(instanceID(ownID), label(nil)), new: fields(instanceID(ownID), providerID("CloudSigma:///"+ownID+"/"), label(nil)), want: notByPolicy},
		"that of another ID, no cluster":      {old: fields(instanceID(ownID), label(nil)), new: fields(instanceID(ownID), providerID("cloudsigma://"+foreignID), label(nil)), want: "MachineWithoutCluster"},
		"that of the stored ID, malformed":    {old: fields(instanceID(ownID)), new: fields(instanceID(ownID), providerID("cloudsigma://x/"+ownID)), want: "ProviderIDInvalid"},
		"a number":                            {new: fields(instanceID(5)), want: notByPolicy},
		"a status that is a list":             {new: fields(with("status", []any{"x"})), want: notByPolicy},
		"OpenStack: with a region":            {kind: 1, new: fields(providerID("OpenStack://RegionOne/" + ownID)), want: notByPolicy},
		"OpenStack: with the longest region":  {kind: 1, new: fields(providerID("openstack://" + strings.Repeat("é", 255) + "/" + ownID)), want: notByPolicy},
		"OpenStack: with a longer region":     {kind: 1, new: fields(providerID("openstack://" + strings.Repeat("e", 256) + "/" + ownID)), want: "ProviderIDInvalid"},
		"OpenStack: with a UUID for a region": {kind: 1, new: fields(instanceID(ownID), providerID("openstack://"+foreignID+"/"+ownID)), want: notByPolicy},
		"OpenStack: that of the stored ID":    {kind: 1, old: fields(instanceID(ownID), label(nil)), new: fields(instanceID(ownID), providerID(openstackID+ownID), label(nil)), want: notByPolicy},
		"OpenStack: of CloudSigma":            {kind: 1, new: fields(providerID("cloudsigma://" + ownID)), want: "ProviderIDInvalid"},
		"OpenStack: identity of a stored ID":  {kind: 1, old: fields(instanceID("soon")), new: fields(instanceID("soon"), identity), want: "InstanceIDInvalid"},
		"OpenStack: identity and no cluster":  {kind: 1, old: fields(instanceID(ownID), label(nil)), new: fields(instanceID(ownID), label(nil), identity), want: "MachineWithoutCluster"},
	} {
		t.Run(name, func(t *testing.T) {
			var old object
			if tc.old != nil {
				old = newMachine(tc.old...)
			}
			if got := v.check(t, builtIn[tc.kind], old, newMachine(tc.new...)); got != tc.want {
				t.Errorf("denied: %s, want %s", got, tc.want)
			}
		})
	}
}

// TestPolicyAgreesWithTheGate: for every write, the policy denies what the gate denies for one of its reasons, with the same message, and no
// expression fails to evaluate.
func TestPolicyAgreesWithTheGate(t *testing.T) {
	const count = 10_000
	v := newValidator(t)
	counts := policytest.Tally(t, count, func(seed uint64, count int) iter.Seq[string] {
		return func(yield func(string) bool) {
			random := rand.New(rand.NewPCG(16, seed))
			for range count {
				kind := builtIn[random.IntN(len(builtIn))]
				var old object
				if random.IntN(3) > 0 {
					old = someMachine(random, kind)
				}
				changed := someMachine(random, kind)
				if old != nil && random.IntN(3) == 0 {
					changed["status"] = old["status"]
				}
				if !yield(v.check(t, kind, old, changed)) {
					return
				}
			}
		}
	})
	t.Logf("writes by the reason of the policy: %v", counts)
	for reason := range byPolicy {
		if counts[reason] < count/50 {
			t.Errorf("%d writes were denied as %s, want at least %d: the generator has to be corrected", counts[reason], reason, count/50)
		}
	}
}

// someMachine generates a machine of an attacker who tries spellings that the policy and the gate read differently.
func someMachine(random *rand.Rand, kind v1beta1.MachineKind) object {
	pick := func(values ...any) any { return values[random.IntN(len(values))] }
	text := func(values ...string) string { return values[random.IntN(len(values))] }
	id := func() string { return lookAlike(random, text(ownID, ownID, foreignID)) }
	m := newMachine(with("metadata.labels", pick(
		nil, object{}, object{"cluster.x-k8s.io/cluster-name": "other"}, object{"cluster.x-k8s.io/cluster-name": ""}, object{"cluster.x-k8s.io/cluster-name": strings.Repeat("c", 63)},
		object{"cluster.x-k8s.io/cluster-name": "metal"}, object{"cluster.x-k8s.io/cluster-name": "metal"}, object{"cluster.x-k8s.io/cluster-name": "metal"},
	)))
	if random.IntN(4) > 0 {
		instanceID(hostile(random, id()))(m)
	}
	if random.IntN(4) > 0 {
		prefix := text("CloudSigma:///", "openstack://RegionOne/", "OPENSTACK://"+strings.Repeat("é", random.IntN(300))+"/", "", "aws:///")
		if random.IntN(4) > 0 {
			prefix = string(kind.Provider) + ":///"
		}
		providerID(hostile(random, prefix+strings.TrimLeft(id(), " \t\r\n")))(m)
	}
	if random.IntN(40) == 0 {
		with(text(kind.InstanceIDPath, kind.ProviderIDPath, "spec", "status"), pick(nil, 5, true, object{"a": "b"}, []any{ownID}))(m)
	}
	if random.IntN(3) == 0 {
		if spec, ok := m["spec"].(object); ok {
			spec["identityRef"] = object{"type": pick("Secret", "ClusterIdentity", nil), "name": pick("a", "b"), "cloudName": pick("c", nil)}
		}
	}
	return m
}

// hostile changes a text now and then.
func hostile(random *rand.Rand, text string) string {
	if random.IntN(4) > 0 {
		return text
	}
	at := random.IntN(len(text))
	insert := []string{
		" ", "\n", "\u00a0", "\u2003", "\u200b", "\u0085", "\ufeff", "/", "//", "-", "0", "g", "'", `"`, `\`, "\u212A", "\u017F", "\x00", "\x7f", "é", "\U0001F600",
		strings.Repeat("x", random.IntN(500)),
	}
	switch random.IntN(4) {
	case 0:
		return text[:at]
	case 1:
		return strings.ToUpper(text)
	case 2:
		return "00000000-0000-0000-0000-000000000000"
	}
	return strings.ToValidUTF8(text[:at]+insert[random.IntN(len(insert))]+text[at:], "")
}

func TestPoliciesAreForEnforcedGatesOnly(t *testing.T) {
	for _, mode := range []v1beta1.Mode{v1beta1.Warn, v1beta1.Off} {
		if policies := machine.Policies(mode, builtIn, providerIDs); len(policies) > 0 {
			t.Errorf("mode %s has %d policies, want none", mode, len(policies))
		}
	}
}
