package cluster_test

import (
	"errors"
	"testing"

	"warrantgate.dev/internal/events"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/webhookstest"
)

// A KdcCluster and the CloudSigmaCluster of its name should name the same user. Another user is a warning, not a denial.
func TestTheOwnerOfAKdcClusterAndTheUserOfItsCluster(t *testing.T) {
	const (
		newer, older = "cloudsigma.com/owner-email", "kube-dc.com/owner-email"
		acting       = "the cloud controller manager acts as the user of the KdcCluster and does not see the servers of the user of the " +
			"CloudSigmaCluster; set annotation cloudsigma.com/owner-email and spec.userEmail to the same user"
		ofKdc = ` of KdcCluster "prod" of namespace "team-a": `

		notCompared = "warrantgate cannot read CloudSigmaCluster of the same name, so the users were not compared; " +
			"the cause is in its log"
	)
	warned := func(field, of, other string, event func(reason, message string) []events.Event) webhookstest.Answer {
		text := field + of + "it names another user than " + other + " of the same name: " + acting
		return webhookstest.Answer{
			Decision: webhooks.Warned, Reason: "OwnerEmailDiffers", Message: text, Field: field,
			Events: event("OwnerEmailDiffers", "Admitted with a warning: "+text),
		}
	}
	byAnnotation := func(key string) string { return "metadata.annotations[" + key + "]" }
	tenant, bob := "tenant@example.com", "bob@example.com"
	ofUser := func(email string) object { return clusterWith(object{"userEmail": email}) }

	for name, tc := range map[string]struct {
		old, new object // KdcClusters, or CloudSigmaClusters where they have a spec
		other    object // the object of the other kind
		err      error
		want     webhookstest.Answer
	}{
		"an owner who is not the user of the cluster": {
			new: kdcWith(object{newer: tenant}), other: ofUser(bob),
			want: warned(byAnnotation(newer), ofKdc, "spec.userEmail of CloudSigmaCluster", eventOnKdc),
		},
		"an owner who is, in another spelling": {new: kdcWith(object{newer: tenant}), other: ofUser("TENANT@example.com"), want: impersonationAllowed},
		"an owner by the older annotation": {
			new: kdcWith(object{older: tenant}), other: ofUser(bob),
			want: warned(byAnnotation(older), ofKdc, "spec.userEmail of CloudSigmaCluster", eventOnKdc),
		},
		"the older annotation below the newer one": {
			old: kdcWith(object{newer: bob, older: bob}), new: kdcWith(object{newer: bob, older: tenant}),
			other: ofUser(bob), want: impersonationAllowed,
		},
		"an owner of a cluster that does not exist yet": {new: kdcWith(object{newer: tenant}), want: impersonationAllowed},
		"an owner of a cluster whose user a Secret names": {
			new:   kdcWith(object{newer: tenant}),
			other: clusterWith(object{"userRef": userRef("user", "")}), want: impersonationAllowed,
		},
		"an owner of a cluster that cannot be read": {
			new: kdcWith(object{newer: tenant}), err: errors.New("etcd is away"),
			want: webhookstest.Answer{
				Decision: webhooks.Warned, Reason: "OwnerEmailNotCompared", Field: byAnnotation(newer), Message: byAnnotation(newer) + ofKdc + notCompared,
				Events:  eventOnKdc("OwnerEmailNotCompared", "Admitted with a warning: "+byAnnotation(newer)+ofKdc+notCompared),
				Details: details("error", "etcd is away"),
			},
		},
		"a user who is not the owner": {
			new: ofUser(tenant), other: kdcWith(object{newer: bob, older: tenant}),
			want: warned("spec.userEmail", ofCluster, byAnnotation(newer)+" of KdcCluster", eventOnCluster),
		},
		"a user who is the owner":              {new: ofUser(tenant), other: kdcWith(object{newer: tenant, older: bob}), want: impersonationAllowed},
		"a user of a cluster without an owner": {new: ofUser(tenant), other: kdcWith(nil), want: impersonationAllowed},
		"a cluster whose user a Secret names, with an owner that cannot be read": {
			new: clusterWith(object{"userRef": userRef("user", "")}), err: errors.New("etcd is away"), want: impersonationAllowed,
		},
		"an owner that is not changed": {
			old: kdcWith(object{newer: tenant}), new: kdcWith(object{newer: tenant}),
			other: ofUser(bob), want: nothingNamed,
		},
		"another region of a cluster that differs": {
			old: clusterWith(object{"userEmail": tenant, "region": "next"}), new: clusterWith(object{"userEmail": tenant, "region": "zrh"}),
			other: kdcWith(object{newer: bob}), want: nothingNamed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			resource, other, before := "kdcclusters", "cloudsigmaclusters", kdcWith(nil)
			if _, isCluster := tc.new["spec"]; isCluster {
				resource, other, before = other, resource, clusterWith(object{})
			}
			if tc.old == nil {
				tc.old = before
			}
			objects := map[string]object{}
			if tc.other != nil {
				objects[other] = tc.other
			}
			reviewer := reviewerThatAllows(impersonate(tenant), impersonate(bob))
			gate := newGate(enforced, reviewer, &fakeUsers{emails: map[string]string{"team-a/user": tenant}, objects: objects, objectsErr: tc.err}, nil)
			compareAnswers(t, tc.want, gate.Review(t.Context(), request(t, resource, tc.old, tc.new)))
		})
	}
}
