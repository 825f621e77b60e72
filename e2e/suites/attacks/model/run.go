package model

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Environment variables of a run.
const (
	// WritesEnv is the minimum number of writes.
	WritesEnv = "WRITES"
	// SeedEnv is the seed of an earlier run, to repeat its sequences.
	SeedEnv = "SEED"
)

// Writes is the value of WRITES, or the default.
func Writes(otherwise int) (int, error) {
	env := os.Getenv(WritesEnv)
	if env == "" {
		return otherwise, nil
	}
	want, err := strconv.Atoi(env)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", WritesEnv, err)
	}
	return want, nil
}

// In one of restartEvery sequences, warrantgate restarts before the step restartAt.
const restartEvery, restartAt = 12, 20

// Actor is a user or service account that writes into one place.
type Actor struct {
	Name   string
	Client client.Client
	// Place is the index of the place.
	Place int
	// Kinds are the kinds that it writes. A kind that occurs more than once is written more often.
	Kinds []schema.GroupVersionKind
	// May are the email addresses of the users that it may name.
	May []string
}

// Place is a namespace or a workspace of tenants.
type Place struct {
	// Namespace is the namespace of its objects. Workspaces can have the same one.
	Namespace string
	// Cluster is its logical cluster, "" if there is only one.
	Cluster string
	// Admin reads the objects.
	Admin client.Client
	// Users are the email addresses of its users in the cloud. UserIDs are their UUIDs, which no request contains.
	Users, UserIDs []string
}

// World is the world of one worker. Workers share no places and no users.
type World struct {
	Places []Place
	Actors []*Actor
	// Regions are the regions that clusters name, mostly the first.
	Regions []string
	// MachineVersion is another API version of machines. Default: only that of Machine.
	MachineVersion string
	// UserRefs is true if clusters may read their user from a Secret.
	UserRefs bool
	// AddServers adds servers of all users for one sequence, and returns them with a function that removes them.
	AddServers func(sequence string) ([]Server, func())
	// Objects is the maximum number of objects of each kind in a place. Default: 2.
	Objects int
	// Events is true if the Events of each place are verified after each sequence.
	Events bool
	// Reported reports whether the audit reports a machine soon. It is nil if the audit does not watch the objects. There are then no concurrent
	// writes, and a failure is reproducible.
	Reported func(ctx context.Context, namespace, machine string) bool
}

// Options configure a run.
type Options struct {
	// Writes is the minimum number of writes.
	Writes int
	// Admitted is the minimum share of admitted writes.
	Admitted float64
	// Restart restarts warrantgate.
	Restart func(ctx context.Context) error
}

// Result is the result of a run.
type Result struct {
	Seed     uint64
	Restarts int64
	Elapsed  time.Duration
	// Counts are the writes by kind and outcome.
	Counts map[string]map[string]int
	// Failures are the shortest sequences that broke a promise, at most one per worker.
	Failures []string
}

// Outcomes of a write.
const (
	admitted = "admitted"
	// denied is a denial of warrantgate, failed is an error of the API server, such as a conflict.
	denied = "denied"
	failed = "failed"
	// silent is a write without a response of a webhook.
	silent = "without answer"
)

// runner is the state that the workers of a run share.
type runner struct {
	options  Options
	want     int64
	writes   atomic.Int64
	restarts atomic.Int64
	stop     atomic.Bool
	prefixes atomic.Int64
	// running is locked for writing while warrantgate restarts.
	running sync.RWMutex

	mu     sync.Mutex
	counts map[string]map[string]int
}

// Run runs one worker for each world until there are enough writes or a worker has found a broken promise. It returns an error if
// the run itself failed, or if there were too few writes or admitted writes.
func Run(ctx context.Context, options Options, worlds ...*World) (Result, error) {
	r := &runner{options: options, want: int64(options.Writes), counts: map[string]map[string]int{}}
	seed := rand.Uint64()
	if env := os.Getenv(SeedEnv); env != "" {
		given, err := strconv.ParseUint(env, 10, 64)
		if err != nil {
			return Result{}, fmt.Errorf("%s: %w", SeedEnv, err)
		}
		seed = given
	}
	for name, value := range map[string]string{
		"rapid.seed": strconv.FormatUint(seed, 10), "rapid.nofailfile": "true",
		// More sequences than writes: those after the last write are empty.
		"rapid.checks": strconv.FormatInt(r.want, 10),
		"rapid.steps":  "40", // on average
		// The shortening of a sequence runs it again for each write that is removed.
		"rapid.shrinktime": "90s",
	} {
		if err := flag.Set(name, value); err != nil {
			return Result{}, err
		}
	}
	begin := time.Now()
	reports := make([]*report, len(worlds))
	var workers sync.WaitGroup
	for i, world := range worlds {
		reports[i] = &report{}
		workers.Go(func() { r.work(ctx, i, world, reports[i]) })
	}
	workers.Wait()
	result := Result{Seed: seed, Restarts: r.restarts.Load(), Elapsed: time.Since(begin), Counts: r.counts}
	for _, report := range reports {
		if report.failed {
			result.Failures = append(result.Failures, report.story())
		}
	}
	return result, r.enough(result)
}

func (r *runner) enough(result Result) error {
	if len(result.Failures) > 0 {
		return nil // this ends a run
	}
	share := float64(result.count(admitted)) / float64(r.writes.Load())
	switch {
	case r.writes.Load() < r.want:
		return fmt.Errorf("%d writes were made, and %d are wanted", r.writes.Load(), r.want)
	case share < r.options.Admitted:
		return fmt.Errorf("%.0f %% of the writes were admitted, and a gate that denies everything proves nothing: %.0f %% are wanted", 100*share, 100*r.options.Admitted)
	case result.count(denied) == 0:
		return errors.New("no write was denied: warrantgate was not called")
	case result.count(silent) > int(r.writes.Load())/20:
		return fmt.Errorf("warrantgate did not answer to %d writes", result.count(silent))
	}
	return nil
}

func (r Result) count(outcome string) int {
	n := 0
	for _, outcomes := range r.Counts {
		n += outcomes[outcome]
	}
	return n
}

// String is a table of the counts.
func (r Result) String() string {
	text := &strings.Builder{}
	total := r.count(admitted) + r.count(denied) + r.count(failed) + r.count(silent)
	fmt.Fprintf(text, "seed %d: %d writes in %s (%.0f/s), %d admitted, %d denied, %d failed, %d without answer, %d restarts\n", r.Seed, total,
		r.Elapsed.Round(time.Second), float64(total)/r.Elapsed.Seconds(), r.count(admitted), r.count(denied), r.count(failed), r.count(silent), r.Restarts)
	for _, what := range slices.Sorted(maps.Keys(r.Counts)) {
		fmt.Fprintf(text, "  %-45s %6d admitted %6d denied %6d failed\n", what, r.Counts[what][admitted], r.Counts[what][denied],
			r.Counts[what][failed]+r.Counts[what][silent])
	}
	return text.String()
}

func (r *runner) work(ctx context.Context, index int, world *World, report *report) {
	defer r.stop.CompareAndSwap(false, report.failed)
	done := make(chan struct{})
	go func() { // rapid ends the goroutine of a failed test
		defer close(done)
		rapid.Check(report, func(t *rapid.T) {
			if !report.found.Load() && (r.stop.Load() || r.writes.Load() >= r.want || ctx.Err() != nil) {
				return
			}
			for range index { // so that workers draw different sequences
				rapid.Bool().Draw(t, "worker")
			}
			newSequence(ctx, r, world, report).run(t) //nolint:contextcheck // what it made goes also when ctx has ended
		})
	}()
	<-done
	r.stop.CompareAndSwap(false, report.failed)
}

// sequence is one sequence of writes.
type sequence struct {
	ctx     context.Context //nolint:containedctx // a sequence lives no longer than the call that it is of
	runner  *runner
	world   *World
	report  *report
	prefix  string
	objects *objects
	servers []Server
	remove  func()
}

func newSequence(ctx context.Context, r *runner, world *World, report *report) *sequence {
	s := &sequence{
		ctx: ctx, runner: r, world: world, report: report, prefix: fmt.Sprintf("s%d", r.prefixes.Add(1)),
		objects: &objects{userRefs: world.UserRefs, servers: map[string]Server{}, held: map[key]*unstructured.Unstructured{}},
	}
	for _, place := range world.Places {
		s.objects.namespaces, s.objects.clusters = append(s.objects.namespaces, place.Namespace), append(s.objects.clusters, place.Cluster)
		report.uids = append(report.uids, map[string]bool{})
	}
	s.servers, s.remove = world.AddServers(s.prefix)
	for _, server := range s.servers {
		s.objects.servers[server.UUID] = server
	}
	return s
}

func (s *sequence) run(t *rapid.T) {
	defer s.clean()
	restart := s.runner.options.Restart != nil && rapid.IntRange(0, restartEvery-1).Draw(t, "restart") == restartEvery-1
	steps := 0
	t.Repeat(map[string]func(*rapid.T){"step": func(t *rapid.T) {
		if steps++; restart && steps == restartAt {
			s.restart(t)
		}
		if d := drawDice(t); d.IntN(3) == 0 && s.world.Reported != nil {
			s.step(t, s.draw(d), s.draw(d))
		} else {
			s.step(t, s.draw(d))
		}
	}})
	if s.world.Events {
		s.events(t)
	}
}

// Promises, with their texts in failures.
const (
	promiseOwned       = "no machine holds an instance whose owner is not the user that its provider acts as"
	promiseAlone       = "no two machines hold one instance"
	promisePermitted   = "no tenant has named a user that it may not impersonate"
	promiseDiscreet    = "no denial names the property of another tenant"
	promiseUndisturbed = "every Event is in the place of its object"
	// works is not a promise to tenants. Without it, the others prove nothing.
	works = "the servers answer"
)

// fail fails the sequence. All failures of the same promise have the same text, so that rapid recognizes a shorter sequence as the
// same failure. The details are in the log.
func (s *sequence) fail(t *rapid.T, promise, format string, args ...any) {
	s.report.found.Store(true)
	t.Log("=> " + s.readable(fmt.Sprintf(format, args...)))
	t.Fatalf("broken: %s", promise)
}

// restart restarts warrantgate while there are no writes.
func (s *sequence) restart(t *rapid.T) {
	t.Log("restart of warrantgate")
	s.runner.running.Lock()
	defer s.runner.running.Unlock()
	s.runner.restarts.Add(1)
	if err := s.runner.options.Restart(s.ctx); err != nil {
		s.fail(t, works, "restart warrantgate: %v", err)
	}
}

// step makes concurrent writes, and verifies the promises.
func (s *sequence) step(t *rapid.T, writes ...write) {
	if s.runner.stop.Load() && !s.report.found.Load() {
		return // another worker has found a failure
	}
	before := s.objects.clone()
	errs := make([]error, len(writes))
	s.runner.running.RLock()
	var sending sync.WaitGroup
	for i, w := range writes {
		sending.Go(func() { errs[i] = w.send(s.ctx, before.held[w.key()]) })
	}
	sending.Wait()
	s.runner.running.RUnlock()
	for i, w := range writes {
		outcome := outcomeOf(errs[i])
		s.runner.count(w, outcome)
		concurrently := ""
		if len(writes) > 1 {
			concurrently = "at the same time: "
		}
		t.Log(s.readable(fmt.Sprintf("%s%s -> %s %v", concurrently, w, outcome, errs[i])))
		if errs[i] != nil {
			s.discreet(t, w, errs[i])
		}
	}
	for _, w := range writes {
		s.read(t, w)
	}
	s.verify(t, before, writes, errs)
}

// read reads an object after the writes.
func (s *sequence) read(t *rapid.T, w write) {
	object := w.empty()
	object.SetAPIVersion(w.kind.GroupVersion().String())
	err := s.world.Places[w.at].Admin.Get(s.ctx, client.ObjectKeyFromObject(object), object)
	switch {
	case apierrors.IsNotFound(err):
		delete(s.objects.held, w.key())
	case err != nil:
		s.fail(t, works, "read %s: %v", w.name, err)
	default:
		s.objects.held[w.key()] = object
		s.report.uids[w.at][string(object.GetUID())] = true
	}
}

// verify compares the state after the writes with the state before them.
func (s *sequence) verify(t *rapid.T, before *objects, writes []write, errs []error) {
	s.objects.reportOwners(before)
	wasWrong := before.wrong()
	for k, wrong := range s.objects.wrong() {
		if wasWrong[k] != wrong && (len(writes) == 1 || !s.reported(k)) {
			s.fail(t, promiseOwned, "%s of place %d %s", k.name, k.place, wrong)
		}
	}
	wasShared := before.shared()
	for at, shared := range s.objects.shared() {
		if wasShared[at] != shared && !slices.ContainsFunc(writes, func(w write) bool { return s.reported(w.key()) }) {
			s.fail(t, promiseAlone, "%s", shared)
		}
	}
	was := before.named()
	for k, users := range s.objects.named() {
		for i, user := range users {
			if user == "" || i < len(was[k]) && was[k][i] == user {
				continue
			}
			if !permitted(writes, errs, user) {
				s.fail(t, promisePermitted, "%s %s of place %d names %s now, whom none of the authors may impersonate", k.kind, k.name, k.place, user)
			}
		}
	}
}

// reported reports whether the audit reports an object soon: two writes at once may break a promise, and so may two machines that name one
// instance before the watch of a replica shows the first of them.
func (s *sequence) reported(k key) bool {
	return s.world.Reported != nil && k.kind == Machine.Kind && s.world.Reported(s.ctx, s.world.Places[k.place].Namespace, k.name)
}

// permitted verifies that the author of an admitted write may impersonate a user.
func permitted(writes []write, errs []error, user string) bool {
	for i, w := range writes {
		if errs[i] == nil && slices.Contains(w.actor.May, user) {
			return true
		}
	}
	return false
}

// discreet verifies that a denial contains no data of another tenant that the request did not contain.
func (s *sequence) discreet(t *rapid.T, w write, denial error) {
	message, request := strings.ToLower(denial.Error()), strings.ToLower(w.String())
	for _, f := range w.fields { // the values of Secrets
		if text, ok := f.value.(string); ok {
			decoded, _ := base64.StdEncoding.DecodeString(text) // other texts stay as they are
			request += strings.ToLower(string(decoded))
		}
	}
	for i, place := range s.world.Places {
		if i == w.at {
			continue
		}
		for _, text := range append(s.secrets(i), place.Users...) {
			if text = strings.ToLower(text); strings.Contains(message, text) && !strings.Contains(request, text) {
				s.fail(t, promiseDiscreet, "a denial contains %q, which is another tenant's: %v", text, denial)
			}
		}
		for _, server := range s.servers {
			if slices.Contains(place.Users, server.Owner) && strings.Contains(message, server.UUID) && !strings.Contains(request, server.UUID) {
				s.fail(t, promiseDiscreet, "a denial names %s, which is another tenant's: %v", server.UUID, denial)
			}
		}
	}
}

// secrets are the values of a place that no request contains and other tenants may not learn: the UUIDs of its users and the names
// of its servers.
func (s *sequence) secrets(place int) []string {
	secrets := slices.Clone(s.world.Places[place].UserIDs)
	for _, server := range s.servers {
		if slices.Contains(s.world.Places[place].Users, server.Owner) && !strings.HasPrefix(server.Name, s.name(Machine, 0)[:len(s.name(Machine, 0))-1]) {
			secrets = append(secrets, server.Name)
		}
	}
	return secrets
}

// events verifies that each Event is about an object of its own place and contains no data of another one.
func (s *sequence) events(t *rapid.T) {
	for here, place := range s.world.Places {
		events := &corev1.EventList{}
		if err := place.Admin.List(s.ctx, events, client.InNamespace(place.Namespace)); err != nil {
			s.fail(t, works, "list Events: %v", err)
		}
		for i := range events.Items {
			event := &events.Items[i]
			for there := range s.world.Places {
				if there == here {
					continue
				}
				if s.report.uids[there][string(event.InvolvedObject.UID)] {
					s.fail(t, promiseUndisturbed, "an Event in place %d is about %s of place %d: %s", here, event.InvolvedObject.Name, there, event.Message)
				}
				for _, secret := range s.secrets(there) {
					if strings.Contains(event.Message, secret) {
						s.fail(t, promiseDiscreet, "an Event in place %d contains %q of place %d: %s", here, secret, there, event.Message)
					}
				}
			}
		}
	}
}

// clean deletes the objects and servers of the sequence.
func (s *sequence) clean() {
	ctx := context.WithoutCancel(s.ctx)
	for k, object := range s.objects.held {
		c := s.world.Places[k.place].Admin
		if len(object.GetFinalizers()) > 0 {
			object = object.DeepCopy()
			object.SetFinalizers(nil)
			object.SetResourceVersion("")
			_ = c.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
		}
		_ = c.Delete(ctx, object) // objects that remain have names that are not used again
	}
	s.remove()
}

// readable replaces UUIDs by names, and removes the values that differ each time.
func (s *sequence) readable(text string) string {
	for _, server := range s.servers {
		text = strings.ReplaceAll(text, server.UUID, "<"+server.Label+">")
		text = strings.ReplaceAll(text, strings.ToUpper(server.UUID), "<"+strings.ToUpper(server.Label)+">")
	}
	text = strings.ReplaceAll(text, s.prefix+"-", "")
	for i, place := range s.world.Places {
		if place.Cluster == "" {
			text = strings.ReplaceAll(text, place.Namespace, fmt.Sprintf("place-%d", i))
		} else {
			text = strings.ReplaceAll(text, place.Cluster, fmt.Sprintf("<cluster of place-%d>", i))
		}
	}
	return text
}

func (r *runner) count(w write, outcome string) {
	r.writes.Add(1)
	what := w.kind.Kind
	if w.status {
		what += "/status"
	}
	what += " " + w.verb
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts[what] == nil {
		r.counts[what] = map[string]int{}
	}
	r.counts[what][outcome]++
}

func outcomeOf(err error) string {
	switch {
	case err == nil:
		return admitted
	case strings.Contains(err.Error(), "failed calling webhook"):
		return silent
	case strings.Contains(err.Error(), "denied the request"), strings.Contains(err.Error(), "ValidatingAdmissionPolicy"):
		return denied
	}
	return failed
}
