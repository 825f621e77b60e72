package cluster_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

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
	allowed := webhookstest.Answer{Decision: webhooks.Allowed, Reason: "ImpersonationAllowed"}
	warned := func(field, of, other string, event func(reason, message string) []events.Event) webhookstest.Answer {
		text := field + of + "it names another user than " + other + " of the same name: " + acting
		return webhookstest.Answer{
			Decision: webhooks.Warned, Reason: "OwnerEmailDiffers", Message: text, Field: field,
			Events: event("OwnerEmailDiffers", "Admitted with a warning: "+text),
		}
	}
	onKdc := func(reason, message string) []events.Event {
		recorded := eventOn("k8s.kube-dc.com/v1alpha1", "KdcCluster", "prod", reason, message)
		recorded[0].Type = corev1.EventTypeWarning
		return recorded
	}
	byAnnotation := func(key string) string { return "metadata.annotations[" + key + "]" }
	tenant, bob := "tenant@example.com", "bob@example.com"

	for name, tc := range map[string]struct {
		resource string
		old, new object
		objects  map[string]object
		err      error
		want     webhookstest.Answer
	}{
		"an owner who is not the user of the cluster": {
			resource: "kdcclusters", new: kdcWith(object{newer: tenant}), objects: map[string]object{"cloudsigmaclusters": clusterWith(object{"userEmail": bob})},
			want: warned(byAnnotation(newer), ofKdc, "spec.userEmail of CloudSigmaCluster", onKdc),
		},
		"an owner who is, in another spelling": {
			resource: "kdcclusters", new: kdcWith(object{newer: tenant}), objects: map[string]object{"cloudsigmaclusters": clusterWith(object{"userEmail": "TENANT@example.com"})},
			want: allowed,
		},
		"an owner by the older annotation": {
			resource: "kdcclusters", new: kdcWith(object{older: tenant}), objects: map[string]object{"cloudsigmaclusters": clusterWith(object{"userEmail": bob})},
			want: warned(byAnnotation(older), ofKdc, "spec.userEmail of CloudSigmaCluster", onKdc),
		},
		"the older annotation below the newer one": {
			resource: "kdcclusters", old: kdcWith(object{newer: bob, older: bob}), new: kdcWith(object{newer: bob, older: tenant}),
			objects: map[string]object{"cloudsigmaclusters": clusterWith(object{"userEmail": bob})}, want: allowed,
		},
		"an owner of a cluster that does not exist yet": {resource: "kdcclusters", new: kdcWith(object{newer: tenant}), want: allowed},
		"an owner of a cluster whose user a Secret names": {
			resource: "kdcclusters", new: kdcWith(object{newer: tenant}),
			objects: map[string]object{"cloudsigmaclusters": clusterWith(object{"userRef": userRef("user", "")})}, want: allowed,
		},
		"an owner of a cluster that cannot be read": {
			resource: "kdcclusters", new: kdcWith(object{newer: tenant}), err: errors.New("etcd is away"),
			want: webhookstest.Answer{
				Decision: webhooks.Warned, Reason: "OwnerEmailNotCompared", Field: byAnnotation(newer), Message: byAnnotation(newer) + ofKdc + notCompared,
				Events:  onKdc("OwnerEmailNotCompared", "Admitted with a warning: "+byAnnotation(newer)+ofKdc+notCompared),
				Details: details("error", "etcd is away"),
			},
		},
		"a user who is not the owner": {
			resource: "cloudsigmaclusters", new: clusterWith(object{"userEmail": tenant}), objects: map[string]object{"kdcclusters": kdcWith(object{newer: bob, older: tenant})},
			want: warned("spec.userEmail", ofCluster, byAnnotation(newer)+" of KdcCluster", eventOnCluster),
		},
		"a user who is the owner": {
			resource: "cloudsigmaclusters", new: clusterWith(object{"userEmail": tenant}), objects: map[string]object{"kdcclusters": kdcWith(object{newer: tenant, older: bob})},
			want: allowed,
		},
		"a user of a cluster without an owner": {
			resource: "cloudsigmaclusters", new: clusterWith(object{"userEmail": tenant}), objects: map[string]object{"kdcclusters": kdcWith(nil)}, want: allowed,
		},
		"a cluster whose user a Secret names, with an owner that cannot be read": {
			resource: "cloudsigmaclusters", new: clusterWith(object{"userRef": userRef("user", "")}), err: errors.New("etcd is away"), want: allowed,
		},
		"an owner that is not changed": {
			resource: "kdcclusters", old: kdcWith(object{newer: tenant}), new: kdcWith(object{newer: tenant}),
			objects: map[string]object{"cloudsigmaclusters": clusterWith(object{"userEmail": bob})},
			want:    webhookstest.Answer{Decision: webhooks.Allowed, Reason: "NothingNamed"},
		},
		"another region of a cluster that differs": {
			resource: "cloudsigmaclusters", old: clusterWith(object{"userEmail": tenant, "region": "next"}), new: clusterWith(object{"userEmail": tenant, "region": "zrh"}),
			objects: map[string]object{"kdcclusters": kdcWith(object{newer: bob})},
			want:    webhookstest.Answer{Decision: webhooks.Allowed, Reason: "NothingNamed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.old == nil {
				tc.old = map[string]object{"kdcclusters": kdcWith(nil), "cloudsigmaclusters": clusterWith(object{})}[tc.resource]
			}
			reviewer := reviewerThatAllows(impersonate(tenant), impersonate(bob))
			gate := newGate(enforced, reviewer, &fakeUsers{emails: map[string]string{"team-a/user": tenant}, objects: tc.objects, objectsErr: tc.err}, nil)
			compareAnswers(t, tc.want, gate.Review(t.Context(), request(t, tc.resource, tc.old, tc.new)))
		})
	}
}
