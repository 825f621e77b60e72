package impersonation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/impersonation"
)

// TestRecord reads each record again: it must have the permissions of the requester, and nothing else of the request.
func TestRecord(t *testing.T) {
	type extra = map[string]authenticationv1.ExtraValue
	groups := func(count int) []string {
		var all []string
		for i := range count {
			all = append(all, fmt.Sprintf("63dd227a-9502-4311-919e-%012d", i))
		}
		return all
	}
	for name, tc := range map[string]struct {
		requester, want authenticationv1.UserInfo
		record          string // not compared if it is empty
		none            bool
	}{
		"a user": {
			requester: authenticationv1.UserInfo{Username: "alice", UID: "u1", Groups: []string{"team-b", "team-a"}},
			want:      authenticationv1.UserInfo{Username: "alice", UID: "u1", Groups: []string{"team-b", "team-a"}},
			record:    `{"username":"alice","uid":"u1","groups":["team-b","team-a"]}`,
		},
		"a service account, without its pod and credential": {
			requester: authenticationv1.UserInfo{Username: "system:serviceaccount:a:b", Extra: extra{
				"authentication.kubernetes.io/pod-name": {"x"}, "authentication.kubernetes.io/credential-id": {"JTI=1"}, "user-assertion.cloud.example.com": {"secret"},
			}},
			want:   authenticationv1.UserInfo{Username: "system:serviceaccount:a:b"},
			record: `{"username":"system:serviceaccount:a:b"}`,
		},
		"a service account of kcp": {
			requester: authenticationv1.UserInfo{Username: "system:serviceaccount:a:b", Extra: extra{
				"authorization.kcp.io/warrant": {`{"user":"bob"}`}, "authentication.kcp.io/scopes": {"cluster:one", "cluster:two"},
				"authentication.kcp.io/cluster-name": {"one"}, "authentication.kubernetes.io/pod-name": {"x"},
			}},
			want: authenticationv1.UserInfo{Username: "system:serviceaccount:a:b", Extra: extra{
				"authorization.kcp.io/warrant": {`{"user":"bob"}`}, "authentication.kcp.io/scopes": {"cluster:one", "cluster:two"},
				"authentication.kcp.io/cluster-name": {"one"},
			}},
			record: `{"username":"system:serviceaccount:a:b","extra":{"authentication.kcp.io/cluster-name":["one"],` +
				`"authentication.kcp.io/scopes":["cluster:one","cluster:two"],"authorization.kcp.io/warrant":["{\"user\":\"bob\"}"]}}`,
		},
		"a name with quotes and a line break": {
			requester: authenticationv1.UserInfo{Username: "a\"},\n{\"username\":\"b"},
			want:      authenticationv1.UserInfo{Username: "a\"},\n{\"username\":\"b"},
		},
		"200 groups": {
			requester: authenticationv1.UserInfo{Username: "alice", Groups: groups(200)},
			want:      authenticationv1.UserInfo{Username: "alice", Groups: groups(200)},
		},
		"8 KiB": {
			requester: authenticationv1.UserInfo{Username: "alice", Groups: []string{strings.Repeat("g", clusterapi.MaxRecord-len(`{"username":"alice","groups":[""]}`))}},
			want:      authenticationv1.UserInfo{Username: "alice", Groups: []string{strings.Repeat("g", clusterapi.MaxRecord-len(`{"username":"alice","groups":[""]}`))}},
		},
		"more than 8 KiB": {
			requester: authenticationv1.UserInfo{Username: "alice", Groups: []string{strings.Repeat("g", clusterapi.MaxRecord+1-len(`{"username":"alice","groups":[""]}`))}},
			none:      true,
		},
		"too many groups": {requester: authenticationv1.UserInfo{Username: "alice", Groups: groups(220)}, none: true},
	} {
		t.Run(name, func(t *testing.T) {
			record := impersonation.Record(tc.requester)
			if tc.none {
				if record != "" {
					t.Fatalf("Record() has %d bytes, want none", len(record))
				}
				return
			}
			if len(record) > clusterapi.MaxRecord || tc.record != "" && record != tc.record {
				t.Errorf("Record() = %s, want %s", record, tc.record)
			}
			got, valid := impersonation.Recorded(record)
			if !valid {
				t.Error("the record is not valid")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Recorded() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecordsThatNobodyWrote(t *testing.T) {
	for name, record := range map[string]string{
		"text": "me", "no user": `{"groups":["system:masters"]}`, "another type": `{"username":["alice"]}`, "a list": `[]`, "null": `null`, "cut": `{"username":"alice"`,
	} {
		t.Run(name, func(t *testing.T) {
			if got, valid := impersonation.Recorded(record); valid {
				t.Errorf("Recorded(%s) = %+v, and it is valid", record, got)
			}
		})
	}
}
