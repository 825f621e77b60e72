package cluster_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/cluster"
	"warrantgate.dev/webhooks/webhookstest"
)

const (
	recordKey = "warrantgate.dev/user-named-by"
	// byAlice is the record of alice. byMallory has groups that somebody would like to have.
	byAlice   = `{"username":"alice","uid":"u1","groups":["team-a","system:authenticated"]}`
	byMallory = `{"username":"mallory","groups":["system:masters"]}`
)

// recorded returns the object with a record.
func recorded(o object, record any) object {
	all := maps.Clone(o)
	meta, _ := o["metadata"].(object)
	meta = maps.Clone(meta)
	meta["annotations"] = object{recordKey: record}
	all["metadata"] = meta
	return all
}

// writes are requests that name users or write records, of alice.
var writes = map[string]struct {
	resource      string
	before, after object
	// stored is the record after the request, and reason that of Record.
	stored string
	reason string
	// forged is true if Impersonation denies the request unless Record changed it before. checked is whether it checks the permission to
	// impersonate then.
	forged, checked bool
	// outdated is true if Impersonation is then undecided instead.
	outdated bool
}{
	"a cluster is created with a user": {
		resource: "cloudsigmaclusters", after: clusterWith(object{"userEmail": "tsap@shalb.com"}), stored: byAlice, reason: "Recorded", checked: true,
	},
	"a cluster is created with a Secret": {
		resource: "cloudsigmaclusters", after: clusterWith(object{"userRef": userRef("user", "")}), stored: byAlice, reason: "Recorded", checked: true,
	},
	"a cluster is created with the record of another": {
		resource: "cloudsigmaclusters", after: recorded(clusterWith(object{"userEmail": "tsap@shalb.com"}), byMallory),
		stored: byAlice, reason: "Recorded", forged: true, checked: true,
	},
	"a cluster is created with one's own record": {
		resource: "cloudsigmaclusters", after: recorded(clusterWith(object{"userEmail": "tsap@shalb.com"}), byAlice),
		stored: byAlice, reason: "RecordUnchanged", checked: true,
	},
	"a cluster that names nobody is created with a record": {
		resource: "cloudsigmaclusters", after: recorded(clusterWith(object{"region": "next"}), byMallory), stored: byAlice, reason: "Recorded", forged: true,
	},
	"a cluster that names nobody": {
		resource: "cloudsigmaclusters", after: clusterWith(object{"region": "next"}), reason: "RecordUnchanged",
	},
	"another user": {
		resource: "cloudsigmaclusters", before: recorded(clusterWith(object{"userEmail": "old@shalb.com"}), byMallory),
		after:  recorded(clusterWith(object{"userEmail": "tsap@shalb.com"}), byMallory),
		stored: byAlice, reason: "Recorded", outdated: true, checked: true,
	},
	"another user, without the record": {
		resource: "cloudsigmaclusters", before: recorded(clusterWith(object{"userEmail": "old@shalb.com"}), byMallory),
		after:  clusterWith(object{"userEmail": "tsap@shalb.com"}),
		stored: byAlice, reason: "Recorded", checked: true,
	},
	"the same user in other letters": {
		resource: "cloudsigmaclusters", before: recorded(clusterWith(object{"userEmail": "TSAP@shalb.com"}), byMallory),
		after:  recorded(clusterWith(object{"userEmail": "tsap@shalb.com"}), byMallory),
		stored: byMallory, reason: "RecordUnchanged",
	},
	"the record of another, for the same user": {
		resource: "cloudsigmaclusters", before: recorded(clusterWith(object{"userEmail": "tsap@shalb.com"}), byAlice),
		after:  recorded(clusterWith(object{"userEmail": "tsap@shalb.com"}), byMallory),
		stored: byAlice, reason: "Recorded", forged: true,
	},
	"a record for a user that was named before there were records": {
		resource: "cloudsigmaclusters", before: clusterWith(object{"userEmail": "tsap@shalb.com"}),
		after:  recorded(clusterWith(object{"userEmail": "tsap@shalb.com"}), "me"),
		stored: byAlice, reason: "Recorded", forged: true, checked: true,
	},
	"one's own record instead of that of another": {
		resource: "cloudsigmaclusters", before: recorded(clusterWith(object{"userEmail": "tsap@shalb.com"}), byMallory),
		after:  recorded(clusterWith(object{"userEmail": "tsap@shalb.com"}), byAlice),
		stored: byAlice, reason: "RecordUnchanged", checked: true,
	},
	"the record is removed": {
		resource: "cloudsigmaclusters", before: recorded(clusterWith(object{"userEmail": "tsap@shalb.com"}), byMallory),
		after:  clusterWith(object{"userEmail": "tsap@shalb.com"}),
		stored: byMallory, reason: "Recorded",
	},
	"the record is emptied": {
		resource: "cloudsigmaclusters", before: recorded(clusterWith(object{"userEmail": "tsap@shalb.com"}), byMallory),
		after:  recorded(clusterWith(object{"userEmail": "tsap@shalb.com"}), ""),
		stored: byMallory, reason: "Recorded",
	},
	"another region": {
		resource: "cloudsigmaclusters", before: recorded(clusterWith(object{"userEmail": "tsap@shalb.com", "region": "next"}), byMallory),
		after:  recorded(clusterWith(object{"userEmail": "tsap@shalb.com", "region": "zrh"}), byMallory),
		stored: byMallory, reason: "RecordUnchanged",
	},
	"the user is cleared": {
		resource: "cloudsigmaclusters", before: recorded(clusterWith(object{"userEmail": "tsap@shalb.com"}), byMallory),
		after:  recorded(clusterWith(object{}), byMallory),
		stored: byMallory, reason: "RecordUnchanged",
	},
	"a Secret with a user": {
		resource: "secrets", after: secretWith(map[string][]byte{"userEmail": []byte("tsap@shalb.com")}), stored: byAlice, reason: "Recorded", checked: true,
	},
	"a Secret with the record of another": {
		resource: "secrets", after: recorded(secretWith(map[string][]byte{"userEmail": []byte("tsap@shalb.com")}), byMallory),
		stored: byAlice, reason: "Recorded", forged: true, checked: true,
	},
	"a Secret without its record": {
		resource: "secrets", before: recorded(secretWith(map[string][]byte{"userEmail": []byte("tsap@shalb.com")}), byMallory),
		after:  secretWith(map[string][]byte{"userEmail": []byte("tsap@shalb.com")}),
		stored: byMallory, reason: "Recorded",
	},
	"a Secret with another user": {
		resource: "secrets", before: recorded(secretWith(map[string][]byte{"userEmail": []byte("old@shalb.com")}), byMallory),
		after:  recorded(secretWith(map[string][]byte{"userEmail": []byte("tsap@shalb.com")}), byMallory),
		stored: byAlice, reason: "Recorded", outdated: true, checked: true,
	},
	"an annotation of the wrong type": {
		resource: "cloudsigmaclusters", after: recorded(clusterWith(object{"userEmail": "tsap@shalb.com"}), 1), reason: "NotRecorded",
	},
	"a user of the wrong type": {
		resource: "cloudsigmaclusters", after: clusterWith(object{"userEmail": 1}), reason: "NotRecorded",
	},
}

// recordGate is the gate Record.
func recordGate() webhookstest.Gate {
	config := enforced
	config.ExemptNamespaces = []string{"exempt"}
	return webhookstest.Gate{Gate: cluster.NewRecord(config), Mode: v1beta1.Enforce}
}

func TestRecordGate(t *testing.T) {
	for name, tc := range writes {
		t.Run(name, func(t *testing.T) {
			r := request(t, tc.resource, tc.before, tc.after)
			answer := recordGate().Review(t.Context(), r)
			if answer.Decision != webhooks.Allowed || answer.Reason != tc.reason {
				t.Errorf("answer is %s %s, want %s", answer.Decision, answer.Reason, tc.reason)
			}
			if tc.reason == "NotRecorded" {
				return
			}
			if got := recordAfter(t, answer.Apply(t, r.Object.Raw)); got != tc.stored {
				t.Errorf("the record is %s, want %s", got, tc.stored)
			}
			if changed := len(answer.Patches) > 0; changed != (tc.reason == "Recorded") {
				t.Errorf("patches %v for %s", answer.Patches, answer.Reason)
			}
		})
	}
}

// TestRecordsAreChecked sends each write to Impersonation, as it is and as Record changes it.
func TestRecordsAreChecked(t *testing.T) {
	for name, tc := range writes {
		if tc.reason == "NotRecorded" {
			continue // TestReview has these
		}
		t.Run(name, func(t *testing.T) {
			r := request(t, tc.resource, tc.before, tc.after)
			users := &fakeUsers{emails: map[string]string{"team-a/user": "tsap@shalb.com"}}
			check := func(raw []byte) (webhookstest.Answer, bool) {
				reviewer := reviewerThatAllows(impersonate("tsap@shalb.com"))
				r.Object.Raw = raw
				answer := newGate(enforced, reviewer, users, nil).Review(t.Context(), r)
				return answer, len(reviewer.requested) > 0
			}
			answer, _ := check(r.Object.Raw)
			if forged := answer.Reason == "RecordForged"; forged != tc.forged {
				t.Errorf("without Record, the answer is %s %s", answer.Decision, answer.Reason)
			}
			if outdated := answer.Reason == "RecordOutdated" && answer.Decision == webhooks.Undecided; outdated != tc.outdated {
				t.Errorf("without Record, the answer is %s %s", answer.Decision, answer.Reason)
			}
			if tc.forged && (answer.Decision != webhooks.Denied || answer.Field != "metadata.annotations["+recordKey+"]" || strings.Contains(answer.Message, "mallory")) {
				t.Errorf("denial of %s: %s", answer.Field, answer.Message)
			}
			changed := recordGate().Review(t.Context(), request(t, tc.resource, tc.before, tc.after)).Apply(t, encode(t, tc.after))
			answer, checked := check(changed)
			if answer.Decision != webhooks.Allowed || checked != tc.checked {
				t.Errorf("the answer is %s %s: %s; the permission was checked: %t, want %t", answer.Decision, answer.Reason, answer.Message, checked, tc.checked)
			}
		})
	}
}

// In mode Warn nobody updates the record, so an old one must not hide that the requester may not name the user.
func TestRecordsInModeWarn(t *testing.T) {
	config := enforced
	config.Impersonation.Mode = v1beta1.Warn
	before, after := clusterWith(object{"userEmail": "old@shalb.com"}), clusterWith(object{"userEmail": "tsap@shalb.com"})
	r := request(t, "cloudsigmaclusters", recorded(before, byMallory), recorded(after, byMallory))
	if answer := newGate(config, reviewerThatAllows(), &fakeUsers{}, nil).Review(t.Context(), r); answer.Reason != "ImpersonationNotAllowed" {
		t.Errorf("the answer is %s %s", answer.Decision, answer.Reason)
	}
	if answer := newGate(config, reviewerThatAllows(impersonate("tsap@shalb.com")), &fakeUsers{}, nil).Review(t.Context(), r); answer.Decision != webhooks.Allowed {
		t.Errorf("with the permission, the answer is %s %s", answer.Decision, answer.Reason)
	}
}

// A record of oneself needs the permission that naming the user needs, so that the audit never finds an author who had none.
func TestRecordWithoutPermission(t *testing.T) {
	for _, resource := range []string{"cloudsigmaclusters", "secrets"} {
		o := clusterWith(object{"userEmail": "tsap@shalb.com"})
		if resource == "secrets" {
			o = secretWith(map[string][]byte{"userEmail": []byte("tsap@shalb.com")})
		}
		r := request(t, resource, recorded(o, byMallory), recorded(o, byAlice))
		if answer := newGate(enforced, reviewerThatAllows(), &fakeUsers{}, nil).Review(t.Context(), r); answer.Reason != "ImpersonationNotAllowed" {
			t.Errorf("%s: the answer is %s %s", resource, answer.Decision, answer.Reason)
		}
	}
}

func TestRecordGateElsewhere(t *testing.T) {
	o := recorded(secretWith(map[string][]byte{"userEmail": []byte("tsap@shalb.com")}), byMallory)
	exempt := request(t, "secrets", nil, o)
	exempt.Object.Raw, exempt.Namespace = encode(t, object{"metadata": object{"annotations": object{recordKey: byMallory}}, "data": o["data"]}), "exempt"
	if answer := recordGate().Review(t.Context(), exempt); answer.Reason != "NamespaceExempt" || len(answer.Patches) > 0 {
		t.Errorf("in an exempt namespace, the answer is %s with %v", answer.Reason, answer.Patches)
	}
	kdc := request(t, "kdcclusters", nil, kdcWith(object{"cloudsigma.com/owner-email": "tsap@shalb.com"}))
	if answer := recordGate().Review(t.Context(), kdc); answer.Reason != "UnknownKind" || answer.Status != metav1.StatusReasonBadRequest {
		t.Errorf("for a kind without records, the answer is %s", answer.Reason)
	}
	many := request(t, "cloudsigmaclusters", recorded(clusterWith(object{"userEmail": "old@shalb.com"}), byMallory),
		recorded(clusterWith(object{"userEmail": "tsap@shalb.com"}), byMallory))
	many.UserInfo = authenticationv1.UserInfo{Username: "alice", Groups: []string{strings.Repeat("g", 10<<10)}}
	if got := recordAfter(t, recordGate().Review(t.Context(), many).Apply(t, many.Object.Raw)); got != "" {
		t.Errorf("the record of a requester with large groups is %s, want none", got)
	}
}

// TestRecordHooks: mode Warn changes no objects. Of a provider's kinds on kcp, only clusters name users.
func TestRecordHooks(t *testing.T) {
	namesOf := func(hooks []webhooks.Hook) []string {
		var names []string
		for _, hook := range hooks {
			if hook.Path != "/cluster/record" || hook.FailurePolicy != admissionregistrationv1.Ignore || hook.Reinvocation != admissionregistrationv1.IfNeededReinvocationPolicy {
				t.Errorf("webhook %+v", hook)
			}
			names = append(names, hook.Name)
		}
		return names
	}
	warned := v1beta1.Cluster{Impersonation: v1beta1.ClusterImpersonation{Mode: v1beta1.Warn}}
	for name, tc := range map[string]struct {
		hooks []webhooks.Hook
		want  []string
	}{
		"on Kubernetes":             {cluster.RecordHooks(enforced), []string{"cloudsigmaclusters.record.warrantgate.dev", "secrets.record.warrantgate.dev"}},
		"on kcp":                    {cluster.ProviderRecordHooks(enforced), []string{"cloudsigmaclusters.record.warrantgate.dev"}},
		"in mode Warn":              {cluster.RecordHooks(warned), nil},
		"in mode Warn, on kcp":      {cluster.ProviderRecordHooks(warned), nil},
		"if the gate is turned off": {cluster.RecordHooks(v1beta1.Cluster{Impersonation: v1beta1.ClusterImpersonation{Mode: v1beta1.Off}}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, namesOf(tc.hooks)); diff != "" {
				t.Errorf("webhooks (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMatchConditionsSelectRecords evaluates the match conditions with the API server's own code. The validating webhook need not see that a
// record is removed.
func TestMatchConditionsSelectRecords(t *testing.T) {
	plain := clusterWith(object{"userEmail": "tsap@shalb.com"})
	secret := secretWith(map[string][]byte{"userEmail": []byte("tsap@shalb.com")})
	for name, tc := range map[string]struct {
		resource             string
		before, after        object
		mutating, validating bool
	}{
		"a record is added":                  {"cloudsigmaclusters", plain, recorded(plain, "me"), true, true},
		"a record is changed":                {"cloudsigmaclusters", recorded(plain, byAlice), recorded(plain, byMallory), true, true},
		"a record is removed":                {"cloudsigmaclusters", recorded(plain, byAlice), plain, true, false},
		"a cluster is created with one":      {"cloudsigmaclusters", nil, recorded(clusterWith(nil), byAlice), true, true},
		"the user changes":                   {"cloudsigmaclusters", plain, clusterWith(object{"userEmail": "other@shalb.com"}), true, true},
		"only the region changes":            {"cloudsigmaclusters", clusterWith(object{"region": "next"}), clusterWith(object{"region": "zrh"}), false, true},
		"the user of a Secret changes":       {"secrets", secret, secretWith(map[string][]byte{"userEmail": []byte("other@shalb.com")}), true, true},
		"nothing changes":                    {"cloudsigmaclusters", recorded(plain, byAlice), recorded(plain, byAlice), false, false},
		"a record of the wrong type":         {"cloudsigmaclusters", plain, recorded(plain, object{"a": 1}), true, true},
		"a Secret's record is added":         {"secrets", secret, recorded(secret, "me"), true, true},
		"a Secret's record is removed":       {"secrets", recorded(secret, byAlice), secret, true, false},
		"nothing of a Secret changes":        {"secrets", recorded(secret, byAlice), recorded(secret, byAlice), false, false},
		"a Secret without a user and record": {"secrets", nil, secretWith(nil), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			matches := func(hooks []webhooks.Hook, gate string) bool {
				match := matcherOf(t, hooks, gate, tc.resource)
				if tc.before == nil {
					return match(t, nil, unstructuredOf(t, tc.after))
				}
				return match(t, unstructuredOf(t, tc.before), unstructuredOf(t, tc.after))
			}
			if got := matches(cluster.RecordHooks(enforced), "record"); got != tc.mutating {
				t.Errorf("the mutating webhook matches: %t", got)
			}
			if got := matches(cluster.Hooks(enforced), "cluster"); got != tc.validating {
				t.Errorf("the validating webhook matches: %t", got)
			}
		})
	}
}

func unstructuredOf(t *testing.T, o object) *unstructured.Unstructured {
	t.Helper()
	read := &unstructured.Unstructured{}
	if err := json.Unmarshal(encode(t, o), &read.Object); err != nil {
		t.Fatal(err)
	}
	return read
}

// recordAfter returns the record in an object.
func recordAfter(t *testing.T, raw []byte) string {
	t.Helper()
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatal(err)
	}
	return o.Annotations[recordKey]
}
