package cloudsigma_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
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
	first, want100 := numbered(1, 100)
	second, _ := numbered(101, 150)
	_, want150 := numbered(1, 150)
	unsorted, want2 := numbered(1, 2)
	unsorted[0], unsorted[1] = unsorted[1], unsorted[0]
	ofOthers := []object{aServer(serverID, "shared", strangerID, machineUID), {"uuid": strangerID}}
	for name, tc := range map[string]struct {
		answers answers // all of them are requested
		retries int
		want    []ownership.Instance
		wantErr failure
	}{
		"none":             {answers: answers{getPage1: aPage(0)}},
		"one page, sorted": {answers: answers{getPage1: aPage(2, unsorted...)}, want: want2},
		"two pages":        {answers: answers{getPage1: aPage(150, first...), pageAt(100): aPage(150, second...)}, want: want150},
		"pages smaller than requested": {
			answers: answers{getPage1: aPage(2, unsorted[0]), pageAt(1): aPage(2, unsorted[1])}, want: want2,
		},
		"servers deleted between pages": {answers: answers{getPage1: aPage(150, first...), pageAt(100): aPage(99)}, want: want100},
		"a server created between pages, so that another one appears twice": {
			answers: answers{getPage1: aPage(150, first...), pageAt(100): aPage(151, append([]object{first[99]}, second...)...)}, want: want150,
		},
		"only the user's own": {
			answers: answers{getPage1: aPage(3, append(ofOthers, aServer(otherID, machineName, userID, machineUID))...)},
			want:    []ownership.Instance{{ID: otherID, Name: machineName, MachineUID: machineUID}},
		},
		"401 once": {answers: answers{getPage1: cloudhttptest.InTurn(reply(http.StatusUnauthorized, canary), aPage(0))}, retries: 1},
		"a page that fails": {
			answers: answers{getPage1: aPage(150, first...), pageAt(100): reply(http.StatusBadGateway, canary)},
			wantErr: failure{RequestID: "req-502", Text: "CloudUnavailable: list request: the answer was 502 unspecified"},
		},
		"no profile": {
			answers: answers{getProfile: reply(http.StatusForbidden, canary)},
			wantErr: failure{RequestID: "req-403", Text: "CloudUnavailable: profile request: the answer was 403 unspecified"},
		},
		"no list": {
			answers: answers{getPage1: ok(`{"meta":{"total_count":0}}`)},
			wantErr: failure{RequestID: "req-200", Text: "CloudUnavailable: list request: the answer has no list"},
		},
		"a server without a UUID": {
			answers: answers{getPage1: aPage(1, object{"name": canary})},
			wantErr: failure{RequestID: "req-200", Text: "CloudUnavailable: list request: a server has no UUID"},
		},
		"no count": {
			answers: answers{getPage1: ok(inJSON(object{"objects": unsorted}))}, wantErr: inconsistent("2 servers of 0 after 1 pages"),
		},
		"an empty page before the end": {
			answers: answers{getPage1: aPage(150, first...), pageAt(100): aPage(150)}, wantErr: inconsistent("100 servers of 150 after 2 pages"),
		},
		"the same page again and again": {
			answers: answers{getPage1: aPage(1000, first...), pageAt(100): aPage(1000, first...)},
			wantErr: inconsistent("100 servers of 1000 after 2 pages"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.answers[getProfile] == nil {
				tc.answers[getProfile] = theProfile()
			}
			got, requests, err := newCloud(t, cloudhttptest.Serve(t, tc.answers), &fakeTokens{}).Instances(t.Context(), account())
			if want := len(tc.answers) + tc.retries; requests != want {
				t.Errorf("Instances() requests = %d, want %d", requests, want)
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

func inconsistent(list string) failure {
	return failure{RequestID: "req-200", Text: "CloudUnavailable: list request: the list is inconsistent: " + list}
}

func TestListIsLimitedToMaxPages(t *testing.T) {
	const most = 100
	endless := answers{getProfile: theProfile()}
	for n := range most {
		servers, _ := numbered(n, n)
		endless[pageAt(n)] = aPage(1<<30, servers...)
	}
	_, requests, err := newCloud(t, cloudhttptest.Serve(t, endless), &fakeTokens{}).Instances(t.Context(), account())
	expectFailure(t, err, inconsistent("100 servers of 1073741824 after 100 pages"))
	if requests != most+1 {
		t.Errorf("Instances() requests = %d, want %d", requests, most+1)
	}
}

func TestCachedProfileIsNotCounted(t *testing.T) {
	cloud := newCloud(t, cloudhttptest.Serve(t, answers{getProfile: theProfile(), getPage1: aPage(0)}), &fakeTokens{})
	for _, want := range []int{2, 1} {
		if _, requests, err := cloud.Instances(t.Context(), account()); err != nil || requests != want {
			t.Errorf("Instances() requests = %d, %v, want %d", requests, err, want)
		}
	}
}

// allocated returns the bytes that a call allocates, and those that its result keeps.
func allocated(call func() any) (total, kept int64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	result := call()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(result)
	return int64(after.TotalAlloc - before.TotalAlloc), int64(after.HeapAlloc) - int64(before.HeapAlloc) //nolint:gosec // far less than the maximum
}

// listing returns a call that lists 100 servers of the user, and the size of the list in bytes.
func listing(t *testing.T, modify func(server object)) (call func() any, size int64) {
	t.Helper()
	servers, _ := numbered(1, 100)
	for _, server := range servers {
		modify(server)
	}
	page := inJSON(object{"meta": object{"total_count": len(servers)}, "objects": servers})
	cloud := newCloud(t, cloudhttptest.Serve(t, answers{getProfile: theProfile(), getPage1: ok(page)}), &fakeTokens{})
	call = func() any {
		instances, _, err := cloud.Instances(t.Context(), account())
		if err != nil || len(instances) != len(servers) {
			t.Errorf("Instances() = %d instances, %v", len(instances), err)
		}
		return instances
	}
	call() // gets the profile
	return call, int64(len(page))
}

// A user can write metadata of any type and size into its servers.
func TestMetadataOfAnotherTypeIsNotDecoded(t *testing.T) {
	for name, value := range map[string]string{"lists": "[]", "objects": "{}", "numbers": "1"} {
		t.Run(name, func(t *testing.T) {
			values := "[" + strings.TrimSuffix(strings.Repeat(value+",", 10<<10/(len(value)+1)), ",") + "]"
			call, size := listing(t, func(server object) { server["meta"] = object{"machine-uid": json.RawMessage(values)} })
			if total, _ := allocated(call); total > 12*size {
				t.Errorf("a list of %d KiB takes %d KiB of memory", size>>10, total>>10)
			}
		})
	}
}

func TestInstancesKeepShortTexts(t *testing.T) {
	long := strings.Repeat("x", 30<<10)
	call, _ := listing(t, func(server object) { server["name"], server["meta"] = long, object{"machine-uid": long} })
	if _, kept := allocated(call); kept > 1<<20 {
		t.Errorf("a list of 100 servers keeps %d KiB", kept>>10)
	}
}
