package machine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// unanswering is a world whose cloud has no answer.
func unanswering(cause ownership.Cause) func(*world) {
	return func(w *world) {
		w.answers, w.err = nil, &ownership.UnknownError{Cause: cause, Err: errors.New("no answer")}
		if cause == ownership.CauseRegion {
			w.err = &ownership.RegionError{Region: "zrh", Allowed: []string{"next"}}
		}
	}
}

// A first claim is admitted if the cloud, the identity provider or the access to them is away, and left to the audit.
func TestFirstClaimsWithoutAnAnswer(t *testing.T) {
	first := func(modify ...func(object)) func(*testing.T) admissionv1.AdmissionReview {
		return func(t *testing.T) admissionv1.AdmissionReview {
			t.Helper()
			return review(t, newMachine(), newMachine(append(modify, instanceID(ownID))...), ofStatus)
		}
	}
	update := func(old, changed []func(object), modify ...func(*admissionv1.AdmissionRequest)) func(*testing.T) admissionv1.AdmissionReview {
		return func(t *testing.T) admissionv1.AdmissionReview {
			t.Helper()
			return review(t, newMachine(old...), newMachine(changed...), modify...)
		}
	}
	provider := providerID("cloudsigma://" + foreignID)
	for name, tc := range map[string]struct {
		cause   ownership.Cause
		modify  func(*world)
		unknown v1beta1.UnknownPolicy // default: AdmitFirstClaims
		covers  func(context.Context) bool
		request func(*testing.T) admissionv1.AdmissionReview // default: first()
		want    string                                       // the decision
		reason  string                                       // default: OwnershipUnknown
	}{
		"a timeout":                        {cause: ownership.CauseTimeout, want: "warned"},
		"a limit of the rate":              {cause: ownership.CauseRateLimited, want: "warned"},
		"no cloud":                         {cause: ownership.CauseCloud, want: "warned"},
		"no identity provider":             {cause: ownership.CauseIdentityProvider, want: "warned"},
		"rejected credentials":             {cause: ownership.CauseCredentials, want: "warned"},
		"a user who must not be acted as":  {cause: ownership.CauseNotImpersonable, want: "error"},
		"too many requests of others":      {cause: ownership.CauseBusy, want: "warned"},
		"a tenant with too many requests":  {cause: ownership.CauseTenantBusy, want: "warned"},
		"a region that is not allowed":     {cause: ownership.CauseRegion, want: "denied", reason: "RegionNotAllowed"},
		"with the policy Deny":             {unknown: v1beta1.Deny, want: "error"},
		"with the policy Admit":            {unknown: v1beta1.Admit, want: "warned"},
		"that nothing audits":              {covers: func(context.Context) bool { return false }, want: "error"},
		"that the audit covers":            {covers: func(context.Context) bool { return true }, want: "warned"},
		"while the provider ID is another": {request: update(fields(provider), fields(provider, instanceID(ownID)), ofStatus), want: "warned"},
		"by the provider ID":               {request: update(nil, fields(providerID("cloudsigma://"+ownID))), want: "warned"},
		"by both fields":                   {request: update(nil, fields(providerID("cloudsigma://"+ownID), instanceID(ownID))), want: "warned"},
		"on a dry run":                     {request: update(nil, fields(instanceID(ownID)), dryRun), want: "warned"},
		"of a machine that is created": {request: func(t *testing.T) admissionv1.AdmissionReview {
			t.Helper()
			return review(t, nil, newMachine(instanceID(ownID)))
		}, want: "error"},
		"after another ID":                 {request: update(fields(instanceID(foreignID)), fields(instanceID(ownID)), ofStatus), want: "error"},
		"after a malformed ID":             {request: update(fields(instanceID("soon")), fields(instanceID(ownID)), ofStatus), want: "error"},
		"by the provider ID, beside an ID": {request: update(fields(instanceID(ownID)), fields(instanceID(ownID), provider)), want: "error"},
		"with another cluster":             {request: update(nil, fields(instanceID(ownID), inOther)), modify: ownerIn("other"), want: "error"},
		"with another owner":               {request: update(nil, fields(instanceID(ownID), ownedBy("other"))), modify: func(w *world) { w.owners["other"] = "metal" }, want: "error"},
		"of what could not be decoded":     {request: update(fields(instanceID(int64(5))), fields(instanceID(ownID))), want: "error"},
		"of what had no object for status": {request: update(fields(with("status", "odd")), fields(instanceID(ownID))), want: "error"},
		"of a malformed ID":                {request: first(providerID("x")), want: "denied", reason: "ProviderIDInvalid"},
		"without a cluster":                {request: update(fields(with("metadata.labels", nil)), fields(with("metadata.labels", nil), instanceID(ownID))), want: "denied", reason: "MachineWithoutCluster"},
		"of a cluster without a user": {modify: func(w *world) {
			w.accountErr = &clusterapi.AccountError{Reason: clusterapi.UserMissing}
		}, want: "denied", reason: "UserMissing"},
		"of a cluster that cannot be read": {modify: func(w *world) { w.accountErr = errors.New("away") }, want: "error", reason: "ObjectsUnknown"},
		"of another machine's ID":          {modify: held("team-b", "victim"), want: "denied", reason: "InstanceIDConflict"},
		"of an ID that a machine of another user names": {modify: func(w *world) {
			held("team-b", "squatter")(w)
			actsAs(ownership.Account{Cloud: "cloudsigma", User: "bob@example.com"}, nil)(w)
		}, want: "denied", reason: "InstanceIDConflict"},
		"while machines cannot be read":     {modify: func(w *world) { w.holderErr = errors.New("away") }, want: "error", reason: "ObjectsUnknown"},
		"of another cluster than its owner": {modify: ownerIn("other"), want: "denied", reason: "OwnerClusterMismatch"},
		"while the owner cannot be read":    {modify: func(w *world) { w.ownerErr = errors.New("away") }, want: "error", reason: "ObjectsUnknown"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.cause == "" {
				tc.cause = ownership.CauseCloud
			}
			if tc.unknown == "" {
				tc.unknown = v1beta1.AdmitFirstClaims
			}
			if tc.request == nil {
				tc.request = first()
			}
			if tc.reason == "" {
				tc.reason = "OwnershipUnknown"
			}
			w := newWorld(unanswering(tc.cause))
			if tc.modify != nil {
				tc.modify(w)
			}
			gate := w.gate(v1beta1.Machine{Mode: v1beta1.Enforce, Unknown: tc.unknown}).AuditedIf(tc.covers)
			got := send(t, webhooks.Handler(gate, v1beta1.Enforce, w), tc.request(t))
			if diff := cmp.Diff(audit(tc.want, tc.reason), got.AuditAnnotations); diff != "" || got.Allowed != (tc.want == "warned") {
				t.Errorf("allowed: %t, %v, annotations (-want +got):\n%s", got.Allowed, got.Result, diff)
			}
		})
	}
}
