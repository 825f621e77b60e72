package audit_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"

	"warrantgate.dev/internal/audit"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
)

var (
	away       = &ownership.UnknownError{Cause: ownership.CauseCloud, Err: errors.New("503")}
	notAllowed = &ownership.UnknownError{Cause: ownership.CauseNotImpersonable, Err: errors.New("403")}
)

const (
	notOwnedOther = "InstanceNotOwned worker: instance " + idOther + ` exists, but is not one of user "tenant@example.com" in region "next", which cluster ` +
		`"pool" acts as; clear the field, so that the provider adopts an instance of the user or creates one`
	otherCluster = `OwnerClusterMismatch worker: its owner, Machine "a", belongs to cluster "other" by its label cluster.x-k8s.io/cluster-name, ` +
		`which the provider uses, but the machine has the label of cluster "pool"; set the same label on both; if Cluster API sets it back, clear status.instanceID and spec.providerID`
)

// The check of one machine has the findings that a run has about it, except those that need a list of instances.
func TestRecheck(t *testing.T) {
	for name, tc := range map[string]struct {
		machines  []clusterapi.Machine // the first is checked
		accounts  map[string]any
		owners    map[string]any
		hidden    map[string]ownership.Verdict
		askErr    error
		confirmed bool
		want      []string
		wantErr   bool
		wantLater time.Duration
		requests  int
	}{
		"an ID that is held in another namespace, which the operator sees": {
			machines: []clusterapi.Machine{external("worker", "i-1"), external("b", "I-1", inNamespace("else"))},
			want:     []string{"InstanceIDConflict worker: 2 machines name instance i-1, which can be that of one only"},
		},
		"an instance of the user":                         {machines: []clusterapi.Machine{machine("worker", idOwn)}, hidden: map[string]ownership.Verdict{idOwn: ownership.Owned}, requests: 1},
		"an instance that a gate has confirmed":           {machines: []clusterapi.Machine{machine("worker", idOther)}, confirmed: true},
		"no instance":                                     {machines: []clusterapi.Machine{machine("worker", "")}},
		"another user's instance":                         {machines: []clusterapi.Machine{machine("worker", idOther)}, want: []string{notOwnedOther}, requests: 1},
		"the cloud does not answer":                       {machines: []clusterapi.Machine{machine("worker", idOther)}, askErr: away, wantErr: true, requests: 1},
		"the user cannot be impersonated, as a run says":  {machines: []clusterapi.Machine{machine("worker", idOther)}, askErr: notAllowed, requests: 1},
		"the region is not allowed, as a run says":        {machines: []clusterapi.Machine{machine("worker", idOther)}, askErr: &ownership.RegionError{}, requests: 1},
		"the credentials cannot be used, as a run says":   {machines: []clusterapi.Machine{machine("worker", idOther)}, askErr: &ownership.IdentityError{}, requests: 1},
		"the cluster cannot be read":                      {machines: []clusterapi.Machine{machine("worker", idOther)}, accounts: map[string]any{"team/pool": errors.New("forbidden")}, wantErr: true},
		"a cloud that is not configured, as a run says":   {machines: []clusterapi.Machine{machine("worker", idOther)}, accounts: map[string]any{"team/pool": ownership.Account{Cloud: "elsewhere"}}},
		"an owner of another cluster, and another user's": {machines: []clusterapi.Machine{machine("worker", idOther, ownedBy("a"))}, owners: map[string]any{"a": "other"}, want: []string{otherCluster, notOwnedOther}, requests: 1},
		"an owner of another cluster, and no answer":      {machines: []clusterapi.Machine{machine("worker", idOther, ownedBy("a"))}, owners: map[string]any{"a": "other"}, askErr: away, want: []string{otherCluster}, wantErr: true, requests: 1},
		"an owner that cannot be read": {
			machines: []clusterapi.Machine{machine("worker", idOther, ownedBy("a"))}, owners: map[string]any{"a": errors.New("forbidden")}, confirmed: true, wantErr: true,
		},
		"no cluster": {
			machines: []clusterapi.Machine{machine("worker", idOther, ofCluster(""))},
			want:     []string{"MachineWithoutCluster worker: it has no label cluster.x-k8s.io/cluster-name, so the user that its provider acts as is unknown"},
		},
		"a cluster that does not exist": {
			machines: []clusterapi.Machine{machine("worker", idOther, ofCluster("gone"))},
			want:     []string{`ClusterMissing worker: it belongs to cluster "gone", which does not exist here`},
		},
		"another machine with the same instance": {
			machines: []clusterapi.Machine{machine("worker", idOwn, withProviderID(idOwn)), machine("twin", idOwn, withProviderID(idOwn)), machine("third", idOther)}, confirmed: true,
			want: []string{"InstanceIDConflict worker: 2 machines name instance " + idOwn + ", which can be that of one only"},
		},
		"fields that may be about to become equal": {
			machines: []clusterapi.Machine{machine("worker", idOwn, withProviderID(idSpare))}, confirmed: true, wantLater: time.Minute,
		},
		"a former instance that is gone": {
			machines: []clusterapi.Machine{machine("worker", "", withProviderID(idSpare))}, hidden: map[string]ownership.Verdict{idSpare: ownership.Absent}, wantLater: time.Minute, requests: 1,
		},
		"another workspace's machine of the same user": {
			machines: []clusterapi.Machine{machine("worker", idOwn, at("a")), machine("twin", idOwn, at("b")), machine("thief", idOwn, at("c"))}, confirmed: true,
			accounts: map[string]any{"a|team/pool": tenant, "b|team/pool": tenant, "c|team/pool": other},
			want:     []string{"InstanceIDConflict worker: 2 machines name instance " + idOwn + ", which can be that of one only; not all of them are in this workspace"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := fakeObjects{machines: tc.machines, accounts: tc.accounts, owners: tc.owners}
			if objects.accounts == nil {
				objects.accounts = map[string]any{"team/pool": tenant}
			}
			a := newAudit(objects, &fakeCloud{hidden: tc.hidden, askErr: tc.askErr})
			a.Now = func() time.Time { return time.Unix(0, 0) }
			a.Confirmed = func(ownership.Claim) bool { return tc.confirmed }
			result, err := a.Recheck(t.Context(), tc.machines[0].Key())
			if (err != nil) != tc.wantErr {
				t.Errorf("error %v, want one: %t", err, tc.wantErr)
			}
			var got []string
			for _, f := range result.Findings {
				got = append(got, f.Reason+" "+f.Object.Name+": "+f.Message)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			for _, f := range result.Findings {
				if f.Reason == ownership.ReasonConflict && len(f.Others) == 0 {
					t.Errorf("%s of %s names no other machine to the operator", f.Reason, f.Object.Name)
				}
			}
			if result.Later != tc.wantLater || result.Requests != tc.requests {
				t.Errorf("later %s, %d requests, want %s and %d", result.Later, result.Requests, tc.wantLater, tc.requests)
			}
			// A run says the same about the machine.
			run, _ := a.Run(t.Context()) // some accounts have errors
			var ofRun []string
			for _, f := range run.Findings {
				if f.Object.Name == "worker" && f.LogicalCluster == tc.machines[0].LogicalCluster && f.Reason != ownership.ReasonUnknown {
					ofRun = append(ofRun, f.Reason+" "+f.Object.Name+": "+f.Message)
				}
			}
			if slices.Sort(ofRun); !tc.confirmed && !tc.wantErr {
				slices.Sort(got)
				if diff := cmp.Diff(ofRun, got); diff != "" {
					t.Errorf("findings (-run +recheck):\n%s", diff)
				}
			}
		})
	}
}

// recheckable is a controller with a cloud that a test changes. It audits every hour.
type recheckable struct {
	*audit.Controller
	recorder *recorded
	mu       sync.Mutex
	objects  fakeObjects
	stored   changing
	askErr   error
	asked    []string
}

// changing are objects whose machines another goroutine replaces.
type changing struct {
	fakeObjects
	replaced atomic.Pointer[clusterapi.Machine]
}

func (c *changing) now() fakeObjects {
	objects := c.fakeObjects
	if machine := c.replaced.Load(); machine != nil {
		objects.machines = []clusterapi.Machine{*machine}
	}
	return objects
}

func (c *changing) Machines() iter.Seq[clusterapi.Machine] { return c.now().Machines() }

func (c *changing) Machine(key clusterapi.MachineKey) (clusterapi.Machine, bool) {
	return c.now().Machine(key)
}

func (c *changing) Naming(id string, machine clusterapi.Machine) []clusterapi.Machine {
	return c.now().Naming(id, machine)
}

func (r *recheckable) Ask(_ context.Context, claim ownership.Claim) (ownership.Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, claim.Name)
	return ownership.Answer{Verdict: ownership.Foreign}, r.askErr
}

func (r *recheckable) Instances(context.Context, ownership.Account) ([]ownership.Instance, int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return nil, 1, r.askErr
}

// start starts a controller in a bubble of testing/synctest, after objects were read. The result stops it.
func (r *recheckable) start(ctx context.Context, t *testing.T, elector audit.Elector, onKCP bool) (stop func()) {
	t.Helper()
	r.recorder, r.stored.fakeObjects = &recorded{}, r.objects
	r.Controller = &audit.Controller{
		Audit: &audit.Audit{
			Objects: &r.stored, Clouds: map[string]ownership.Cloud{"cloudsigma": r}, Now: time.Now,
			Limiter: map[string]*rate.Limiter{"cloudsigma": rate.NewLimiter(5, 1)},
		},
		Recorder: r.recorder, Election: elector, Interval: time.Hour, OnKCP: onKCP, Synced: func() error { return nil },
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- r.Start(ctx) }()
	synctest.Wait()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Start() = %v", err)
		}
	}
}

// after returns the reasons and names in the Events of the next period.
func (r *recheckable) after(period time.Duration) []string {
	<-time.After(period)
	synctest.Wait()
	var got []string
	for _, event := range r.recorder.take() {
		got = append(got, event.Reason+" "+event.Object.Name)
	}
	slices.Sort(got)
	return got
}

func (r *recheckable) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.askErr, r.asked = err, nil
}

func (r *recheckable) requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked)
}

// A claim that was stored without an answer of the cloud is checked within a minute after the cloud is back.
func TestClaimsAreCheckedOnceTheCloudAnswers(t *testing.T) {
	worker := machine("worker", idOther)
	for name, tc := range map[string]struct {
		in     string
		change func(r *recheckable)
	}{
		"that were stored before the start": {change: func(*recheckable) {}},
		"that a watch has seen":             {change: func(r *recheckable) { r.Changed(r.objects.machines[0].Key()) }},
		"that no gate has seen on kcp": {in: "a", change: func(r *recheckable) {
			stored := machine("worker", idOther, at("a"))
			r.stored.replaced.Store(&stored)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &recheckable{askErr: away}
				r.objects = fakeObjects{machines: []clusterapi.Machine{worker}, accounts: map[string]any{"team/pool": tenant}}
				if tc.in != "" {
					r.objects = fakeObjects{machines: []clusterapi.Machine{machine("worker", "", at(tc.in))}, accounts: map[string]any{tc.in + "|team/pool": tenant}}
				}
				defer r.start(t.Context(), t, elected{}, tc.in != "")()
				tc.change(r)
				if got := r.after(30 * time.Minute); slices.Contains(got, "InstanceNotOwned worker") {
					t.Errorf("Events during the outage: %q", got)
				}
				if n := r.requests(); n < 30 || n > 100 {
					t.Errorf("%d requests in 30 minutes", n)
				}
				r.fail(nil)
				if diff := cmp.Diff([]string{"InstanceNotOwned worker"}, r.after(time.Minute)); diff != "" {
					t.Errorf("Events in the minute after the outage (-want +got):\n%s", diff)
				}
				if got := r.after(15 * time.Minute); len(got) > 0 || r.requests() != 1 {
					t.Errorf("afterwards: Events %q, %d requests", got, r.requests())
				}
			})
		})
	}
}

// A replica without the Lease ignores the changes of watches on Kubernetes: the leader has the same watches.
func TestChangesAreIgnoredWithoutTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recheckable{objects: fakeObjects{machines: []clusterapi.Machine{machine("worker", idOther)}, accounts: map[string]any{"team/pool": tenant}}}
		defer r.start(t.Context(), t, never{}, false)()
		r.Changed(r.objects.machines[0].Key())
		if got := r.after(time.Hour); len(got) > 0 || r.requests() > 0 {
			t.Errorf("Events %q, %d requests", got, r.requests())
		}
	})
}

// Fields that differ are reported a minute after the change, and what needs no cloud within 10 seconds, also while the cloud is away.
func TestFindingsBetweenRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		differing, moved := machine("differing", idOwn, withProviderID(idSpare)), machine("moved", "", withProviderID("server-1"), ownedBy("a"))
		r := &recheckable{objects: fakeObjects{
			machines: []clusterapi.Machine{differing, moved}, accounts: map[string]any{"team/pool": tenant}, owners: map[string]any{"a": "pool"},
		}}
		r.askErr = away
		defer r.start(t.Context(), t, elected{}, false)()
		r.after(30 * time.Minute)
		r.objects.owners["a"] = "other"
		r.Changed(moved.Key())
		if diff := cmp.Diff([]string{"InstanceIDInvalid moved", "OwnerClusterMismatch moved"}, r.after(10*time.Second)); diff != "" {
			t.Errorf("Events (-want +got):\n%s", diff)
		}
		if got := r.after(time.Minute); len(got) > 0 {
			t.Errorf("Events %q while there is no answer", got)
		}
	})
}

// A tenant that changes many machines does not delay the check of another one's, and each machine is checked once.
func TestManyChangesOfOneTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recheckable{objects: fakeObjects{accounts: map[string]any{"team/pool": tenant, "mallory/pool": tenant}}}
		defer r.start(t.Context(), t, elected{}, false)()
		for i := range 1000 {
			r.objects.machines = append(r.objects.machines, machine(fmt.Sprintf("m-%d", i), fmt.Sprintf("%08d", i)+idOther[8:], inNamespace("mallory")))
		}
		r.objects.machines = append(r.objects.machines, machine("worker", idOther))
		r.Audit.Objects = r.objects
		for range 3 {
			for _, m := range r.objects.machines {
				r.Changed(m.Key())
			}
		}
		if got := r.after(10 * time.Second); !slices.Contains(got, "InstanceNotOwned worker") || len(got) > 60 {
			t.Errorf("Events in 10 seconds: %d, want that of the other tenant, and those of 5 requests a second", len(got))
		}
		r.after(30 * time.Minute)
		if n := r.requests(); n != 1001 {
			t.Errorf("%d requests for 1001 machines", n)
		}
	})
}
