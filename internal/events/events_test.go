package events_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/events"
)

// All tests in this file run in testing/synctest bubbles: their clock advances only while all goroutines wait.

const (
	cluster      = logicalcluster.Name("1dz6n4ubraua7pul")
	otherCluster = logicalcluster.Name("m82w61j76ws21znq")
)

// These values are repeated here so that a change fails the tests.
const (
	// permissionInterval is the time between two permission checks.
	permissionInterval = 5 * time.Second
	// requestTimeout limits a request to kcp.
	requestTimeout = 5 * time.Second
)

// epoch is the time at which a bubble begins.
var epoch = metav1.NewTime(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))

// workspaceEvent returns an Event on a Workspace, changed by modify.
func workspaceEvent(modify ...func(*events.Event)) events.Event {
	event := events.Event{
		Cluster: cluster,
		Object: corev1.ObjectReference{
			APIVersion: "tenancy.kcp.io/v1alpha1", Kind: "Workspace", Name: "team-a", UID: "6a1b", ResourceVersion: "17",
		},
		Type: corev1.EventTypeNormal, Reason: "OwnerRewritten", Message: "The owner is now bob",
	}
	for _, m := range modify {
		m(&event)
	}
	return event
}

func withMessage(message string) func(*events.Event) {
	return func(e *events.Event) { e.Message = message }
}

// onLogicalCluster changes the object to a LogicalCluster, which has the same name in every logical cluster.
func onLogicalCluster(name logicalcluster.Name) func(*events.Event) {
	return func(e *events.Event) {
		e.Cluster = name
		e.Object = corev1.ObjectReference{APIVersion: "core.kcp.io/v1alpha1", Kind: "LogicalCluster", Name: "cluster"}
	}
}

// fakeWriter calls its functions. A call of a nil function fails the test.
type fakeWriter struct {
	t         *testing.T
	create    func(ctx context.Context, cluster logicalcluster.Name, event *corev1.Event) error
	patch     func(ctx context.Context, cluster logicalcluster.Name, event *corev1.Event, patch []byte) error
	permitted func(ctx context.Context) (bool, string, error)
}

var _ events.Writer = &fakeWriter{}

func (w *fakeWriter) Create(ctx context.Context, cluster logicalcluster.Name, event *corev1.Event) error {
	if w.create == nil {
		w.t.Errorf("Create(%s, %s) was not expected", cluster, event.Name)
		return errors.New("not expected")
	}
	return w.create(ctx, cluster, event)
}

func (w *fakeWriter) Patch(ctx context.Context, cluster logicalcluster.Name, event *corev1.Event, patch []byte) error {
	if w.patch == nil {
		w.t.Errorf("Patch(%s, %s) was not expected", cluster, event.Name)
		return errors.New("not expected")
	}
	return w.patch(ctx, cluster, event, patch)
}

func (w *fakeWriter) Permitted(ctx context.Context) (bool, string, error) {
	if w.permitted == nil {
		return true, "", nil
	}
	return w.permitted(ctx)
}

// fakeServer stores Events as an API server does: by logical cluster and name.
type fakeServer struct {
	mu     sync.Mutex
	stored map[string]*corev1.Event
}

func (s *fakeServer) writer(t *testing.T) *fakeWriter {
	t.Helper()
	s.stored = map[string]*corev1.Event{}
	return &fakeWriter{t: t, create: s.create, patch: s.patch}
}

func (s *fakeServer) create(_ context.Context, cluster logicalcluster.Name, event *corev1.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := cluster.String() + "/" + event.Name
	if s.stored[key] != nil {
		return apierrors.NewAlreadyExists(corev1.Resource("events"), event.Name)
	}
	s.stored[key] = event.DeepCopy()
	return nil
}

// patch merges only the top level. This is sufficient for the patches of the correlator.
func (s *fakeServer) patch(_ context.Context, cluster logicalcluster.Name, event *corev1.Event, patch []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := cluster.String() + "/" + event.Name
	if s.stored[key] == nil {
		return apierrors.NewNotFound(corev1.Resource("events"), event.Name)
	}
	if err := json.Unmarshal(patch, s.stored[key]); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// expire deletes all Events, as their TTL does.
func (s *fakeServer) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.stored)
}

// counts returns the count of each Event, by logical cluster and message, sorted.
func (s *fakeServer) counts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var counts []string
	for key, event := range s.stored {
		clusterName, _, _ := strings.Cut(key, "/")
		counts = append(counts, fmt.Sprintf("%s: %s x%d", clusterName, event.Message, event.Count))
	}
	slices.Sort(counts)
	return counts
}

// start starts a recorder in the bubble of t. stop stops it and waits for its end.
func start(t *testing.T, writer events.Writer) (recorder *events.Recorder, stop func()) {
	t.Helper()
	recorder = events.NewRecorder(writer)
	ctx, cancel := context.WithCancel(logf.IntoContext(t.Context(), logr.Discard()))
	ended := make(chan error, 1)
	go func() { ended <- recorder.Start(ctx) }()
	synctest.Wait() // until the permission check is done
	return recorder, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Start() error = %v", err)
		}
	}
}

func TestEventIsWritten(t *testing.T) {
	long := strings.Repeat("a", 1020) + "ééé" // the 1024th byte is within a character
	written := func(modify ...func(*corev1.Event)) *corev1.Event {
		event := &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("team-a.%x", epoch.UnixNano()), Namespace: "default"},
			InvolvedObject: corev1.ObjectReference{
				APIVersion: "tenancy.kcp.io/v1alpha1", Kind: "Workspace", Name: "team-a", UID: "6a1b", ResourceVersion: "17",
			},
			Type: "Normal", Reason: "OwnerRewritten", Message: "The owner is now bob", Count: 1,
			FirstTimestamp: epoch, LastTimestamp: epoch,
			Source: corev1.EventSource{Component: "warrantgate"}, ReportingController: "warrantgate",
		}
		for _, m := range modify {
			m(event)
		}
		return event
	}
	for name, tc := range map[string]struct {
		event       events.Event
		want        *corev1.Event
		wantCluster logicalcluster.Name
	}{
		"cluster-scoped object: in namespace default, with the object's UID": {
			event:       workspaceEvent(),
			want:        written(),
			wantCluster: cluster,
		},
		"namespaced object: in its namespace": {
			event: workspaceEvent(func(e *events.Event) { e.Object.Namespace, e.Cluster = "machines", otherCluster }),
			want: written(func(e *corev1.Event) {
				e.Namespace, e.InvolvedObject.Namespace = "machines", "machines"
			}),
			wantCluster: otherCluster,
		},
		"message of 1024 bytes: unchanged": {
			event:       workspaceEvent(withMessage(strings.Repeat("a", 1024))),
			want:        written(func(e *corev1.Event) { e.Message = strings.Repeat("a", 1024) }),
			wantCluster: cluster,
		},
		"longer message: cut between characters": {
			event:       workspaceEvent(withMessage(long)),
			want:        written(func(e *corev1.Event) { e.Message = strings.Repeat("a", 1020) + "…" }),
			wantCluster: cluster,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				count := newOutcomes(t)
				var got *corev1.Event
				var gotCluster logicalcluster.Name
				recorder, stop := start(t, &fakeWriter{t: t,
					create: func(_ context.Context, cluster logicalcluster.Name, event *corev1.Event) error {
						got, gotCluster = event.DeepCopy(), cluster
						return nil
					}})
				recorder.Record(tc.event)
				stop()

				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("written (-want +got):\n%s", diff)
				}
				if gotCluster != tc.wantCluster {
					t.Errorf("written in logical cluster %q, want %q", gotCluster, tc.wantCluster)
				}
				if len(got.Message) > 1024 || !utf8.ValidString(got.Message) {
					t.Errorf("a message of %d bytes, valid UTF-8: %t", len(got.Message), utf8.ValidString(got.Message))
				}
				if diff := cmp.Diff(map[string]float64{"written": 1}, count()); diff != "" {
					t.Errorf("counted (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestEventNameIsValidForLongObjectNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{}
		recorder, stop := start(t, server.writer(t))
		recorder.Record(workspaceEvent(func(e *events.Event) { e.Object.Name = strings.Repeat("a", 253) }))
		stop()
		if diff := cmp.Diff([]string{"1dz6n4ubraua7pul: The owner is now bob x1"}, server.counts()); diff != "" {
			t.Errorf("Events (-want +got):\n%s", diff)
		}
		for _, event := range server.stored {
			if errs := validation.NameIsDNSSubdomain(event.Name, false); len(errs) > 0 {
				t.Errorf("the Event's name %q %v", event.Name, errs)
			}
		}
	})
}

func TestRepeatedEventsAreAggregated(t *testing.T) {
	for name, tc := range map[string]struct {
		event func(i int) events.Event
		times int
		// every is the time between two Events. It is not 0, because the name of an Event contains its time.
		every       time.Duration
		wantObjects []string
		wantCounts  map[string]float64
	}{
		"10,000 of one text at once: one Event, and most are suppressed": {
			event:       func(int) events.Event { return workspaceEvent() },
			times:       10_000,
			every:       time.Microsecond,
			wantObjects: []string{"1dz6n4ubraua7pul: The owner is now bob x25"},
			wantCounts:  map[string]float64{"written": 25, "suppressed": 9975},
		},
		"1,000 of one text over a day: one Event with a rising count": {
			event:       func(int) events.Event { return workspaceEvent() },
			times:       1000,
			every:       90 * time.Second,
			wantObjects: []string{"1dz6n4ubraua7pul: The owner is now bob x998"},
			wantCounts:  map[string]float64{"written": 324, "suppressed": 676},
		},
		"1,000 different texts on one object: few Events, and the last one combines the rest": {
			event: func(i int) events.Event { return workspaceEvent(withMessage(fmt.Sprintf("refused %05d", i))) },
			times: 1000,
			every: time.Microsecond,
			wantObjects: []string{
				"1dz6n4ubraua7pul: (combined from similar events): refused 00024 x16",
				"1dz6n4ubraua7pul: refused 00000 x1", "1dz6n4ubraua7pul: refused 00001 x1", "1dz6n4ubraua7pul: refused 00002 x1",
				"1dz6n4ubraua7pul: refused 00003 x1", "1dz6n4ubraua7pul: refused 00004 x1", "1dz6n4ubraua7pul: refused 00005 x1",
				"1dz6n4ubraua7pul: refused 00006 x1", "1dz6n4ubraua7pul: refused 00007 x1", "1dz6n4ubraua7pul: refused 00008 x1",
			},
			wantCounts: map[string]float64{"written": 25, "suppressed": 975},
		},
		"1,000 of one reason: Events of another reason are still written": {
			event: func(i int) events.Event {
				if i < 1000 {
					return workspaceEvent()
				}
				return workspaceEvent(withMessage("The owner is an administrator"), func(e *events.Event) { e.Reason = "PrivilegedOwner" })
			},
			times:       1001,
			every:       time.Microsecond,
			wantObjects: []string{"1dz6n4ubraua7pul: The owner is an administrator x1", "1dz6n4ubraua7pul: The owner is now bob x25"},
			wantCounts:  map[string]float64{"written": 26, "suppressed": 975},
		},
		"1,000 of one user do not suppress that of another": {
			event: func(i int) events.Event {
				if i < 1000 {
					return workspaceEvent(withMessage("mallory tried"), func(e *events.Event) { e.By = "mallory" })
				}
				return workspaceEvent(withMessage("eve tried"), func(e *events.Event) { e.By = "eve" })
			},
			times:       1001,
			every:       time.Microsecond,
			wantObjects: []string{"1dz6n4ubraua7pul: eve tried x1", "1dz6n4ubraua7pul: mallory tried x5"},
			wantCounts:  map[string]float64{"written": 6, "suppressed": 995},
		},
		"1,000 users of one share have no more Events on an object than one user": {
			event: func(i int) events.Event {
				by := fmt.Sprintf("mallory-%05d", i)
				return workspaceEvent(withMessage("tried"), func(e *events.Event) { e.By = by })
			},
			times:       1000,
			every:       time.Microsecond,
			wantObjects: []string{"1dz6n4ubraua7pul: tried x25"},
			wantCounts:  map[string]float64{"written": 25, "suppressed": 975},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				count := newOutcomes(t)
				server := &fakeServer{}
				recorder, stop := start(t, server.writer(t))
				for i := range tc.times {
					recorder.Record(tc.event(i))
					time.Sleep(tc.every) //nolint:forbidigo // advances the clock of the bubble
				}
				stop()
				if diff := cmp.Diff(tc.wantObjects, server.counts()); diff != "" {
					t.Errorf("Events (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.wantCounts, count()); diff != "" {
					t.Errorf("counted (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestSameNameInTwoLogicalClustersIsNotAggregated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{}
		recorder, stop := start(t, server.writer(t))
		for range 100 { // more than the rate limit of one object
			recorder.Record(workspaceEvent(onLogicalCluster(cluster)))
		}
		for range 2 {
			recorder.Record(workspaceEvent(onLogicalCluster(otherCluster)))
		}
		stop()
		want := []string{"1dz6n4ubraua7pul: The owner is now bob x25", "m82w61j76ws21znq: The owner is now bob x2"}
		if diff := cmp.Diff(want, server.counts()); diff != "" {
			t.Errorf("Events (-want +got):\n%s", diff)
		}
		for key, event := range server.stored {
			if diff := cmp.Diff(corev1.EventSource{Component: "warrantgate"}, event.Source); diff != "" {
				t.Errorf("source of %s (-want +got):\n%s", key, diff)
			}
		}
	})
}

func TestExpiredEventIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := newOutcomes(t)
		server := &fakeServer{}
		recorder, stop := start(t, server.writer(t))
		for range 2 {
			recorder.Record(workspaceEvent())
		}
		synctest.Wait()
		server.expire()
		for range 2 {
			recorder.Record(workspaceEvent())
		}
		stop()
		if diff := cmp.Diff([]string{"1dz6n4ubraua7pul: The owner is now bob x4"}, server.counts()); diff != "" {
			t.Errorf("Events (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]float64{"written": 4}, count()); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
	})
}

func TestRecordDoesNotWaitForTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := newOutcomes(t)
		begin := time.Now()
		var blocked []time.Duration // duration of each write
		recorder, stop := start(t, &fakeWriter{t: t,
			create: func(ctx context.Context, _ logicalcluster.Name, _ *corev1.Event) error {
				called := time.Now()
				<-ctx.Done()
				blocked = append(blocked, time.Since(called))
				return ctx.Err()
			}})
		recorder.Record(workspaceEvent(withMessage("the first write blocks")))
		synctest.Wait()
		for i := range 1500 {
			recorder.Record(workspaceEvent(func(e *events.Event) { e.Object.Name = fmt.Sprintf("team-%d", i) }))
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("Record() waited for %s", took)
		}
		if diff := cmp.Diff(map[string]float64{"dropped": 1000}, count()); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
		// The first write is canceled after its timeout, and all others together after the same time.
		stop()
		if took := time.Since(begin); took > 2*requestTimeout {
			t.Errorf("stopped only after %s", took)
		}
		if blocked[0] != requestTimeout {
			t.Errorf("a write took %s, want %s", blocked[0], requestTimeout)
		}
		// Those that wait are dropped: they are for the same logical cluster.
		if diff := cmp.Diff(map[string]float64{"dropped": 1500, "failed": 1}, count()); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
	})
}

// A tenant that floods its queue leaves as many places free as it uses, so that Events of other tenants are not dropped.
func TestOneNamespaceDoesNotDropTheEventsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var mu sync.Mutex
		written := map[string]int{}
		recorder, stop := start(t, &fakeWriter{t: t,
			create: func(_ context.Context, cluster logicalcluster.Name, event *corev1.Event) error {
				<-release
				mu.Lock()
				defer mu.Unlock()
				written[cluster.String()+"/"+event.InvolvedObject.Namespace]++
				return nil
			}})
		record := func(cluster logicalcluster.Name, namespace, name string, times int) {
			for i := range times {
				recorder.Record(workspaceEvent(func(e *events.Event) {
					e.Cluster, e.Object.Namespace, e.Object.Name = cluster, namespace, fmt.Sprintf("%s-%d", name, i)
				}))
			}
		}
		count := newOutcomes(t)
		record("", "attacker", "first", 1)
		synctest.Wait() // the write blocks
		record("", "attacker", "flood", 5000)
		record("", "victim", "victim", 100)
		record("workspace", "attacker", "other", 100)
		if diff := cmp.Diff(map[string]float64{"dropped": 4500}, count()); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
		close(release)
		synctest.Wait()
		record("", "attacker", "later", 100) // the queue is empty again
		synctest.Wait()
		stop()
		want := map[string]int{"/attacker": 601, "/victim": 100, "workspace/attacker": 100}
		if diff := cmp.Diff(want, written); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
	})
}

// The owner of a workspace can create any number of namespaces, and a webhook for Events that does not answer.
func TestNamespacesOfAWorkspaceShareItsPlaces(t *testing.T) {
	const namespaces, each, ofVictim = 12, 1000, 100
	synctest.Test(t, func(t *testing.T) {
		requested := map[logicalcluster.Name]int{}
		var mu sync.Mutex
		begin := time.Now()
		recorder, stop := start(t, &fakeWriter{t: t,
			create: func(ctx context.Context, cluster logicalcluster.Name, event *corev1.Event) error {
				mu.Lock()
				requested[cluster]++
				mu.Unlock()
				if cluster == "attacker" {
					<-ctx.Done()
					return ctx.Err()
				}
				if took := time.Since(begin); took > 0 {
					t.Errorf("an Event of another workspace is written after %s", took)
				}
				return nil
			}})
		record := func(cluster logicalcluster.Name, namespace string, times int) {
			for i := range times {
				recorder.Record(workspaceEvent(func(e *events.Event) {
					e.Cluster, e.Object.Namespace, e.Object.Name = cluster, namespace, fmt.Sprint(i)
				}))
			}
		}
		record("attacker", "first", 1)
		synctest.Wait() // it is being written
		for i := range namespaces {
			record("attacker", fmt.Sprint(i), each)
		}
		record("victim", "default", ofVictim)
		time.Sleep(requestTimeout) //nolint:forbidigo // advances the clock of the bubble
		synctest.Wait()
		record("attacker", "later", 1)
		stop()
		if diff := cmp.Diff(map[logicalcluster.Name]int{"attacker": 2, "victim": ofVictim}, requested); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

func TestFailedWriteIsCountedAndTheNextIsTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := newOutcomes(t)
		server := &fakeServer{}
		writer := server.writer(t)
		failing := true
		writer.create = func(ctx context.Context, cluster logicalcluster.Name, event *corev1.Event) error {
			if failing {
				return apierrors.NewInternalError(errors.New("etcd has no leader"))
			}
			return server.create(ctx, cluster, event)
		}
		recorder, stop := start(t, writer)
		for range 2 {
			recorder.Record(workspaceEvent())
		}
		synctest.Wait()
		if diff := cmp.Diff(map[string]float64{"failed": 2}, count()); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
		failing = false
		recorder.Record(workspaceEvent())
		stop()
		if diff := cmp.Diff([]string{"1dz6n4ubraua7pul: The owner is now bob x3"}, server.counts()); diff != "" {
			t.Errorf("Events (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]float64{"failed": 2, "written": 1}, count()); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
	})
}

// An Event waits for the permission, but not for ever.
func TestEventsWaitForThePermission(t *testing.T) {
	no, down, yes := permission{reason: "no permission to create events"}, permission{err: errors.New("connection refused")}, permission{permitted: true}
	const off = `"msg"="Events are off; gates and controllers work without them" "reason"="%s" "retryEvery"="5s"`
	for name, tc := range map[string]struct {
		answers []permission // one each permissionInterval
		want    map[string]float64
		wantLog []string
	}{
		"before the first answer": {[]permission{yes}, map[string]float64{"written": 1}, []string{`"msg"="Events are on"`}},
		"with warrantgate installed later": {
			[]permission{no, no, down, yes}, map[string]float64{"written": 1},
			[]string{fmt.Sprintf(off, no.reason), fmt.Sprintf(off, down.err), `"msg"="Events are on"`},
		},
		"not installed in time": {
			slices.Concat(slices.Repeat([]permission{no}, 14), []permission{yes}), map[string]float64{"off": 1},
			[]string{fmt.Sprintf(off, no.reason), `"msg"="Events are on"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				count, log, server := newOutcomes(t), &lines{}, &fakeServer{}
				writer, requested := server.writer(t), 0
				writer.permitted = func(context.Context) (bool, string, error) {
					answer := tc.answers[requested]
					requested++
					return answer.permitted, answer.reason, answer.err
				}
				recorder := events.NewRecorder(writer)
				recorder.Record(workspaceEvent())
				ctx, cancel := context.WithCancel(logf.IntoContext(t.Context(), log.logger()))
				ended := make(chan error, 1)
				go func() { ended <- recorder.Start(ctx) }()
				time.Sleep(2 * time.Minute) //nolint:forbidigo // advances the clock of the bubble
				if diff := cmp.Diff(tc.want, count()); diff != "" {
					t.Errorf("counted (-want +got):\n%s", diff)
				}
				recorder.Record(workspaceEvent())
				synctest.Wait()
				tc.want["written"]++
				if diff := cmp.Diff(tc.want, count()); diff != "" {
					t.Errorf("counted with the permission (-want +got):\n%s", diff)
				}
				if requested != len(tc.answers) {
					t.Errorf("the permission was checked %d times, want %d", requested, len(tc.answers))
				}
				cancel()
				if err := <-ended; err != nil {
					t.Errorf("Start() error = %v", err)
				}
				if diff := cmp.Diff(tc.wantLog, log.all()); diff != "" {
					t.Errorf("log (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// permission is an answer to a permission check.
type permission struct {
	permitted bool
	reason    string
	err       error
}

func TestPermissionCheckTimesOutAndIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requested := 0
		server := &fakeServer{}
		writer := server.writer(t)
		writer.permitted = func(ctx context.Context) (bool, string, error) {
			if requested++; requested == 1 {
				<-ctx.Done()
				return false, "", ctx.Err()
			}
			return true, "", nil
		}
		recorder, stop := start(t, writer)
		time.Sleep(permissionInterval + requestTimeout) //nolint:forbidigo // advances the clock of the bubble
		synctest.Wait()
		recorder.Record(workspaceEvent())
		stop()
		if diff := cmp.Diff([]string{"1dz6n4ubraua7pul: The owner is now bob x1"}, server.counts()); diff != "" {
			t.Errorf("Events (-want +got):\n%s", diff)
		}
	})
}

func TestRecorderStopsDuringPermissionChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := newOutcomes(t)
		recorder, stop := start(t, &fakeWriter{t: t,
			permitted: func(context.Context) (bool, string, error) { return false, "no permission to create events", nil }})
		recorder.Record(workspaceEvent())
		begin := time.Now()
		stop()
		if took := time.Since(begin); took != 0 {
			t.Errorf("it took %s", took)
		}
		if diff := cmp.Diff(map[string]float64{"off": 1}, count()); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
	})
}

func TestWithoutAWriterEventsAreOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := newOutcomes(t)
		log := &lines{}
		recorder := events.NewRecorder(nil)
		if err := recorder.Start(logf.IntoContext(t.Context(), log.logger())); err != nil {
			t.Errorf("Start() error = %v", err)
		}
		recorder.Record(workspaceEvent())
		if diff := cmp.Diff(map[string]float64{"off": 1}, count()); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
		want := []string{`"msg"="Events are off: no kubeconfig for kcp was given (--kcp-kubeconfig)"`}
		if diff := cmp.Diff(want, log.all()); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

func TestWaitingEventsAreWrittenAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := newOutcomes(t)
		server := &fakeServer{}
		writer := server.writer(t)
		writer.create = func(ctx context.Context, cluster logicalcluster.Name, event *corev1.Event) error {
			select { // a slow server
			case <-time.After(100 * time.Millisecond):
				return server.create(ctx, cluster, event)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		recorder, stop := start(t, writer)
		want := map[string]bool{}
		for i := range 20 {
			message := fmt.Sprintf("on team-%02d", i)
			want["1dz6n4ubraua7pul: "+message+" x1"] = true
			recorder.Record(workspaceEvent(withMessage(message), func(e *events.Event) { e.Object.Name = fmt.Sprintf("team-%d", i) }))
		}
		synctest.Wait() // until the first is being written
		stop()
		if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), server.counts()); diff != "" {
			t.Errorf("Events (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]float64{"written": 20}, count()); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
	})
}

func TestRecordIsSafeForConcurrentUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := newOutcomes(t)
		server := &fakeServer{}
		recorder, stop := start(t, server.writer(t))
		var requests sync.WaitGroup
		for i := range 50 {
			requests.Go(func() {
				for j := range 10 {
					recorder.Record(workspaceEvent(func(e *events.Event) { e.Object.Name = fmt.Sprintf("team-%d-%d", i, j) }))
				}
			})
		}
		requests.Wait()
		stop()
		if diff := cmp.Diff(map[string]float64{"written": 500}, count()); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
	})
}

// lines collects the lines of a log.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.text = append(l.text, strings.TrimPrefix(args, `"level"=0 `))
	}, funcr.Options{})
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.text)
}
