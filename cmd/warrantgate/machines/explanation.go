package machines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/audit"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/preflight"
	"warrantgate.dev/internal/share"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/machine"
)

// explanation is the report about a machine.
type explanation struct {
	Machine machineReport  `json:"machine"`
	Account *accountReport `json:"account,omitempty"`
	// Instances are those that the machine names.
	Instances []instanceReport `json:"instances"`
	// Own are other instances of the account with the name of the machine, or that were created for it.
	Own      []ownReport         `json:"ownInstances"`
	Findings []preflight.Finding `json:"findings"`
	// resource is that of the machine.
	resource schema.GroupVersionResource
}

type machineReport struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Provider is that of the kind.
	Provider v1beta1.Provider `json:"provider"`
	// Cluster is the name in its label, Owner the name of the Machine of Cluster API that owns it.
	Cluster string `json:"cluster,omitempty"`
	Owner   string `json:"owner,omitempty"`
	// Mode is that of the gate in the configuration.
	Mode v1beta1.Mode `json:"mode"`
}

type accountReport struct {
	Cloud string `json:"cloud"`
	// Description describes user and region.
	Description string `json:"description"`
	User        string `json:"user,omitempty"`
	Identity    string `json:"identity,omitempty"`
	Region      string `json:"region,omitempty"`
	// API is the URL that requests are sent to, "" without credentials.
	API string `json:"api,omitempty"`
}

type instanceReport struct {
	// ID is the UUID, "" if the value is not one.
	ID     string   `json:"id,omitempty"`
	Value  string   `json:"value"`
	Fields []string `json:"fields"`
	// Cloud is nil if the cloud was not asked.
	Cloud *cloudReport `json:"cloud,omitempty"`
	// NamedBy are the other machines that name it.
	NamedBy []string    `json:"namedBy"`
	Write   writeReport `json:"write"`
}

type cloudReport struct {
	// Verdict is Owned, Foreign or Absent, "" if there is none.
	Verdict   ownership.Verdict `json:"verdict,omitempty"`
	Response  string            `json:"response,omitempty"`
	RequestID string            `json:"requestID,omitempty"`
	// UserID is the ID of the user or project that the cloud answered to.
	UserID string `json:"userID,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Decisions about a write, besides those of the gate.
const (
	decisionDenied    = "denied"
	decisionUndecided = "undecided"
	decisionUnknown   = "unknown"
)

// writeReport is what a write that names the instance instead of another one would get.
type writeReport struct {
	// Decision is allowed, denied, undecided (503), or unknown.
	Decision string `json:"decision"`
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
	// First is the decision about a first claim, if it differs: warned is admitted with a warning.
	First string `json:"first,omitempty"`
}

type ownReport struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	MachineUID string   `json:"machineUID,omitempty"`
	NamedBy    []string `json:"namedBy"`
}

func (e *explanation) add(finding preflight.Finding) {
	e.Findings = append(e.Findings, finding)
}

// has reports whether a finding has the reason.
func (e *explanation) has(reason string) bool {
	return slices.ContainsFunc(e.Findings, func(f preflight.Finding) bool { return string(f.Reason) == reason })
}

// undetermined adds that something could not be checked because of an error. The error of an API server names the permission that is missing.
func (e *explanation) undetermined(what string, err error) {
	finding := preflight.Finding{Reason: preflight.Undetermined, Message: what + ": " + err.Error()}
	if unknown, ok := errors.AsType[*ownership.UnknownError](err); ok {
		finding.Next = unknown.Cause.Explain()
	}
	if apierrors.IsForbidden(err) {
		finding.Next = "have this permission granted, or let somebody who has it run this command"
	}
	e.add(finding)
}

// explainer explains machines with what the caller may read.
type explainer struct {
	objects *clusterapi.Objects // not started: it sends a request for each object
	kinds   []clusterapi.Kind
	gate    v1beta1.Machine
	cloud   *cloudOnce
	// api returns the URL of the API that requests about an account are sent to.
	api func(ctx context.Context, account ownership.Account) (string, error)
}

func (e explainer) explain(ctx context.Context, kind clusterapi.Kind, object *unstructured.Unstructured) (explanation, error) {
	read, err := kind.Read(object)
	if err != nil {
		return explanation{}, fmt.Errorf("%s %q: %w", kind.Kind, object.GetName(), err)
	}
	report := explanation{
		Machine: machineReport{
			Kind: kind.Kind, Namespace: read.Namespace, Name: read.Name, UID: string(read.UID), Provider: kind.Provider, Cluster: read.ClusterName(), Mode: e.gate.Mode,
		},
		Instances: []instanceReport{}, Own: []ownReport{}, Findings: []preflight.Finding{},
	}
	one := audit.One{Machine: read}
	external := kind.Provider.IsExternal() // only its ID is evaluated
	if !external {
		e.account(ctx, &report, &one)
		e.owner(ctx, &report, read)
	}
	e.others(ctx, &report, &one)
	for _, named := range namedBy(read) {
		report.Instances = append(report.Instances, e.instance(ctx, object, named, one))
	}
	if !external {
		e.own(ctx, &report, &one)
	}
	one.Ask = func(id string) (ownership.Answer, error) { return e.cloud.answered(claimOf(one, id)) }
	e.findings(&report, one)
	return report, nil
}

// account reads the account of the machine's provider.
func (e explainer) account(ctx context.Context, report *explanation, one *audit.One) {
	if one.Machine.ClusterName() == "" && one.Machine.Identity == (clusterapi.IdentityRef{}) {
		one.Unknown = &clusterapi.AccountError{
			Reason: ownership.ReasonWithoutCluster, Message: "the machine has no label " + clusterapi.ClusterNameLabel,
		}
		return
	}
	if one.Account, one.Unknown = e.objects.Account(ctx, one.Machine.Cluster()); one.Unknown != nil {
		if _, invalid := errors.AsType[*clusterapi.AccountError](one.Unknown); !invalid {
			report.undetermined("the account that the provider of the machine uses could not be read", one.Unknown)
		}
		return
	}
	account := one.Account
	report.Account = &accountReport{
		Cloud: account.Cloud, Description: account.Owner() + " in " + account.Place(), User: account.User, Identity: identityOf(account), Region: account.Region,
	}
	if e.cloud.gate == nil {
		return
	}
	if at, err := e.api(ctx, account); err == nil { // the request about an instance has the same error
		report.Account.API = at
	}
}

// owner compares the machine with the Machine of Cluster API that owns it.
func (e explainer) owner(ctx context.Context, report *explanation, read clusterapi.Machine) {
	owner, err := e.objects.Owner(ctx, read)
	invalid, isInvalid := errors.AsType[*clusterapi.AccountError](err)
	switch {
	case isInvalid && invalid.Reason == clusterapi.OwnerMachineMissing && read.DeletionTimestamp != nil: // deleted after its owner
	case isInvalid:
		report.add(preflight.Finding{Reason: preflight.Reason(invalid.Reason), Message: invalid.Message})
	case err != nil:
		report.undetermined("the Machine of Cluster API that owns the machine could not be read", err)
	case owner == nil:
	case owner.ClusterName != read.ClusterName():
		report.add(preflight.Finding{Reason: preflight.Reason(clusterapi.OwnerClusterMismatch), Message: owner.Mismatch(read)})
		fallthrough
	default:
		report.Machine.Owner = owner.Name
	}
}

// others reads the other machines of the cloud, in the namespace of the machine if the caller may not read those of others.
func (e explainer) others(ctx context.Context, report *explanation, one *audit.One) {
	one.All = true
	for _, kind := range e.kinds {
		if kind.Provider != one.Machine.Kind.Provider {
			continue
		}
		found, err := e.objects.MachinesNow(ctx, kind, "")
		if apierrors.IsForbidden(err) {
			report.undetermined("whether machines of other namespaces name the instance could not be checked", err)
			one.All = false
			found, err = e.objects.MachinesNow(ctx, kind, one.Machine.Namespace)
		}
		if err != nil {
			report.undetermined("whether other machines name the instance could not be checked", err)
			one.All = false
		}
		one.Others = append(one.Others, slices.DeleteFunc(found, func(other clusterapi.Machine) bool { return other.UID == one.Machine.UID })...)
	}
}

// namedInstance is a value that names an instance, in one or both fields of the machine.
type namedInstance struct {
	id, value string
	fields    []string
}

// namedBy returns the instances that the fields of a machine name.
func namedBy(read clusterapi.Machine) []namedInstance {
	var named []namedInstance
	for _, field := range []struct {
		path, value string
		parse       func(string) (string, error)
	}{
		{read.Kind.InstanceIDPath, read.InstanceID, read.Kind.ParseInstanceID}, {read.Kind.ProviderIDPath, read.ProviderID, read.Kind.ParseProviderID},
	} {
		if field.value == "" {
			continue
		}
		id, err := field.parse(field.value)
		if err == nil && len(named) == 1 && named[0].id == id {
			named[0].fields = append(named[0].fields, field.path)
			continue
		}
		named = append(named, namedInstance{id: id, value: field.value, fields: []string{field.path}})
	}
	return named
}

// holders describes the machines that name an instance.
func holders(machines []clusterapi.Machine, id string) []string {
	found := []string{}
	for _, other := range machines {
		if slices.Contains(other.IDs(), id) {
			found = append(found, other.String())
		}
	}
	return found
}

// instance explains an instance that the machine names.
func (e explainer) instance(ctx context.Context, object *unstructured.Unstructured, named namedInstance, one audit.One) instanceReport {
	instance := instanceReport{ID: named.id, Value: named.value, Fields: named.fields, NamedBy: []string{}}
	if named.id != "" {
		instance.NamedBy = holders(one.Others, named.id)
	}
	instance.Write = e.write(ctx, object, named, one)
	if one.Unknown != nil || named.id == "" || e.cloud.gate == nil {
		return instance
	}
	answer, err := e.cloud.ask(ctx, claimOf(one, named.id)) // the gate has asked, unless it needed no answer of the cloud
	instance.Cloud = &cloudReport{Verdict: answer.Verdict, Response: answer.Response, RequestID: answer.RequestID, UserID: answer.UserID}
	if err != nil {
		instance.Cloud.Error = err.Error()
	}
	if unknown, ok := errors.AsType[*ownership.UnknownError](err); ok {
		instance.Cloud.RequestID = unknown.RequestID
	}
	return instance
}

func claimOf(one audit.One, id string) ownership.Claim {
	return ownership.Claim{Account: one.Account, ID: id, Name: one.Machine.Name, MachineUID: string(one.Machine.UID)}
}

// write lets the gate decide about a write that names the instance instead of another one.
func (e explainer) write(ctx context.Context, object *unstructured.Unstructured, named namedInstance, one audit.One) writeReport {
	ctx, cancel := context.WithTimeout(ctx, cli.RequestTimeout) // the deadline of an admission request
	defer cancel()
	reader := reviewed{Objects: e.objects, others: one.Others}
	gate := machine.New(e.gate, e.kinds, reader, e.cloud)
	kind := one.Machine.Kind
	review := func(before string) webhooks.Answer {
		old := object.DeepCopy()
		for _, path := range named.fields {
			// The field exists, so all fields above it are objects.
			_ = unstructured.SetNestedField(old.Object, before, strings.Split(path, ".")...)
		}
		return gate.Review(ctx, updateOf(kind, object, old))
	}
	answer := review(uuid.NewString())
	write := writeReport{Decision: string(answer.Decision), Reason: answer.Reason, Message: answer.Text()}
	switch {
	case answer.Decision == webhooks.Allowed:
		write.Reason, write.Message = "", ""
	case answer.Decision == webhooks.Denied:
		write.Decision = decisionDenied
	case answer.Reason != ownership.ReasonUnknown || e.cloud.gate == nil: // the caller lacks what the gate has
		write = writeReport{Decision: decisionUnknown}
	case answer.Decision == webhooks.Undecided:
		write.Decision = decisionUndecided
	}
	if write.Decision == decisionUndecided {
		if first := review(""); first.Decision != answer.Decision {
			write.First = first.Decision.String()
		}
	}
	return write
}

// updateOf is the dry run of an update of a machine.
func updateOf(kind clusterapi.Kind, object, old *unstructured.Unstructured) admission.Request {
	encoded := func(object *unstructured.Unstructured) runtime.RawExtension {
		raw, _ := json.Marshal(object.Object) // decoded from JSON
		return runtime.RawExtension{Raw: raw}
	}
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Update, Namespace: object.GetNamespace(), Name: object.GetName(), DryRun: ptr.To(true),
		Resource: metav1.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: kind.MachineKind.Resource},
		Object:   encoded(object), OldObject: encoded(old),
	}}
}

// own lists the instances of the account.
func (e explainer) own(ctx context.Context, report *explanation, one *audit.One) {
	if one.Unknown != nil || e.cloud.gate == nil {
		return
	}
	failed := func(instance instanceReport) bool { return instance.Cloud != nil && instance.Cloud.Error != "" }
	if slices.ContainsFunc(report.Instances, failed) { // the list would fail, too
		return
	}
	instances, err := e.cloud.gate.Instances(ctx, share.Tenant{}, one.Account, nil)
	if identity, ok := errors.AsType[*ownership.IdentityError](err); ok {
		report.add(preflight.Finding{Reason: preflight.Reason(identity.Reason), Message: identity.Message})
		return
	}
	if region, ok := errors.AsType[*ownership.RegionError](err); ok {
		report.add(preflight.Finding{Reason: ownership.RegionNotAllowed, Message: region.Error()})
		return
	}
	if err != nil {
		report.undetermined(fmt.Sprintf("the instances of %s in %s could not be listed", one.Account.Owner(), one.Account.Place()), err)
		return
	}
	one.Instances, one.Listed = instances, true
	for _, instance := range one.Own() {
		if !slices.Contains(one.Machine.IDs(), instance.ID) {
			report.Own = append(report.Own, ownReport{
				ID: instance.ID, Name: instance.Name, MachineUID: instance.MachineUID, NamedBy: holders(one.Others, instance.ID),
			})
		}
	}
}

// findings adds what the audit reports, denials for other reasons, and what is unknown.
func (e explainer) findings(report *explanation, one audit.One) {
	for _, finding := range one.Findings() {
		if finding.Reason != ownership.ReasonUnknown { // with the cause below
			report.add(preflight.Finding{Reason: preflight.Reason(finding.Reason), Message: finding.Message})
		}
	}
	if invalid, ok := errors.AsType[*clusterapi.AccountError](one.Unknown); ok && !report.has(string(invalid.Reason)) {
		report.add(preflight.Finding{Reason: preflight.Reason(invalid.Reason), Message: invalid.Message})
	}
	for _, instance := range report.Instances {
		if instance.Write.Decision == decisionDenied && !report.has(instance.Write.Reason) {
			report.add(preflight.Finding{Reason: preflight.Reason(instance.Write.Reason), Message: instance.Write.Message})
		}
		if instance.Cloud == nil || instance.Write.Decision == decisionDenied {
			continue
		}
		if _, err := e.cloud.answered(claimOf(one, instance.ID)); err != nil {
			report.undetermined(fmt.Sprintf("whether instance %s belongs to %s in %s could not be determined",
				instance.ID, one.Account.Owner(), one.Account.Place()), err)
		}
	}
	if ids := one.Machine.IDs(); len(ids) > 1 && !report.has(ownership.ReasonMismatch) {
		report.add(preflight.Finding{
			Reason: ownership.ReasonMismatch, Advisory: true,
			Message: fmt.Sprintf("%s and %s name two instances, which is normal while the provider replaces one", one.Machine.Kind.InstanceIDPath, one.Machine.Kind.ProviderIDPath),
			Next:    "if it stays, clear the field that is wrong, or both",
		})
	}
	if e.cloud.gate == nil && one.Unknown == nil && !one.Machine.Kind.Provider.IsExternal() {
		report.add(notAsked(one.Account, e.cloud.unasked))
	}
}

// notAsked is the finding about a cloud for which the caller gave no credentials, or wrong flags or a wrong configuration.
func notAsked(account ownership.Account, wrong error) preflight.Finding {
	message := fmt.Sprintf("the cloud was not asked for the instances of %s in %s", account.Owner(), account.Place())
	if wrong != nil {
		return preflight.Finding{
			Reason: preflight.Undetermined, Message: message + ": " + wrong.Error(), Next: "correct this in the flags, the environment or the configuration (--config)",
		}
	}
	finding := preflight.Finding{
		Reason: preflight.Undetermined, Message: message + ", because no credentials for it were given",
		Next: "give those of serve: --impersonation-enabled with --impersonation-secret, or with --oauth-url, --client-id and --client-secret-file; or the " +
			"environment variables for legacy credentials",
	}
	if account.Cloud == string(v1beta1.ProviderOpenStack) {
		finding.Next = "name the Keystone in openStack.authURLs of the configuration (--config); the Secret of the cluster has the credentials"
	}
	return finding
}
