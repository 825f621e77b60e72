package machine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/share"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/machine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The objects of all tests, as in the incident that the gate prevents.
const (
	// ownID is the server of the user, foreignID a server of the same name that another identity created. There is no server absentID.
	ownID       = "5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b"
	foreignID   = "b1f2a9c4-7d3e-4a58-9c06-2e5d8f7a1b34"
	absentID    = "3e7a4c21-3b5d-4f60-9a12-6d0c1e2f3b45"
	userID      = "2f6b80d3-1c4e-4d7a-b5f9-3a8e6c0d7b12"
	machineName = "metal-worker-pool-1-hl9tl-qbrcf"
	// ofMachine follows the field in every message.
	ofMachine = ` of CloudSigmaMachine "` + machineName + `" of namespace "team-a": `
)

var (
	account = ownership.Account{Cloud: "cloudsigma", User: "tenant@example.com", Region: "next"}
	kinds   = []clusterapi.Kind{kindOf(v1beta1.GateConfiguration{}.MachineKinds()[0]), kindOf(metalMachine)}
	// metalMachine has the ID in spec, so that one request can change both fields.
	metalMachine = v1beta1.MachineKind{
		Group: "metal.example.com", Version: "v1", Kind: "MetalMachine", Resource: "metalmachines",
		InstanceIDPath: "spec.instanceID", ProviderIDPath: "spec.providerID", Provider: v1beta1.ProviderCloudSigma,
	}
)

func kindOf(kind v1beta1.MachineKind) clusterapi.Kind {
	return clusterapi.Kind{MachineKind: kind, ParseInstanceID: ownership.ParseInstanceID, ParseProviderID: cloudsigma.ProviderIDs.Parse}
}

// object is the content of an object.
type object = map[string]any

// with sets the field at a path. A nil value is a null.
func with(path string, value any) func(object) {
	return func(o object) {
		fields := strings.Split(path, ".")
		for _, field := range fields[:len(fields)-1] {
			below, ok := o[field].(object)
			if !ok {
				below = object{}
				o[field] = below
			}
			o = below
		}
		o[fields[len(fields)-1]] = value
	}
}

func instanceID(value any) func(object) { return with("status.instanceID", value) }
func providerID(value any) func(object) { return with("spec.providerID", value) }

// newMachine is a machine of the cluster "metal" and of a Machine, changed by modify.
func newMachine(modify ...func(object)) object {
	o := object{
		"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CloudSigmaMachine",
		"metadata": object{
			"namespace": "team-a", "name": machineName, "uid": "6a1b", "resourceVersion": "7",
			"labels":          object{"cluster.x-k8s.io/cluster-name": "metal"},
			"ownerReferences": []any{object{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "name": "hl9tl", "uid": "0eb3"}},
		},
		"spec": object{}, "status": object{},
	}
	for _, m := range modify {
		m(o)
	}
	return o
}

// review is the review of an update from old to changed, or of a creation if old is nil.
func review(tb testing.TB, old, changed object, modify ...func(*admissionv1.AdmissionRequest)) admissionv1.AdmissionReview {
	tb.Helper()
	request := &admissionv1.AdmissionRequest{
		UID: "d1", Namespace: "team-a", Name: machineName, Operation: admissionv1.Create,
		Kind:     metav1.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Kind: "CloudSigmaMachine"},
		Resource: metav1.GroupVersionResource{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Resource: "cloudsigmamachines"},
		UserInfo: authenticationv1.UserInfo{Username: "system:serviceaccount:capcs-system:capcs"},
		Object:   runtime.RawExtension{Raw: encode(tb, changed)},
	}
	if old != nil {
		request.Operation, request.OldObject = admissionv1.Update, runtime.RawExtension{Raw: encode(tb, old)}
	}
	for _, m := range modify {
		m(request)
	}
	return admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request,
	}
}

func ofStatus(request *admissionv1.AdmissionRequest) { request.SubResource = "status" }
func dryRun(request *admissionv1.AdmissionRequest) {
	request.DryRun = new(bool)
	*request.DryRun = true
}

func ofMetalMachine(request *admissionv1.AdmissionRequest) {
	request.Resource = metav1.GroupVersionResource{Group: "metal.example.com", Version: "v1", Resource: "metalmachines"}
}

func encode(tb testing.TB, value any) []byte {
	tb.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// send sends a review to a handler, and decodes the answer as the API server does.
func send(t *testing.T, handler http.Handler, r admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, machine.Path+"?timeout=3s", bytes.NewReader(encode(t, r)))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	if recorder.Code != http.StatusOK {
		t.Errorf("HTTP status = %d, want 200", recorder.Code)
	}
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil || answer.Response == nil {
		t.Fatalf("answer %s, %v", recorder.Body, err)
	}
	return answer.Response
}

// world has the objects and the cloud of a gate, and records its requests.
type world struct {
	account    ownership.Account
	accountErr error
	holder     *clusterapi.Machine
	holderErr  error
	// holderAccount returns the account of the cluster of holder, if it is not that of the other machines.
	holderAccount func() (ownership.Account, error)
	// holders is the number of machines like holder. Default: 1.
	holders int
	// holderAnswer returns the answer of the cloud about the account of holder, if it is not that of the other machines.
	holderAnswer func() (ownership.Answer, error)
	// owners are the labels of the Machines of Cluster API, by name. ownerErr is the error for all of them.
	owners   map[string]string
	ownerErr error
	owned    []clusterapi.Machine
	ownedErr error
	// answers are those of the cloud, by instance. err is the answer for other instances.
	answers map[string]ownership.Answer
	err     error

	mu       sync.Mutex
	decided  []ownership.Claim
	first    []ownership.Claim // those of decided that were first claims
	preview  []ownership.Claim
	tenant   share.Tenant // of the last claim
	reads    int          // reads of other objects
	recorded []events.Event
}

// newWorld is a world without problems, changed by modify.
func newWorld(modify ...func(*world)) *world {
	w := &world{account: account, owners: map[string]string{"hl9tl": "metal", "other": "other"}, answers: map[string]ownership.Answer{
		ownID: {Verdict: ownership.Owned, UserID: userID, Response: "200", RequestID: "r-own"},
		foreignID: {
			Verdict: ownership.Foreign, UserID: userID, Response: "403 permission", RequestID: "r-foreign",
			Candidates: []ownership.Instance{{ID: ownID, Name: machineName, MachineUID: "6a1b"}},
		},
		absentID: {Verdict: ownership.Absent, Response: "404 not found"},
	}}
	for _, m := range modify {
		m(w)
	}
	return w
}

var (
	_ machine.Objects        = &world{}
	_ machine.Owners         = &world{}
	_ webhooks.EventRecorder = &world{}
)

func (w *world) Account(_ context.Context, cluster clusterapi.Cluster) (ownership.Account, error) {
	w.count()
	if w.holder != nil && cluster == w.holder.Cluster() && w.holderAccount != nil {
		return w.holderAccount()
	}
	return w.account, w.accountErr
}

func (w *world) Holder(
	ctx context.Context, _ string, _ clusterapi.Machine, counts func(clusterapi.Machine) bool,
) (*clusterapi.Machine, error) {
	w.count()
	if err := ctx.Err(); err != nil { // on kcp, it sends a request
		return nil, err
	}
	for range max(w.holders, 1) {
		if w.holder == nil || counts(*w.holder) {
			return w.holder, w.holderErr
		}
	}
	return nil, w.holderErr
}

// Owner uses the last of the owner references. How references are read is tested in package clusterapi.
func (w *world) Owner(_ context.Context, m clusterapi.Machine) (*clusterapi.Owner, error) {
	w.count()
	names := m.Owners()
	if w.ownerErr != nil || len(names) == 0 {
		return nil, w.ownerErr
	}
	name := names[len(names)-1]
	return &clusterapi.Owner{Name: name, ClusterName: w.owners[name]}, nil
}

func (w *world) Owned(_ context.Context, namespace, owner string) ([]clusterapi.Machine, error) {
	w.count()
	if namespace != "team-a" || owner != "hl9tl" {
		return nil, fmt.Errorf("read of the machines of %q in %q", owner, namespace)
	}
	return w.owned, w.ownedErr
}

func (w *world) count() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
}

// Decide asks once. Package ownership tests that it asks again about first claims.
func (w *world) Decide(_ context.Context, tenant share.Tenant, claim ownership.Claim, options ownership.Options) (ownership.Answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tenant = tenant
	switch {
	case options.DryRun:
		w.preview = append(w.preview, claim)
	case options.First:
		w.first = append(w.first, claim)
		fallthrough
	default:
		w.decided = append(w.decided, claim)
	}
	return w.answer(claim)
}

func (w *world) answer(claim ownership.Claim) (ownership.Answer, error) {
	if w.holderAnswer != nil && claim.Account != w.account {
		return w.holderAnswer()
	}
	answer, found := w.answers[claim.ID]
	if !found {
		return ownership.Answer{}, w.err
	}
	return answer, nil
}

func (w *world) Record(event events.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recorded = append(w.recorded, event)
}

func (w *world) events() []events.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.recorded)
}

// gate is a gate of the world.
func (w *world) gate(config v1beta1.Machine) *machine.Gate { return w.gateOn(config, kinds...) }

func (w *world) gateOn(config v1beta1.Machine, kinds ...clusterapi.Kind) *machine.Gate {
	return machine.New(config, kinds, w, w)
}

// handler serves a gate of the world.
func (w *world) handler(mode v1beta1.Mode, unknown v1beta1.UnknownPolicy) http.Handler {
	return webhooks.Handler(w.gate(v1beta1.Machine{Mode: mode, Unknown: unknown}), mode, w)
}

// audit returns the audit annotations of the request d1.
func audit(decision, reason string) map[string]string {
	return map[string]string{"decision": decision, "reason": reason, "decision-id": "d1"}
}

// outcome is the decision about a change. The answer depends on the mode.
type outcome struct {
	decision webhooks.Decision
	// status is the kind of a denial. Default: Forbidden.
	status  metav1.StatusReason
	reason  string
	field   string
	message string
	causes  []metav1.StatusCause
	// event is the text of the Event. Default: message.
	event string
	// first is true if it is about a first claim without an answer.
	first bool
}

// admitted reports whether the policy admits the request although it is undecided: in an outage of the cloud only.
func (o outcome) admitted(unknown v1beta1.UnknownPolicy) bool {
	return o.decision == webhooks.Undecided && o.reason == ownership.ReasonUnknown &&
		(unknown == v1beta1.Admit || unknown == v1beta1.AdmitFirstClaims && o.isFirst(unknown))
}

// isFirst reports whether it is about a first claim that is admitted because the cloud is away.
func (o outcome) isFirst(unknown v1beta1.UnknownPolicy) bool {
	return unknown == v1beta1.AdmitFirstClaims && o.first && o.reason == ownership.ReasonUnknown && ownership.Cause(o.causes[0].Type).IsAway()
}

// with returns the outcome with the texts under a policy.
func (o outcome) with(unknown v1beta1.UnknownPolicy) outcome {
	if !o.isFirst(unknown) {
		return o
	}
	for _, text := range []*string{&o.message, &o.event} {
		if *text != "" {
			*text = strings.NewReplacer("; try again later", "", "; try again", "").Replace(*text) +
				"; the machine named none before, so this is admitted, and the audit checks it as soon as there is an answer"
		}
	}
	return o
}

// response is the whole answer to the request d1.
func (o outcome) response(mode v1beta1.Mode, unknown v1beta1.UnknownPolicy) *admissionv1.AdmissionResponse {
	passed := &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusOK}
	o = o.with(unknown)
	switch {
	case o.decision == webhooks.Allowed:
		return &admissionv1.AdmissionResponse{UID: "d1", Allowed: true, Result: passed, AuditAnnotations: audit("allowed", o.reason)}
	case mode == v1beta1.Warn:
		return &admissionv1.AdmissionResponse{
			UID: "d1", Allowed: true, Result: passed, AuditAnnotations: audit("warned", o.reason),
			Warnings: []string{o.reason + " (mode Warn, nothing was changed or denied): " + o.message},
		}
	case o.admitted(unknown):
		return &admissionv1.AdmissionResponse{
			UID: "d1", Allowed: true, Result: passed, AuditAnnotations: audit("warned", o.reason), Warnings: []string{o.reason + ": " + o.message},
		}
	}
	code, reason := int32(http.StatusForbidden), metav1.StatusReasonForbidden
	switch {
	case o.decision == webhooks.Undecided:
		code, reason = http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable
	case o.status == metav1.StatusReasonInvalid:
		code, reason = http.StatusUnprocessableEntity, metav1.StatusReasonInvalid
	case o.status == metav1.StatusReasonAlreadyExists:
		code, reason = http.StatusConflict, metav1.StatusReasonAlreadyExists
	case o.status == metav1.StatusReasonBadRequest:
		code, reason = http.StatusBadRequest, metav1.StatusReasonBadRequest
	}
	return &admissionv1.AdmissionResponse{
		UID: "d1", AuditAnnotations: audit(o.decision.String(), o.reason),
		Result: &metav1.Status{
			Status: metav1.StatusFailure, Code: code, Reason: reason, Message: o.message,
			Details: &metav1.StatusDetails{Causes: append([]metav1.StatusCause{
				{Type: metav1.CauseType(o.reason), Field: o.field, Message: o.message},
			}, o.causes...)},
		},
	}
}

// events are the Events: on the machine, or on its owner if the creation of the machine is denied.
func (o outcome) events(mode v1beta1.Mode, unknown v1beta1.UnknownPolicy, created bool) []events.Event {
	if o.decision == webhooks.Allowed {
		return nil
	}
	object := corev1.ObjectReference{
		APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "CloudSigmaMachine",
		Namespace: "team-a", Name: machineName, UID: "6a1b", ResourceVersion: "7",
	}
	o = o.with(unknown)
	verb, text := "Denied: ", o.event
	if mode == v1beta1.Warn || o.admitted(unknown) {
		verb, created = "Admitted with a warning: ", false
	}
	if created {
		object = corev1.ObjectReference{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Machine", Namespace: "team-a", Name: "hl9tl", UID: "0eb3"}
	}
	if text == "" {
		text = o.message
	}
	return []events.Event{{Object: object, Type: corev1.EventTypeWarning, Reason: o.reason, Message: verb + text}}
}
