package webhooks_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/kcp-dev/logicalcluster/v3"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/webhooks"
)

// clusterGate answers with its logical cluster.
type clusterGate struct{ cluster logicalcluster.Name }

func (clusterGate) Name() string { return "cluster" }

func (g clusterGate) Review(context.Context, admission.Request) webhooks.Answer {
	return webhooks.Answer{
		Decision: webhooks.Allowed, Reason: "Judged", Message: g.cluster.String(),
	}
}

// in returns an object with the annotation of kcp for its logical cluster.
func in(cluster string) string {
	return `{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"` + cluster + `"}}}`
}

// bindings says whether a logical cluster binds widgets from the provider.
type bindings struct {
	bound bool
	err   error
}

func (b bindings) Binds(_ context.Context, resource schema.GroupVersionResource) (bool, error) {
	return b.bound && resource == schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, b.err
}

func TestBound(t *testing.T) {
	const provider = "m82w61j76ws21znq"
	for name, tc := range map[string]struct {
		bindings bindings
		want     webhooks.Answer
	}{
		"the provider": {
			bindings: bindings{bound: true},
			want:     webhooks.Answer{Decision: webhooks.Allowed, Reason: "Judged", Message: "1dz6n4ubraua7pul"},
		},
		"another provider": {
			bindings: bindings{},
			want: webhooks.Answer{Reason: "ProviderNotBound", Message: `the workspace of the object does not bind widgets.example.com from logical cluster ` +
				`"m82w61j76ws21znq", whose webhook configuration this request comes from`},
		},
		"unknown": {
			bindings: bindings{bound: true, err: errors.New("forbidden")},
			want: webhooks.Answer{
				Decision: webhooks.Undecided, Reason: "BindingsUnknown", Message: "it could not be determined which APIExports this workspace binds; try again",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			gate := webhooks.Bound(clusterGate{"1dz6n4ubraua7pul"}, tc.bindings, provider)
			got := gate.Review(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Resource: metav1.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"},
			}})
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(webhooks.Answer{}, "Details")); diff != "" {
				t.Errorf("Review() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEachRequestIsReviewedInItsLogicalCluster(t *testing.T) {
	const own, others, unsaid = "1dz6n4ubraua7pul", "m82w61j76ws21znq", `{"metadata":{"name":"a"}}`
	const field = "metadata.annotations[kcp.io/cluster]"
	reviewed := webhooks.Answer{
		Decision: webhooks.Allowed, Reason: "Judged", Message: own, Subject: webhooks.Subject{Cluster: own},
	}
	nowhere := webhooks.Answer{Reason: "NoLogicalCluster", Message: "the request does not say in which logical cluster the object is"}
	changed := webhooks.Answer{
		Status: metav1.StatusReasonInvalid, Reason: "LogicalClusterChanged", Field: field,
		Message: field + ": field is immutable: kcp writes it when the object is created; leave it as it is, or out of the request",
	}
	malformed := func(quoted string) webhooks.Answer {
		return webhooks.Answer{
			Status: metav1.StatusReasonInvalid, Reason: "LogicalClusterMalformed", Field: field,
			Message: field + ": " + quoted + " is not the name of a logical cluster",
		}
	}
	undecodable := func(what, why string) webhooks.Answer {
		return webhooks.Answer{
			Status: metav1.StatusReasonBadRequest, Reason: "Undecodable", Message: "the " + what + " cannot be decoded: " + why,
		}
	}
	for name, tc := range map[string]struct {
		operation   admissionv1.Operation
		object, old string
		err         error
		want        webhooks.Answer
	}{
		"a new object with the annotation that kcp wrote":               {operation: admissionv1.Create, object: in(own), want: reviewed},
		"a new object without the annotation":                           {operation: admissionv1.Create, object: unsaid, want: nowhere},
		"a new object without the annotation, and a stored one with it": {operation: admissionv1.Create, object: unsaid, old: in(own), want: nowhere},
		"an update that repeats it":                                     {operation: admissionv1.Update, object: in(own), old: in(own), want: reviewed},
		"an update that removes it":                                     {operation: admissionv1.Update, object: unsaid, old: in(own), want: reviewed},
		"an update that empties it":                                     {operation: admissionv1.Update, object: in(""), old: in(own), want: reviewed},
		"an update that sets another":                                   {operation: admissionv1.Update, object: in(others), old: in(own), want: changed},
		"an update that sets a path":                                    {operation: admissionv1.Update, object: in("../services/x"), old: in(own), want: changed},
		"an update that sets all clusters":                              {operation: admissionv1.Update, object: in("*"), old: in(own), want: changed},
		"an update of an object without the annotation":                 {operation: admissionv1.Update, object: in(others), old: unsaid, want: nowhere},
		"an update without a stored object":                             {operation: admissionv1.Update, object: in(others), want: nowhere},
		"a deletion":                                                    {operation: admissionv1.Delete, old: in(own), want: reviewed},
		"a deletion of an object without the annotation":                {operation: admissionv1.Delete, old: unsaid, want: nowhere},
		"a deletion with an object of another":                          {operation: admissionv1.Delete, object: in(others), old: in(own), want: changed},
		"an unknown operation":                                          {object: in(others), want: nowhere},
		"a stored object with a path":                                   {operation: admissionv1.Update, object: unsaid, old: in("../services/x"), want: malformed(`"../services/x"`)},
		"a stored object with all clusters":                             {operation: admissionv1.Update, object: unsaid, old: in("*"), want: malformed(`"*"`)},
		"a new object with the shard":                                   {operation: admissionv1.Create, object: in("system:admin"), want: malformed(`"system:admin"`)},
		"a new object with the path of a workspace":                     {operation: admissionv1.Create, object: in("root:org"), want: malformed(`"root:org"`)},
		"a new object that is not an object":                            {operation: admissionv1.Create, object: `[]`, want: undecodable("object", `wrong type of value at ""`)},
		"a stored object that is not an object":                         {operation: admissionv1.Update, object: unsaid, old: `[]`, want: undecodable("stored object", `wrong type of value at ""`)},
		"a field of another spelling, which kcp would drop":             {operation: admissionv1.Create, object: `{"metadata":{"Annotations":{"kcp.io/cluster":"` + own + `"}}}`, want: nowhere},
		"a field that is repeated": {
			operation: admissionv1.Create, object: `{"metadata":{"annotations":{"kcp.io/cluster":"` + own + `","kcp.io/cluster":"` + others + `"}}}`,
			want: undecodable("object", `duplicate object member name at byte 64`),
		},
		"a cluster that cannot be reached": {
			operation: admissionv1.Create, object: in(own), err: errors.New("no address"),
			want: webhooks.Answer{
				Decision: webhooks.Undecided, Reason: "NoLogicalCluster", Message: "the logical cluster of the object cannot be addressed",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			gate := webhooks.PerCluster("machine-ownership", func(cluster logicalcluster.Name) (webhooks.Gate, error) {
				return clusterGate{cluster}, tc.err
			})
			got := gate.Review(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: tc.operation, Object: runtime.RawExtension{Raw: []byte(tc.object)}, OldObject: runtime.RawExtension{Raw: []byte(tc.old)},
			}})
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(webhooks.Answer{}, "Details")); diff != "" {
				t.Errorf("Review() (-want +got):\n%s", diff)
			}
			if gate.Name() != "machine-ownership" {
				t.Errorf("Name() = %q", gate.Name())
			}
		})
	}
}
