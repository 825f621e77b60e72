package cluster

import (
	"context"
	"fmt"
	"slices"

	"gomodules.xyz/jsonpatch/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/impersonation"
	"warrantgate.dev/webhooks"
)

// RecordPath is the path of the gate Record.
const RecordPath = "/cluster/record"

// recordField is the path of the annotation with the record.
var recordField = field.NewPath("metadata", "annotations").Key(clusterapi.RecordAnnotation).String()

const (
	// recordForged is the reason if a request contains another record than that of its requester.
	recordForged = "RecordForged"
	// recordOutdated is the reason if the record is still that of who named the user before.
	recordOutdated = "RecordOutdated"
)

// Record is the mutating gate that records on a CloudSigmaCluster or a Secret who named its user, so that the audit can check the permission
// again. It denies no object. A requester who writes the annotation names the user again. A requester who leaves it out does not change it.
//
// The gate Impersonation denies a record of somebody else, which a later mutating webhook could write.
type Record struct{ config v1beta1.Cluster }

// NewRecord returns the gate.
func NewRecord(config v1beta1.Cluster) *Record { return &Record{config: config} }

var _ webhooks.Gate = &Record{}

// Name implements webhooks.Gate.
func (*Record) Name() string { return "cluster-record" }

// Review implements webhooks.Gate.
func (g *Record) Review(_ context.Context, request admission.Request) webhooks.Answer {
	kind, known := kindOf(recordedKinds(kindsOf(g.config.Impersonation)), request)
	if !known {
		return unknownKind(request)
	}
	o, err := readObject(kind, request)
	if err != nil {
		return allowed("NotRecorded") // Impersonation denies it
	}
	if kind.resource == secrets && g.config.Exempts(o.Namespace) {
		return allowed(namespaceExempt)
	}
	names, err := kind.names(o, request)
	if err != nil {
		return allowed("NotRecorded")
	}
	r := recordIn(o, request)
	want := r.before
	if len(names) > 0 || r.written() {
		want = impersonation.Record(request.UserInfo)
	}
	if want == r.after {
		return allowed("RecordUnchanged")
	}
	answer := allowed("Recorded")
	if want == "" {
		answer.Patches = []jsonpatch.JsonPatchOperation{webhooks.RemoveAnnotation(clusterapi.RecordAnnotation)}
	} else {
		answer.Patches = []jsonpatch.JsonPatchOperation{webhooks.SetAnnotation(o.Annotations, clusterapi.RecordAnnotation, want)}
	}
	return answer
}

// record is the annotation before and after a request, "" if there is none.
type record struct{ before, after string }

func recordIn(o object, request admission.Request) record {
	return record{before: oldAnnotations(o, request)[clusterapi.RecordAnnotation], after: o.Annotations[clusterapi.RecordAnnotation]}
}

// written is true if the request sets the record. The requester then names the user again.
func (r record) written() bool { return r.after != "" && r.after != r.before }

// withRecord returns the users that a request names: those that differ from before, which are given, or all if it writes the record. The
// answer is not nil if the record is another one than that of the requester. A missing record is not denied: Record was not called, or has been installed
// since, and the audit reports the object.
func withRecord(changed []naming, o object, request admission.Request) ([]naming, *webhooks.Answer, error) {
	r := recordIn(o, request)
	if r.after == "" || !o.kind.recorded() || len(changed) == 0 && !r.written() {
		return changed, nil, nil
	}
	if r.after != impersonation.Record(request.UserInfo) {
		if !r.written() { // only with failurePolicy Ignore
			return nil, &webhooks.Answer{
				Decision: webhooks.Undecided, Reason: recordOutdated,
				Message: "it was not updated with the user, because the mutating webhook was not called or did not answer; try again",
			}, nil
		}
		denial := denied(recordForged, "it is not the record of the requester, who names the user with this request; leave it out, because "+
			"warrantgate writes it; if another webhook changes the user or the record, let it leave both alone")
		return nil, &denial, nil
	}
	if !r.written() {
		return changed, nil, nil
	}
	o.exists = false // all users differ from those of an object that did not exist
	names, err := o.kind.names(o, request)
	return names, nil, err
}

// recorded is true for the kinds whose users the audit reads: the record is on the objects from which the provider takes its user.
func (k kind) recorded() bool {
	return k.resource == clusterapi.CloudSigmaClusters || k.resource == secrets
}

func recordedKinds(kinds []kind) []kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return !k.recorded() })
}

// unknownKind denies a request that no webhook configuration of warrantgate sends.
func unknownKind(request admission.Request) webhooks.Answer {
	return webhooks.Answer{Decision: webhooks.Denied, Status: metav1.StatusReasonBadRequest, Reason: "UnknownKind", Message: fmt.Sprintf(
		"%s of group %q is not a kind of objects that name users", request.Resource.Resource, request.Resource.Group)}
}
