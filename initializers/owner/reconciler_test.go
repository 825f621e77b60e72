package owner

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/internal/preflight"
	"warrantgate.dev/internal/share"
)

var (
	theRequest   = request{Shard: "https://shard", Parent: theHome, Name: "child", UID: "1", Cluster: theCluster}
	readyRequest = request{Parent: theHome, Name: "child", UID: "1", Cluster: theCluster, Ready: true}
)

// recorded collects Events, each as its type, reason, object and the beginning of its message.
type recorded []string

func (r *recorded) Record(event events.Event) {
	message, _, _ := strings.Cut(event.Message, ": ")
	*r = append(*r, strings.Join([]string{event.Type, event.Reason, event.Cluster.String() + "/" + event.Object.Name, message}, " "))
}

// requeue is the compared part of a reconcile.Result: how soon it is continued.
type requeue string

const (
	done  requeue = "done"
	poll  requeue = "within a second"
	later requeue = "after the first backoff"
)

func requeueOf(result reconcile.Result) requeue {
	switch after := result.RequeueAfter; {
	case after == 0:
		return done
	case after <= longestPoll:
		return poll
	default:
		return later
	}
}

func TestRepairReconcile(t *testing.T) {
	const initializing, ready = corev1alpha1.LogicalClusterPhaseInitializing, corev1alpha1.LogicalClusterPhaseReady
	now := time.Now()
	rewrittenEvent := "Normal OwnerRewritten " + theHome + "/child Repaired"
	retriggeredEvent := "Normal InitializationRetriggered " + theHome + "/child nothing that it needs is missing any more, so initialization is retriggered"
	deniedEvent := "Warning OwnerDenied " + theHome + `/child user "alice" may not create APIBindings in root:orgs:child; check whether the ` +
		`ClusterRoleBinding "workspace-admin" in ` + theCluster + ` names "alice"`
	lacksBindEvent := "Warning BindPermissionMissing " + theHome + `/child service account default/bot of ` + theHome + ` lacks "bind" on the APIExport "widgets" in ` +
		theHome + "; it needs in " + theHome
	ofAnotherType := theRequest
	ofAnotherType.Type = theHome + ":harmless"
	for name, tc := range map[string]struct {
		cluster    cluster
		request    request
		notPending bool
		untilStuck time.Duration
		dryRun     bool
		fail       func(string, client.Object) error
		want       requeue
		wantError  string
		wantEvents recorded
		wantAfter  after
	}{
		"a stuck workspace's owner is rewritten": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: onlyBindings}, request: theRequest,
			want: poll, wantEvents: recorded{rewrittenEvent}, wantAfter: after{Owner: globalName, RewrittenAt: true, BindingsLabel: true},
		},
		"once it is retriggered, it is checked later": {
			cluster: cluster{owner: rewrittenOwner, phase: initializing, initializers: onlyBindings, rewritten: now, admins: []string{globalName}}, request: theRequest,
			want: later, wantAfter: after{Owner: globalName},
		},
		"a Ready one is not checked again": {
			cluster: cluster{owner: rewrittenOwner, phase: ready, rewritten: now, admins: []string{globalName}}, request: readyRequest, notPending: true,
			want: done, wantAfter: after{Owner: globalName, BindingsLabel: true},
		},
		"a workspace that is not stuck any more is not read": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: onlyBindings}, request: theRequest, notPending: true,
			want: done, wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"a workspace without a logical cluster is not read": {
			cluster: cluster{owner: foreignOwner, phase: initializing}, request: request{Parent: theHome, Name: "child"},
			want: done, wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"an owner that is fine is left alone": {
			cluster: cluster{owner: localOwner, phase: initializing, initializers: onlyBindings}, request: theRequest,
			want: later, wantAfter: after{Owner: "alice", BindingsLabel: true},
		},
		"once nothing is missing any more, system:apibindings is retriggered": {
			cluster: cluster{owner: localOwner, phase: initializing, initializers: onlyBindings, allowed: true}, request: theRequest,
			want: later, wantEvents: recorded{retriggeredEvent}, wantAfter: after{Owner: "alice"},
		},
		"mode Warn does not retrigger it": {
			cluster: cluster{owner: localOwner, phase: initializing, initializers: onlyBindings, allowed: true}, request: theRequest, dryRun: true,
			want: later, wantAfter: after{Owner: "alice", BindingsLabel: true},
		},
		"a conflict is tried again": {
			cluster: cluster{owner: localOwner, phase: initializing, initializers: onlyBindings, allowed: true}, request: theRequest,
			fail: failOn[*corev1alpha1.LogicalCluster]("update", apierrors.NewConflict(logicalClusters, "cluster", errors.New("changed"))),
			want: poll, wantAfter: after{Owner: "alice", BindingsLabel: true},
		},
		"if it cannot be retriggered, the error is reported": {
			cluster: cluster{owner: localOwner, phase: initializing, initializers: onlyBindings, allowed: true}, request: theRequest,
			fail: failOn[*corev1alpha1.LogicalCluster]("update", errors.New("no quorum")), want: done,
			wantError:  "retrigger the initialization of root:orgs:child: no quorum",
			wantEvents: recorded{"Warning RepairFailed " + theHome + "/child The owner could not be corrected"}, wantAfter: after{Owner: "alice", BindingsLabel: true},
		},
		"a missing permission is reported, and nothing is written": {
			cluster: cluster{owner: localOwner, phase: initializing, initializers: onlyBindings, lacksEntry: true}, request: theRequest, want: later,
			wantEvents: recorded{deniedEvent}, wantAfter: after{Owner: "alice", BindingsLabel: true},
		},
		"before it counts as stuck, too": {
			cluster: cluster{owner: localOwner, phase: initializing, initializers: onlyBindings, lacksEntry: true}, request: theRequest,
			untilStuck: time.Minute, want: later, wantEvents: recorded{deniedEvent}, wantAfter: after{Owner: "alice", BindingsLabel: true},
		},
		"before it counts as stuck, the permission that a foreign owner lacks after the rewrite": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: onlyBindings, lacksEntry: true, binds: true, newKCP: true}, request: theRequest,
			untilStuck: time.Minute, want: later, wantEvents: recorded{lacksBindEvent}, wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"mode Warn, too": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: onlyBindings, lacksEntry: true, binds: true}, request: theRequest, dryRun: true,
			want:       later,
			wantEvents: recorded{lacksBindEvent, "Warning OwnerNotRewritten " + theHome + "/child The owner was not changed, because the repair only warns"},
			wantAfter:  after{Owner: bareName, BindingsLabel: true},
		},
		"the default API bindings of a type that is not the Workspace's are not reported": {
			cluster: cluster{owner: localOwner, phase: initializing, initializers: onlyBindings, lacksEntry: true, binds: true}, request: ofAnotherType,
			want: later, wantEvents: recorded{"Warning TypeDiffers " + theHome + `/child the annotation internal.tenancy.kcp.io/type of the LogicalCluster is "` +
				theHome + `:binding", but the type of the Workspace is "` + theHome + `:harmless"`, deniedEvent},
			wantAfter: after{Owner: "alice", BindingsLabel: true},
		},
		"before it counts as stuck, its owner is left alone": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: onlyBindings}, request: theRequest, untilStuck: time.Minute,
			want: later, wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"before it counts as stuck, kcp may be about to create the bindings": {
			cluster: cluster{owner: localOwner, phase: initializing, initializers: onlyBindings, allowed: true}, request: theRequest,
			untilStuck: time.Minute, want: later, wantAfter: after{Owner: "alice", BindingsLabel: true},
		},
		"so that from v0.32 on, which records a failure, nothing else is read": {
			cluster: cluster{owner: localOwner, phase: initializing, initializers: onlyBindings, lacksEntry: true, newKCP: true}, request: theRequest,
			untilStuck: time.Minute, want: later, wantAfter: after{Owner: "alice", BindingsLabel: true},
		},
		"and all is read once it has failed": {
			cluster: cluster{owner: localOwner, phase: initializing, initializers: onlyBindings, lacksEntry: true, newKCP: true, failed: true}, request: theRequest,
			untilStuck: time.Minute, want: later, wantEvents: recorded{deniedEvent}, wantAfter: after{Owner: "alice", BindingsLabel: true},
		},
		"unless it has failed to": {
			cluster: cluster{owner: localOwner, phase: initializing, initializers: onlyBindings, allowed: true, failed: true}, request: theRequest,
			untilStuck: time.Minute, want: later, wantEvents: recorded{retriggeredEvent}, wantAfter: after{Owner: "alice"},
		},
		"kcp before v0.32 is notified that the workspace is Ready": {
			cluster: cluster{owner: localOwner, phase: ready}, request: theRequest,
			want: later, wantAfter: after{Owner: "alice", BindingsLabel: true, WorkspaceMarked: true},
		},
		"if it cannot be notified, it is next time": {
			cluster: cluster{owner: localOwner, phase: ready}, request: theRequest,
			fail: func(verb string, _ client.Object) error {
				return map[string]error{"patch": errors.New("no shard")}[verb]
			},
			want: later, wantAfter: after{Owner: "alice", BindingsLabel: true},
		},
		"a workspace that is not Initializing yet": {
			cluster: cluster{owner: foreignOwner, phase: corev1alpha1.LogicalClusterPhaseScheduling, initializers: onlyOthers}, request: theRequest,
			want: later, wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"an owner that cannot be corrected is reported": {
			cluster: cluster{owner: ownerWithoutHome, phase: ready}, request: readyRequest, want: done,
			wantEvents: recorded{"Warning OwnerNotRewritten " + theHome + "/child The owner cannot be corrected"}, wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"an owner that another client changed is reported": {
			cluster: cluster{owner: `{"username":"root-boss"}`, recorded: localOwner, phase: initializing, initializers: onlyBindings}, request: theRequest, want: later,
			wantEvents: recorded{"Warning OwnerDiffers " + theHome + "/child"}, wantAfter: after{Owner: "root-boss", BindingsLabel: true},
		},
		"an owner that was changed in spec.createdBy is reported, and not initialized with": {
			cluster: cluster{owner: `{"username":"root-boss"}`, recorded: localOwner, newKCP: true, phase: initializing, initializers: onlyBindings, allowed: true},
			request: theRequest, want: later,
			wantEvents: recorded{"Warning OwnerDiffers " + theHome + "/child"}, wantAfter: after{Owner: "root-boss", BindingsLabel: true},
		},
		"an administrator's warrant that is dropped is reported": {
			cluster: cluster{owner: lentOwner, phase: initializing, initializers: onlyBindings, admins: []string{"alice"}}, request: theRequest, want: poll,
			wantEvents: recorded{"Normal WarrantDropped " + theHome + "/child Repaired"},
			wantAfter:  after{Owner: "alice", RewrittenAt: true, BindingsLabel: true},
		},
		"mode Warn only reports it": {
			cluster: cluster{owner: lentOwner, phase: initializing, initializers: onlyBindings, lacksEntry: true}, request: theRequest, dryRun: true, want: later,
			wantEvents: recorded{deniedEvent, "Warning PrivilegedOwner " + theHome + "/child The owner was not changed, because the repair only warns"},
			wantAfter:  after{Owner: "alice", BindingsLabel: true},
		},
		"mode Warn only reports": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: onlyBindings}, request: theRequest, dryRun: true, want: later,
			wantEvents: recorded{"Warning OwnerNotRewritten " + theHome + "/child The owner was not changed, because the repair only warns"},
			wantAfter:  after{Owner: bareName, BindingsLabel: true},
		},
		"an error is reported, and left to the queue": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: onlyBindings}, request: theRequest,
			fail: failOn[*corev1alpha1.LogicalCluster]("update", errors.New("no quorum")), want: done,
			wantError:  "change the owner of root:orgs:child: no quorum",
			wantEvents: recorded{"Warning RepairFailed " + theHome + "/child The owner could not be corrected"}, wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"a logical cluster that was deleted is checked later": {
			cluster: cluster{owner: foreignOwner, gone: true}, request: theRequest, want: later,
		},
	} {
		t.Run(name, func(t *testing.T) {
			clients := fakeKCP(t, tc.cluster, tc.fail)
			var got recorded
			r := &repairReconciler{
				steps:      &Steps{LogicalClusters: clients, Workspaces: clients, WorkspaceOf: childIn(clients), DryRun: tc.dryRun},
				pending:    func(request) bool { return !tc.notPending },
				untilStuck: func(request) time.Duration { return tc.untilStuck },
				workers:    newWorkers(), checks: newChecks(), slow: cache.NewExpiring(), limiter: unlimited, repeats: newRepeats(rate.Inf), backoff: newBackoff(), continued: newContinued(),
				reporter: reporter{recorder: &got, checker: preflight.Checker{Client: clients}},
			}
			result, err := r.Reconcile(t.Context(), tc.request)
			if message := textOf(err); message != tc.wantError {
				t.Errorf("Reconcile() error = %q, want %q", message, tc.wantError)
			}
			if got := requeueOf(result); got != tc.want {
				t.Errorf("Reconcile() = %+v, want %s", result, tc.want)
			}
			for i := range got { // the whole message of OwnerDiffers is about the owners
				if strings.Contains(got[i], events.OwnerDiffers) {
					got[i] = strings.Join(strings.Fields(got[i])[:3], " ")
				}
			}
			if diff := cmp.Diff(tc.wantEvents, got); diff != "" {
				t.Errorf("Events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantAfter, stateOf(t, clients)); diff != "" {
				t.Errorf("afterwards (-want +got):\n%s", diff)
			}
		})
	}
}

// A tenant can make the objects that a check for causes reads large, and delay it, in many workspaces with different parents.
func TestFewChecksForCausesRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		release := make(chan struct{})
		clients := fakeKCP(t, cluster{owner: localOwner, phase: corev1alpha1.LogicalClusterPhaseInitializing, initializers: onlyBindings}, func(_ string, object client.Object) error {
			if _, isForCauses := object.(*corev1alpha1.LogicalCluster); isForCauses {
				running.Add(1)
				<-release
			}
			return nil
		})
		r := newRepairReconciler(clients)
		results := make(chan reconcile.Result, workers)
		for i := range workers {
			req := theRequest
			req.Parent = logicalcluster.Name(fmt.Sprintf("parent-%d", i))
			go func() {
				result, err := r.Reconcile(t.Context(), req)
				if err != nil {
					t.Error(err)
				}
				results <- result
			}()
		}
		for range workers - checksForCauses {
			if result := <-results; result.RequeueAfter < firstBackoff || result.RequeueAfter > firstBackoff*12/10 || *result.Priority != repeatedPriority {
				t.Errorf("Reconcile() without a check for causes = %+v, want to repeat it after about %v", result, firstBackoff)
			}
		}
		if n := running.Load(); n != checksForCauses {
			t.Errorf("%d checks for causes run at the same time, want %d", n, checksForCauses)
		}
		close(release)
		for range checksForCauses {
			<-results
		}
	})
}

// A tenant can create many workspaces, and delay the checks for causes in each.
func TestSlowChecksForCausesLeaveSomeToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took time.Duration
		clients := fakeKCP(t, cluster{owner: localOwner, phase: corev1alpha1.LogicalClusterPhaseInitializing, initializers: onlyBindings}, func(_ string, object client.Object) error {
			if _, isForCauses := object.(*corev1alpha1.LogicalCluster); isForCauses {
				<-time.After(took)
			}
			return nil
		})
		r := newRepairReconciler(clients)
		check := func(parent string) {
			req := theRequest
			req.Parent = logicalcluster.Name(parent)
			if _, err := r.Reconcile(t.Context(), req); err != nil {
				t.Error(err)
			}
		}
		took = 2 * slowTime
		for i := range 2 * checksForCauses {
			check(fmt.Sprintf("slow-%d", i))
		}
		var running sync.WaitGroup
		defer running.Wait()
		for i := range 2 * checksForCauses {
			running.Go(func() { check(fmt.Sprintf("slow-%d", i)) })
		}
		synctest.Wait()
		if used := r.checks.Used(); used != checksForCauses/2 {
			t.Errorf("slow checks use %d of %d, want half", used, checksForCauses)
		}
		took = 0
		began := time.Now()
		if check("other"); time.Since(began) != 0 {
			t.Errorf("another check waits %v", time.Since(began))
		}
	})
}

// A workspace can become Ready after a check for causes has read it.
func TestAReadyWorkspaceIsNotRetriggered(t *testing.T) {
	var clients kcp.Clients
	checked, ready := false, false
	clients = fakeKCP(t, cluster{
		owner: localOwner, phase: corev1alpha1.LogicalClusterPhaseInitializing, initializers: onlyBindings, allowed: true,
	}, func(verb string, object client.Object) error {
		_, isForCauses := object.(*corev1alpha1.LogicalCluster)
		checked = checked || isForCauses
		if _, isForSteps := object.(*unstructured.Unstructured); isForSteps && verb == "get" && checked && !ready {
			ready = true
			c, err := clients(logicalcluster.NewPath(theCluster))
			if err != nil {
				return err
			}
			lc := &corev1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: corev1alpha1.LogicalClusterName}}
			return c.Status().Patch(t.Context(), lc, client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Ready","initializers":[]}}`)))
		}
		return nil
	})
	r, recorder := newRepairReconciler(clients), &recorded{}
	r.reporter.recorder = recorder
	if _, err := r.Reconcile(t.Context(), theRequest); err != nil || !ready || len(*recorder) != 0 {
		t.Errorf("Reconcile() error = %v, with Events %v; want that it is not retriggered", err, *recorder)
	}
}

// The administrator of a workspace can make its LogicalCluster larger than a MiB, and delay a check for causes.
func TestTheLogicalClusterIsNotHeldDuringACheckForCauses(t *testing.T) {
	var read weak.Pointer[unstructured.Unstructured]
	checks := 0
	clients := fakeKCP(t, cluster{
		owner: localOwner, phase: corev1alpha1.LogicalClusterPhaseInitializing, initializers: onlyBindings, allowed: true,
	}, func(verb string, object client.Object) error {
		switch object := object.(type) {
		case *unstructured.Unstructured:
			read = weak.Make(object)
		case *corev1alpha1.LogicalCluster:
			if checks++; verb == "get" {
				if runtime.GC(); read.Value() != nil {
					t.Error("the LogicalCluster is held")
				}
			}
		}
		return nil
	})
	if _, err := newRepairReconciler(clients).Reconcile(t.Context(), theRequest); err != nil || checks == 0 || stateOf(t, clients).BindingsLabel {
		t.Errorf("Reconcile() error = %v, with %d reads for causes; want that it is retriggered", err, checks)
	}
}

// newRepairReconciler returns a reconciler for which every Workspace is stuck.
func newRepairReconciler(clients kcp.Clients) *repairReconciler {
	return &repairReconciler{
		steps: &Steps{LogicalClusters: clients, Workspaces: clients}, pending: func(request) bool { return true },
		untilStuck: isStuck, workers: newWorkers(), checks: newChecks(), slow: cache.NewExpiring(), limiter: unlimited, repeats: newRepeats(rate.Inf), backoff: newBackoff(), continued: newContinued(),
		reporter: reporter{recorder: &recorded{}, checker: preflight.Checker{Client: clients}},
	}
}

// unlimited does not limit the checks.
var unlimited = rate.NewLimiter(rate.Inf, 1)

func newWorkers() *share.Limit[logicalcluster.Name] { return share.New[logicalcluster.Name](workers) }

func newChecks() *share.Limit[logicalcluster.Name] {
	return share.New[logicalcluster.Name](checksForCauses)
}

// isStuck is true of every Workspace.
func isStuck(request) time.Duration { return 0 }

// A Workspace whose cause is removed is checked within a minute. The interval does not grow beyond that.
func TestBackoffIsShortWhileACauseIsKnown(t *testing.T) {
	lacking := cluster{owner: localOwner, phase: corev1alpha1.LogicalClusterPhaseInitializing, initializers: onlyBindings, lacksEntry: true}
	clients := fakeKCP(t, lacking, nil)
	r := &repairReconciler{
		steps: &Steps{LogicalClusters: clients, Workspaces: clients}, pending: func(request) bool { return true },
		untilStuck: isStuck, workers: newWorkers(), checks: newChecks(), slow: cache.NewExpiring(), limiter: unlimited, repeats: newRepeats(rate.Inf), backoff: newBackoff(), continued: newContinued(),
		reporter: reporter{recorder: &recorded{}, checker: preflight.Checker{Client: clients}},
	}
	check := func() time.Duration {
		t.Helper()
		result, err := r.Reconcile(t.Context(), theRequest)
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}
	for range 12 {
		check()
	}
	if got := check(); got < causeBackoff || got > causeBackoff*12/10 {
		t.Errorf("it is checked again after %v, want about %v", got, causeBackoff)
	}
	lacking.lacksEntry, lacking.allowed = false, true
	granted := fakeKCP(t, lacking, nil)
	r.steps.LogicalClusters, r.steps.Workspaces, r.reporter.checker.Client = granted, granted, granted
	if got := check(); got < firstBackoff || got > firstBackoff*12/10 || stateOf(t, granted).BindingsLabel {
		t.Errorf("once it is retriggered, it is checked again after %v, want about %v", got, firstBackoff)
	}
}

// The limiter delays the first read of a workspace only: its repair is finished without a delay.
func TestRepairIsLimited(t *testing.T) {
	clients := fakeKCP(t, cluster{owner: foreignOwner, phase: corev1alpha1.LogicalClusterPhaseInitializing, initializers: onlyBindings}, nil)
	limiter := func() *rate.Limiter { return rate.NewLimiter(rate.Every(time.Hour), 1) }
	r := &repairReconciler{
		steps: &Steps{LogicalClusters: clients, Workspaces: clients}, pending: func(request) bool { return true },
		untilStuck: isStuck, workers: newWorkers(), checks: newChecks(), slow: cache.NewExpiring(), limiter: limiter(), backoff: newBackoff(), continued: newContinued(),
		reporter: reporter{recorder: &recorded{}},
	}
	r.limiter.Allow()
	reconcile := func(want string) {
		t.Helper()
		result, err := r.Reconcile(asTheController(t), theRequest)
		if got := stateOf(t, clients).Owner; err != nil || requeueOf(result) != poll || got != want {
			t.Errorf("Reconcile() = %+v, %v and the owner %s, want %s", result, err, got, want)
		}
	}
	reconcile(bareName)
	r.limiter = limiter()
	reconcile(globalName)
	reconcile(globalName)
}

// The first repair of a Workspace is not delayed by the repeated checks of others.
func TestRepeatedChecksGiveWay(t *testing.T) {
	const initializing = corev1alpha1.LogicalClusterPhaseInitializing
	for name, tc := range map[string]struct {
		cluster    cluster
		untilStuck time.Duration
		fail       error
		want       int
	}{
		"it is repaired once it is stuck": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: onlyBindings, allowed: true}, untilStuck: time.Minute, want: 0,
		},
		"its cause is checked again before": {
			cluster:    cluster{owner: localOwner, phase: initializing, initializers: onlyBindings, lacksEntry: true},
			untilStuck: time.Minute, want: repeatedPriority,
		},
		"it is still stuck": {
			cluster: cluster{owner: localOwner, phase: initializing, initializers: onlyBindings}, want: repeatedPriority,
		},
		"its repair fails": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: onlyBindings}, fail: errors.New("no quorum"), want: repeatedPriority,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepairReconciler(fakeKCP(t, tc.cluster, failOn[*corev1alpha1.LogicalCluster]("update", tc.fail)))
			r.untilStuck = func(request) time.Duration { return tc.untilStuck }
			result, err := r.Reconcile(t.Context(), theRequest)
			if !errors.Is(err, tc.fail) {
				t.Errorf("Reconcile() error = %v, want %v", err, tc.fail)
			}
			if diff := cmp.Diff(&tc.want, result.Priority); diff != "" {
				t.Errorf("priority (-want +got):\n%s", diff)
			}
		})
	}
}

// asTheController returns a context with the deadline of a reconcile.
func asTheController(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), reconcileTimeout)
	t.Cleanup(cancel)
	return ctx
}

// A user who may write a LogicalCluster can make each write of the repair conflict with a write of the user.
func TestRepairOfAContestedWorkspaceDoesNotDelayOthers(t *testing.T) {
	const initializing = corev1alpha1.LogicalClusterPhaseInitializing
	conflict := failOn[*corev1alpha1.LogicalCluster]("update", apierrors.NewConflict(logicalClusters, "cluster", errors.New("changed")))
	clients := fakeKCP(t, cluster{
		owner: foreignOwner, phase: initializing, initializers: []corev1alpha1.LogicalClusterInitializer{initializer, "system:apibindings"},
	}, conflict)
	gone := fakeKCP(t, cluster{gone: true}, nil)
	steps := &Steps{LogicalClusters: clients, Workspaces: clients}
	pending := true
	for name, r := range map[string]reconcile.TypedReconciler[request]{
		"repair": &repairReconciler{
			steps: steps, pending: func(request) bool { return pending },
			untilStuck: isStuck, workers: newWorkers(), checks: newChecks(), slow: cache.NewExpiring(), limiter: unlimited, repeats: newRepeats(rate.Inf),
			backoff: newBackoff(), continued: newContinued(), reporter: reporter{recorder: &recorded{}},
		},
		"initializer": &initializerReconciler{
			steps: steps,
			client: func(req request) (client.Client, error) {
				if !pending {
					return gone(req.Cluster.Path())
				}
				return clients(req.Cluster.Path())
			},
			continued: newContinued(), slowed: newBackoff(), workers: share.New[bool](workers), reporter: reporter{recorder: &recorded{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := func(after time.Duration, priority int) {
				t.Helper()
				want := reconcile.Result{RequeueAfter: after, Priority: &priority}
				got, err := r.Reconcile(t.Context(), theRequest)
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Errorf("Reconcile() error = %v, (-want +got):\n%s", err, diff)
				}
			}
			for range fastRuns {
				want(conflictDelay, 1)
			}
			want(slowRun, 0)
			want(slowRun, 0)
			pending = false
			if _, err := r.Reconcile(t.Context(), theRequest); err != nil {
				t.Error(err)
			}
			pending = true
			want(conflictDelay, 1)
		})
	}
}

func TestBackoffGrowsWhileAWorkspaceIsStuck(t *testing.T) {
	clients := fakeKCP(t, cluster{owner: foreignOwner, phase: corev1alpha1.LogicalClusterPhaseScheduling, initializers: onlyOthers}, nil)
	pending := true
	r := &repairReconciler{
		steps: &Steps{LogicalClusters: clients, Workspaces: clients}, pending: func(request) bool { return pending },
		untilStuck: isStuck, workers: newWorkers(), checks: newChecks(), slow: cache.NewExpiring(), limiter: unlimited, repeats: newRepeats(rate.Inf), backoff: newBackoff(), continued: newContinued(),
		reporter: reporter{recorder: &recorded{}},
	}
	within := func(want time.Duration) {
		t.Helper()
		result, err := r.Reconcile(t.Context(), theRequest)
		if err != nil || result.RequeueAfter < want || result.RequeueAfter > want*12/10 {
			t.Errorf("Reconcile() = %v, %v, want about %v", result.RequeueAfter, err, want)
		}
	}
	within(firstBackoff)
	within(2 * firstBackoff)
	within(4 * firstBackoff)
	for range 10 {
		_, _ = r.Reconcile(t.Context(), theRequest)
	}
	within(longestBackoff)
	pending = false
	if result, err := r.Reconcile(t.Context(), theRequest); err != nil || result.RequeueAfter != 0 {
		t.Errorf("Reconcile() of one that is not stuck any more = %v, %v", result, err)
	}
	pending = true
	within(firstBackoff)
}

func TestInitializerReconcile(t *testing.T) {
	const initializing = corev1alpha1.LogicalClusterPhaseInitializing
	ours := []corev1alpha1.LogicalClusterInitializer{"root:org:policies", initializer, "system:apibindings"}
	removed := []corev1alpha1.LogicalClusterInitializer{"root:org:policies", "system:apibindings"}
	blocked := " " + theHome + "/child The workspace stays in Initializing"
	for name, tc := range map[string]struct {
		cluster          cluster
		ofAnother        bool
		dryRun           bool
		fail             func(string, client.Object) error
		want             requeue
		wantError        string
		wantEvents       recorded
		wantInitializers []corev1alpha1.LogicalClusterInitializer
	}{
		"an owner that is fine is let through": {
			cluster: cluster{owner: localOwner, phase: initializing, initializers: ours}, want: done, wantInitializers: removed,
		},
		"a foreign owner is rewritten first": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: ours}, want: poll, wantInitializers: ours,
			wantEvents: recorded{"Normal OwnerRewritten " + theHome + "/child At initialization"},
		},
		"an administrator's warrant is dropped first": {
			cluster: cluster{owner: lentOwner, phase: initializing, initializers: ours}, want: poll, wantInitializers: ours,
			wantEvents: recorded{"Normal WarrantDropped " + theHome + "/child At initialization"},
		},
		"then kcp has to adopt it": {
			cluster: cluster{owner: rewrittenOwner, phase: initializing, initializers: ours, rewritten: time.Now()}, want: poll, wantInitializers: ours,
		},
		"then the initializer is removed": {
			cluster: cluster{owner: rewrittenOwner, phase: initializing, initializers: ours, rewritten: time.Now(), admins: []string{globalName}}, want: done,
			wantInitializers: removed,
		},
		"if another client changes the initializers at the same time, it is removed later": {
			cluster: cluster{owner: localOwner, phase: initializing, initializers: ours}, want: poll, wantInitializers: ours,
			fail: failOn[*corev1alpha1.LogicalCluster]("patch status", apierrors.NewInvalid(logicalClusterGVK.GroupKind(), "cluster", nil)),
		},
		"an owner that cannot be corrected is kept from becoming Ready": {
			cluster: cluster{owner: ownerWithoutHome, phase: initializing, initializers: ours}, want: done, wantInitializers: ours,
			wantError: errOwner.Error(), wantEvents: recorded{"Warning OwnerNotRewritten" + blocked},
		},
		"a workspace whose owner another client changed does not become Ready": {
			cluster: cluster{owner: `{"username":"root-boss"}`, recorded: localOwner, phase: initializing, initializers: ours}, want: done, wantInitializers: ours,
			wantError: errOwner.Error(), wantEvents: recorded{"Warning OwnerDiffers" + blocked},
		},
		"nor one whose spec.createdBy was changed": {
			cluster: cluster{owner: `{"username":"root-boss"}`, recorded: localOwner, newKCP: true, phase: initializing, initializers: ours}, want: done,
			wantInitializers: ours, wantError: errOwner.Error(), wantEvents: recorded{"Warning OwnerDiffers" + blocked},
		},
		"an error keeps it from becoming Ready": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: ours}, want: done, wantInitializers: ours,
			fail:      failOn[*corev1alpha1.LogicalCluster]("update", errors.New("no quorum")),
			wantError: "change the owner of root:orgs:child", wantEvents: recorded{"Warning OwnerNotRewritten" + blocked},
		},
		"no Event is written on a Workspace of another logical cluster": {
			cluster: cluster{owner: ownerWithoutHome, phase: initializing, initializers: ours}, ofAnother: true, want: done, wantInitializers: ours,
			wantError: errOwner.Error(),
		},
		"mode Warn lets it through": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: ours}, dryRun: true, want: done, wantInitializers: removed,
			wantEvents: recorded{"Warning OwnerNotRewritten " + theHome + "/child The owner was not changed, because the initializer only warns"},
		},
		"mode Warn lets an administrator's warrant through": {
			cluster: cluster{owner: lentOwner, phase: initializing, initializers: ours}, dryRun: true, want: done, wantInitializers: removed,
			wantEvents: recorded{"Warning PrivilegedOwner " + theHome + "/child The owner was not changed, because the initializer only warns"},
		},
		"mode Warn admits an owner that cannot be corrected": {
			cluster: cluster{owner: ownerWithoutHome, phase: initializing, initializers: ours}, dryRun: true, want: done, wantInitializers: removed,
		},
		"an initializer that was removed is not waited for": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: removed}, want: done, wantInitializers: removed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			clients := fakeKCP(t, tc.cluster, tc.fail)
			var got recorded
			r := &initializerReconciler{
				steps:     &Steps{LogicalClusters: clients, Workspaces: clients, WorkspaceOf: childIn(clients), DryRun: tc.dryRun},
				client:    func(req request) (client.Client, error) { return clients(req.Cluster.Path()) },
				continued: newContinued(), slowed: newBackoff(), workers: share.New[bool](workers), reporter: reporter{recorder: &got, workspaceOf: func(
					ctx context.Context, cluster logicalcluster.Name, of *corev1alpha1.LogicalClusterOwner,
				) (*tenancyv1alpha1.Workspace, error) {
					if tc.ofAnother {
						return nil, nil
					}
					return childIn(clients)(ctx, cluster, of)
				}},
			}
			result, err := r.Reconcile(t.Context(), request{Shard: "https://shard", Parent: theCluster, Name: "cluster", Cluster: theCluster})
			if message, _, _ := strings.Cut(textOf(err), ": "); message != tc.wantError {
				t.Errorf("Reconcile() error = %q, want %q", message, tc.wantError)
			}
			if got := requeueOf(result); got != tc.want {
				t.Errorf("Reconcile() = %+v, want %s", result, tc.want)
			}
			if diff := cmp.Diff(tc.wantEvents, got); diff != "" {
				t.Errorf("Events (-want +got):\n%s", diff)
			}
			inCluster, _ := clients(logicalcluster.NewPath(theCluster))
			var lc corev1alpha1.LogicalCluster
			if err := inCluster.Get(t.Context(), client.ObjectKey{Name: "cluster"}, &lc); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantInitializers, lc.Status.Initializers); diff != "" {
				t.Errorf("initializers (-want +got):\n%s", diff)
			}
		})
	}
}

// The front-proxy may not know a logical cluster yet that the virtual workspace already has.
func TestInitializerChecksAgainWhatIsGone(t *testing.T) {
	inVirtualWorkspace := fakeKCP(t, cluster{
		owner: localOwner, phase: corev1alpha1.LogicalClusterPhaseInitializing, initializers: []corev1alpha1.LogicalClusterInitializer{initializer},
	}, nil)
	clients := fakeKCP(t, cluster{gone: true}, nil)
	r := &initializerReconciler{
		steps:  &Steps{LogicalClusters: clients, Workspaces: clients},
		client: func(req request) (client.Client, error) { return inVirtualWorkspace(req.Cluster.Path()) },
		slowed: newBackoff(), workers: share.New[bool](workers),
	}
	if result, err := r.Reconcile(t.Context(), theRequest); err != nil || requeueOf(result) != later {
		t.Errorf("Reconcile() = %+v, %v, want later", result, err)
	}
}

// kcp removes entries of the same list at the same time.
func TestRemoveInitializerIfTheListChanges(t *testing.T) {
	have := []corev1alpha1.LogicalClusterInitializer{initializer, "system:apibindings"}
	clients := fakeKCP(t, cluster{owner: localOwner, phase: corev1alpha1.LogicalClusterPhaseInitializing, initializers: have}, nil)
	c, _ := clients(logicalcluster.NewPath(theCluster))
	read := func() *corev1alpha1.LogicalCluster {
		t.Helper()
		lc := &corev1alpha1.LogicalCluster{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "cluster"}, lc); err != nil {
			t.Fatal(err)
		}
		return lc
	}
	outdated := read()
	outdated.Status.Initializers = []corev1alpha1.LogicalClusterInitializer{"root:org:done", initializer, "system:apibindings"}
	if err := removeInitializer(t.Context(), c, outdated); !hasChanged(err) {
		t.Errorf("removeInitializer() of an outdated list = %v", err)
	}
	if diff := cmp.Diff(have, read().Status.Initializers); diff != "" {
		t.Errorf("initializers (-want +got):\n%s", diff)
	}
	if err := removeInitializer(t.Context(), c, read()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]corev1alpha1.LogicalClusterInitializer{"system:apibindings"}, read().Status.Initializers); diff != "" {
		t.Errorf("initializers (-want +got):\n%s", diff)
	}
}

// An initializer that cannot be removed is an error in the end, and not retried without one for ever.
func TestRemoveInitializerFails(t *testing.T) {
	invalid := apierrors.NewInvalid(logicalClusterGVK.GroupKind(), "cluster", nil)
	clients := fakeKCP(t, cluster{
		owner: localOwner, phase: corev1alpha1.LogicalClusterPhaseInitializing, initializers: []corev1alpha1.LogicalClusterInitializer{initializer},
	}, failOn[*corev1alpha1.LogicalCluster]("patch status", invalid))
	r := &initializerReconciler{
		steps:     &Steps{LogicalClusters: clients, Workspaces: clients},
		client:    func(req request) (client.Client, error) { return clients(req.Cluster.Path()) },
		continued: newContinued(), slowed: newBackoff(), workers: share.New[bool](workers), reporter: reporter{recorder: &recorded{}},
	}
	for range fastRuns {
		if result, err := r.Reconcile(t.Context(), theRequest); err != nil || result.RequeueAfter != conflictDelay {
			t.Fatalf("Reconcile() = %+v, %v, want to continue after %v", result, err, conflictDelay)
		}
	}
	if _, err := r.Reconcile(t.Context(), theRequest); !errors.Is(err, invalid) {
		t.Errorf("Reconcile() error = %v, want %v", err, invalid)
	}
}

// A tenant can delay the writes of the initializer, with webhooks for LogicalClusters in a workspace that is not Ready.
func TestSlowWritesDoNotOccupyTheInitializer(t *testing.T) {
	waiting := cluster{
		owner: localOwner, phase: corev1alpha1.LogicalClusterPhaseInitializing, initializers: []corev1alpha1.LogicalClusterInitializer{initializer},
	}
	clients := fakeKCP(t, waiting, failOn[*corev1alpha1.LogicalCluster]("patch status", context.DeadlineExceeded))
	r := &initializerReconciler{
		steps:     &Steps{LogicalClusters: clients, Workspaces: clients},
		client:    func(req request) (client.Client, error) { return clients(req.Cluster.Path()) },
		continued: newContinued(), slowed: newBackoff(), workers: share.New[bool](workers), reporter: reporter{recorder: &recorded{}},
	}
	var delay time.Duration
	for range 10 {
		result, err := r.Reconcile(t.Context(), theRequest)
		if delay = result.RequeueAfter; err != nil || delay < slowRun || *result.Priority != repeatedPriority {
			t.Fatalf("Reconcile() = %+v, %v, want to continue after %v or more, after others", result, err, slowRun)
		}
	}
	if delay < longestBackoff {
		t.Errorf("after ten slow writes, the next one is after %v, want %v", delay, longestBackoff)
	}
}

// A webhook can deny a write, or cause a conflict, shortly before the timeout.
func TestSlowRunsGiveWay(t *testing.T) {
	waiting := cluster{
		owner: foreignOwner, phase: corev1alpha1.LogicalClusterPhaseInitializing, initializers: []corev1alpha1.LogicalClusterInitializer{initializer, "system:apibindings"},
	}
	for name, tc := range map[string]struct {
		takes time.Duration
		err   error
		want  *int
	}{
		"a conflict":           {slowTime - 1, apierrors.NewConflict(logicalClusters, "cluster", errors.New("changed")), ptr.To(1)},
		"a conflict after 2 s": {slowTime, apierrors.NewConflict(logicalClusters, "cluster", errors.New("changed")), ptr.To(repeatedPriority)},
		"a denial after 2 s":   {slowTime, apierrors.NewForbidden(logicalClusters, "cluster", errors.New("denied")), ptr.To(repeatedPriority)},
	} {
		for controller, newReconciler := range map[string]func(kcp.Clients) reconcile.TypedReconciler[request]{
			"repair":      func(clients kcp.Clients) reconcile.TypedReconciler[request] { return newRepairReconciler(clients) },
			"initializer": func(clients kcp.Clients) reconcile.TypedReconciler[request] { return newInitializerReconciler(clients) },
		} {
			t.Run(controller+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					clients := fakeKCP(t, waiting, func(verb string, _ client.Object) error {
						if verb != "update" {
							return nil
						}
						time.Sleep(tc.takes) //nolint:forbidigo // advances the clock of the bubble
						return tc.err
					})
					result, err := newReconciler(clients).Reconcile(t.Context(), theRequest)
					if apierrors.IsForbidden(tc.err) != (err != nil) {
						t.Errorf("Reconcile() error = %v", err)
					}
					if diff := cmp.Diff(tc.want, result.Priority); diff != "" {
						t.Errorf("priority (-want +got):\n%s", diff)
					}
				})
			})
		}
	}
}

// Requests with slow runs leave workers to the others.
func TestSlowRunsDoNotOccupyAllWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waiting := cluster{
			owner: localOwner, phase: corev1alpha1.LogicalClusterPhaseInitializing, initializers: []corev1alpha1.LogicalClusterInitializer{initializer},
		}
		release := make(chan struct{})
		defer close(release)
		r := newInitializerReconciler(fakeKCP(t, waiting, func(verb string, _ client.Object) error {
			if verb == "patch status" {
				<-release
			}
			return nil
		}))
		given := make(chan reconcile.Result, workers)
		for i := range workers {
			slow := theRequest
			slow.Name = strconv.Itoa(i)
			r.slowed.When(slow)
			go func() {
				if result, err := r.Reconcile(t.Context(), slow); err == nil && result.RequeueAfter > 0 {
					given <- result
				}
			}()
		}
		synctest.Wait()
		if len(given) != workers/2 {
			t.Errorf("%d of %d slow requests give way, want half", len(given), workers)
		}
		r.client = func(request) (client.Client, error) {
			return fakeKCP(t, waiting, nil)(logicalcluster.NewPath(theCluster))
		}
		if result, err := r.Reconcile(t.Context(), theRequest); err != nil || result.RequeueAfter != 0 {
			t.Errorf("Reconcile() of another request = %+v, %v, want it done", result, err)
		}
	})
}

// newInitializerReconciler returns a reconciler for LogicalClusters that wait for the initializer.
func newInitializerReconciler(clients kcp.Clients) *initializerReconciler {
	return &initializerReconciler{
		steps:     &Steps{LogicalClusters: clients, Workspaces: clients},
		client:    func(req request) (client.Client, error) { return clients(req.Cluster.Path()) },
		continued: newContinued(), slowed: newBackoff(), workers: share.New[bool](workers), reporter: reporter{recorder: &recorded{}, workspaceOf: childIn(clients)},
	}
}

// A request to kcp may take longer than a worker may be occupied.
func TestWritesAreLimited(t *testing.T) {
	clients := fakeKCP(t, cluster{owner: localOwner, phase: corev1alpha1.LogicalClusterPhaseInitializing, initializers: onlyBindings}, nil)
	at := &state{result: Result{Cluster: theCluster}}
	if _, err := (&Steps{LogicalClusters: clients}).read(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	writes := 0
	check := func(ctx context.Context) {
		writes++
		if end, ends := ctx.Deadline(); !ends || time.Until(end) > writeTimeout {
			t.Errorf("write %d may last until %v", writes, end)
		}
	}
	c := interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
		Update: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.UpdateOption) error {
			check(ctx)
			return nil
		},
		SubResourcePatch: func(ctx context.Context, _ client.Client, _ string, _ client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
			check(ctx)
			return nil
		},
	})
	at.result.lc.client = c
	if _, err := at.result.lc.update(t.Context(), false); err != nil {
		t.Error(err)
	}
	if err := removeInitializer(t.Context(), c, &corev1alpha1.LogicalCluster{
		Status: corev1alpha1.LogicalClusterStatus{Initializers: []corev1alpha1.LogicalClusterInitializer{initializer}},
	}); err != nil {
		t.Error(err)
	}
	if writes != 2 {
		t.Errorf("%d writes, want 2", writes)
	}
}
