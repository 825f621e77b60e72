package capcstest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/fakes/capcstest"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

var errLost = errors.New("the object has been modified")

// stale is the UUID of the server that a machine names at first.
const stale = "b1f2a9c4-7d3e-4a58-9c06-2e5d8f7a1b34"

// TestOrderOfWrites compares with the section "How the real provider behaves" of the project's notes on CloudSigma. The UUID of the server that
// the user has, or gets, is replaced by "own".
func TestOrderOfWrites(t *testing.T) {
	status := func(instance, provider string) capcstest.Write {
		return capcstest.Write{Status: true, InstanceID: instance, ProviderID: provider}
	}
	object := func(instance, provider string) capcstest.Write {
		return capcstest.Write{InstanceID: instance, ProviderID: provider}
	}
	lost := func(write capcstest.Write) capcstest.Write {
		write.Err = errLost
		return write
	}
	tests := map[string]struct {
		given func(w *world)
		// times is how often the machine is reconciled. Default: 1.
		times       int
		want        []capcstest.Write
		wantAgain   time.Duration // after the last time
		wantServers int           // of the user, in the end
	}{
		"new machine": {
			want:        []capcstest.Write{object("", ""), status("own", ""), object("own", "cloudsigma://own")},
			wantAgain:   10 * time.Second,
			wantServers: 1,
		},
		"new machine, with a server of its name": {
			given: func(w *world) { w.AddServer(region, w.alice, key.Name) },
			want: []capcstest.Write{
				object("", ""), status("own", ""), object("own", "cloudsigma://own"), status("own", "cloudsigma://own"),
			},
			wantAgain:   time.Minute,
			wantServers: 1,
		},
		"nothing to do": {
			given: func(w *world) {
				w.AddServer(region, w.alice, key.Name, cloudsigmatest.WithUUID(stale))
				w.names(stale)
			},
			want:        []capcstest.Write{status("own", "cloudsigma://own")},
			wantAgain:   time.Minute,
			wantServers: 1,
		},
		"404, without another server": {
			given:       func(w *world) { w.names(stale) },
			want:        []capcstest.Write{status("", "cloudsigma://stale"), status("own", "cloudsigma://stale"), object("own", "cloudsigma://own")},
			wantAgain:   10 * time.Second,
			wantServers: 1,
		},
		"404, with a server of its UID": {
			given: func(w *world) {
				w.names(stale)
				w.AddServer(region, w.alice, "other", cloudsigmatest.WithMeta(cloudsigmatest.MachineUID, uid))
			},
			want: []capcstest.Write{
				status("", "cloudsigma://stale"), status("own", "cloudsigma://stale"), object("own", "cloudsigma://own"), status("own", "cloudsigma://own"),
			},
			wantAgain:   time.Minute,
			wantServers: 1,
		},
		"403, with a server of its name": {
			given: func(w *world) {
				w.AddServer(region, w.bob, key.Name, cloudsigmatest.WithUUID(stale))
				w.names(stale)
				w.AddServer(region, w.alice, key.Name)
			},
			want:        []capcstest.Write{status("own", "cloudsigma://stale"), object("own", "cloudsigma://own"), status("own", "cloudsigma://own")},
			wantAgain:   time.Minute,
			wantServers: 1,
		},
		"403, without a server: cleared": {
			given: func(w *world) {
				w.AddServer(region, w.bob, key.Name, cloudsigmatest.WithUUID(stale))
				w.names(stale)
			},
			want:      []capcstest.Write{status("", "cloudsigma://stale")},
			wantAgain: 5 * time.Second,
		},
		"403, without a server: created after it was cleared": {
			given: func(w *world) {
				w.AddServer(region, w.bob, key.Name, cloudsigmatest.WithUUID(stale))
				w.names(stale)
			},
			times:       2,
			want:        []capcstest.Write{status("", "cloudsigma://stale"), status("own", "cloudsigma://stale"), object("own", "cloudsigma://own")},
			wantAgain:   10 * time.Second,
			wantServers: 1,
		},
		"the first status write of a new server is lost": {
			given:       func(w *world) { w.lose = 1 },
			want:        []capcstest.Write{object("", ""), lost(status("own", ""))},
			wantAgain:   10 * time.Second,
			wantServers: 1,
		},
		"a server is found again on the first page": {
			given: func(w *world) { w.lose = 1 },
			times: 2,
			want: []capcstest.Write{
				object("", ""), lost(status("own", "")), status("own", ""), object("own", "cloudsigma://own"), status("own", "cloudsigma://own"),
			},
			wantAgain:   time.Minute,
			wantServers: 1,
		},
		"the status write of an adopted server is lost": {
			given: func(w *world) {
				w.AddServer(region, w.alice, key.Name)
				w.lose = 1
			},
			want:        []capcstest.Write{object("", ""), lost(status("own", ""))},
			wantAgain:   5 * time.Second,
			wantServers: 1,
		},
		"clearing is lost: the provider continues": {
			given: func(w *world) {
				w.names(stale)
				w.lose = 1
			},
			want: []capcstest.Write{
				lost(status("", "cloudsigma://stale")), status("own", "cloudsigma://stale"), object("own", "cloudsigma://own"),
			},
			wantAgain:   10 * time.Second,
			wantServers: 1,
		},
		"providerID is corrected, never instanceID": {
			given: func(w *world) {
				own := w.AddServer(region, w.alice, key.Name)
				w.names(own.UUID)
				w.change("CloudSigmaMachine", key.Name, func(machine *unstructured.Unstructured) {
					_ = unstructured.SetNestedField(machine.Object, "cloudsigma://"+stale, "spec", "providerID")
				})
			},
			want:        []capcstest.Write{object("own", "cloudsigma://own"), status("own", "cloudsigma://own")},
			wantAgain:   time.Minute,
			wantServers: 1,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if test.given != nil {
				test.given(w)
			}
			p := capcstest.New(w.Client, w.options)
			var again time.Duration
			for range max(test.times, 1) {
				result, err := w.reconcile(p)
				if err != nil {
					t.Fatalf("Reconcile() error = %v", err)
				}
				again = result.RequeueAfter
			}
			servers := w.servers(w.alice)
			got := p.Writes(key)
			for i := range got {
				for j, field := range []*string{&got[i].InstanceID, &got[i].ProviderID} {
					if len(servers) > 0 {
						*field = strings.Replace(*field, servers[len(servers)-1], "own", 1)
					}
					*field = strings.Replace(*field, stale, []string{stale, "stale"}[j], 1)
				}
			}
			if diff := cmp.Diff(test.want, got, cmpopts.EquateErrors()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if again != test.wantAgain || len(servers) != test.wantServers {
				t.Errorf("again after %s with %d servers, want %s with %d", again, len(servers), test.wantAgain, test.wantServers)
			}
			if violations := w.Violations(); len(violations) > 0 {
				t.Errorf("Violations() = %q", violations)
			}
		})
	}
}

// TestLostWritesBeyondTheFirstPage has a user with a full page of servers. Each lost write of status makes the provider create another one.
func TestLostWritesBeyondTheFirstPage(t *testing.T) {
	w := newWorld(t)
	for i := range 2 {
		w.AddServer(region, w.alice, fmt.Sprintf("other-%d", i))
	}
	w.lose = 3
	var created []string
	w.options.Created = func(_ client.ObjectKey, server string) { created = append(created, server) }
	p := capcstest.New(w.Client, w.options)
	for range 5 {
		if _, err := w.reconcile(p); err != nil {
			t.Fatal(err)
		}
	}
	if len(created) != 4 {
		t.Errorf("created %d servers, want one for each lost write, and one that is named", len(created))
	}
	if diff := cmp.Diff(created, w.servers(w.alice)[2:]); diff != "" {
		t.Errorf("servers (-created +cloud):\n%s", diff)
	}
	if got := len(p.Denied(key)); got != 3 {
		t.Errorf("%d writes failed, want 3", got)
	}
	if got := p.Attempts(key); got != 5 {
		t.Errorf("Attempts() = %d, want 5", got)
	}
}
