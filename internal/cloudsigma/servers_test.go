package cloudsigma_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/cloudhttp/cloudhttptest"
	"warrantgate.dev/internal/ownership"
)

// numbered returns the servers of the user from first to last, and the expected instances.
func numbered(first, last int) (servers []object, want []ownership.Instance) {
	for n := first; n <= last; n++ {
		instance := ownership.Instance{ID: fmt.Sprintf("5d0c3e1f-9a47-4b6e-8f21-%012d", n), Name: fmt.Sprintf("server-%05d", n)}
		servers = append(servers, aServer(instance.ID, instance.Name, userID, ""))
		want = append(want, instance)
	}
	return servers, want
}

func pageAt(offset int) string {
	if offset == 0 {
		return getPage1
	}
	return fmt.Sprintf("%s&offset=%d", getPage1, offset)
}

func TestInstances(t *testing.T) {
	ok := func(body string) http.HandlerFunc { return reply(http.StatusOK, body) }
	first, _ := numbered(1, 100)
	second, _ := numbered(101, 150)
	_, want150 := numbered(1, 150)
	_, want100 := numbered(1, 100)
	unsorted, want2 := numbered(1, 2)
	unsorted[0], unsorted[1] = unsorted[1], unsorted[0]
	for name, tc := range map[string]struct {
		answers      answers
		want         []ownership.Instance
		wantErr      failure
		wantRequests int
	}{
		"none": {
			answers: answers{getProfile: theProfile(), getPage1: ok(aPage(0))}, wantRequests: 2,
		},
		"one page, sorted": {
			answers: answers{getProfile: theProfile(), getPage1: ok(aPage(2, unsorted...))}, want: want2, wantRequests: 2,
		},
		"two pages": {
			answers: answers{getProfile: theProfile(), getPage1: ok(aPage(150, first...)), pageAt(100): ok(aPage(150, second...))},
			want:    want150, wantRequests: 3,
		},
		"pages smaller than requested": {
			answers: answers{getProfile: theProfile(), getPage1: ok(aPage(2, unsorted[0])), pageAt(1): ok(aPage(2, unsorted[1]))},
			want:    want2, wantRequests: 3,
		},
		"servers deleted between pages": {
			answers: answers{getProfile: theProfile(), getPage1: ok(aPage(150, first...)), pageAt(100): ok(aPage(99))},
			want:    want100, wantRequests: 3,
		},
		"a server created between pages, so that another one appears twice": {
			answers: answers{
				getProfile: theProfile(), getPage1: ok(aPage(150, first...)),
				pageAt(100): ok(aPage(151, append([]object{first[99]}, second...)...)),
			},
			want: want150, wantRequests: 3,
		},
		"only the user's own": {
			answers: answers{getProfile: theProfile(), getPage1: ok(aPage(3,
				aServer(serverID, "shared", strangerID, machineUID), aServer(otherID, machineName, userID, machineUID), object{"uuid": strangerID}))},
			want: []ownership.Instance{{ID: otherID, Name: machineName, MachineUID: machineUID}}, wantRequests: 2,
		},
		"401 once": {
			answers: answers{getProfile: theProfile(), getPage1: cloudhttptest.InTurn(reply(http.StatusUnauthorized, canary), ok(aPage(0)))}, wantRequests: 3,
		},
		"a page that fails": {
			answers: answers{getProfile: theProfile(), getPage1: ok(aPage(150, first...)), pageAt(100): reply(http.StatusBadGateway, canary)},
			wantErr: failure{
				Cause: ownership.CauseCloud, RequestID: "req-502", Text: "CloudUnavailable: list request: the answer was 502 unspecified",
			},
			wantRequests: 3,
		},
		"no profile": {
			answers: answers{getProfile: reply(http.StatusForbidden, canary)},
			wantErr: failure{
				Cause: ownership.CauseCloud, RequestID: "req-403", Text: "CloudUnavailable: profile request: the answer was 403 unspecified",
			},
			wantRequests: 1,
		},
		"no list": {
			answers: answers{getProfile: theProfile(), getPage1: ok(`{"meta":{"total_count":0}}`)},
			wantErr: failure{
				Cause: ownership.CauseCloud, RequestID: "req-200", Text: "CloudUnavailable: list request: the answer has no list",
			},
			wantRequests: 2,
		},
		"a server without a UUID": {
			answers: answers{getProfile: theProfile(), getPage1: ok(aPage(1, object{"name": canary}))},
			wantErr: failure{
				Cause: ownership.CauseCloud, RequestID: "req-200", Text: "CloudUnavailable: list request: a server has no UUID",
			},
			wantRequests: 2,
		},
		"no count": {
			answers: answers{getProfile: theProfile(), getPage1: ok(inJSON(object{"objects": unsorted}))},
			wantErr: failure{
				Cause: ownership.CauseCloud, RequestID: "req-200",
				Text: "CloudUnavailable: list request: the list is inconsistent: 2 servers of 0 after 1 pages",
			},
			wantRequests: 2,
		},
		"an empty page before the end": {
			answers: answers{getProfile: theProfile(), getPage1: ok(aPage(150, first...)), pageAt(100): ok(aPage(150))},
			wantErr: failure{
				Cause: ownership.CauseCloud, RequestID: "req-200",
				Text: "CloudUnavailable: list request: the list is inconsistent: 100 servers of 150 after 2 pages",
			},
			wantRequests: 3,
		},
		"the same page again and again": {
			answers: answers{getProfile: theProfile(), getPage1: ok(aPage(1000, first...)), pageAt(100): ok(aPage(1000, first...))},
			wantErr: failure{
				Cause: ownership.CauseCloud, RequestID: "req-200",
				Text: "CloudUnavailable: list request: the list is inconsistent: 100 servers of 1000 after 2 pages",
			},
			wantRequests: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, requests, err := newAPI(t, tc.answers).cloud(&fakeTokens{}).Instances(t.Context(), account())
			if requests != tc.wantRequests {
				t.Errorf("Instances() requests = %d, want %d", requests, tc.wantRequests)
			}
			if tc.wantErr != (failure{}) {
				expectFailure(t, err, tc.wantErr)
				return
			}
			if err != nil {
				t.Fatalf("Instances() error = %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Instances() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestListIsLimitedToMaxPages(t *testing.T) {
	const most = 100
	endless := answers{getProfile: theProfile()}
	for n := range most {
		servers, _ := numbered(n, n)
		endless[pageAt(n)] = reply(http.StatusOK, aPage(1<<30, servers...))
	}
	_, requests, err := newAPI(t, endless).cloud(&fakeTokens{}).Instances(t.Context(), account())
	expectFailure(t, err, failure{
		Cause: ownership.CauseCloud, RequestID: "req-200",
		Text: "CloudUnavailable: list request: the list is inconsistent: 100 servers of 1073741824 after 100 pages",
	})
	if requests != most+1 {
		t.Errorf("Instances() requests = %d, want %d", requests, most+1)
	}
}

func TestCachedProfileIsNotCounted(t *testing.T) {
	cloud := newAPI(t, answers{getProfile: theProfile(), getPage1: reply(http.StatusOK, aPage(0))}).cloud(&fakeTokens{})
	for _, want := range []int{2, 1} {
		if _, requests, err := cloud.Instances(t.Context(), account()); err != nil || requests != want {
			t.Errorf("Instances() requests = %d, %v, want %d", requests, err, want)
		}
	}
}
