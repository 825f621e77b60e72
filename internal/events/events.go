// Package events writes Kubernetes Events about what warrantgate did, on the objects concerned, in their logical cluster.
//
// Events do not delay decisions. Record puts an Event into a queue of limited length and returns. Namespaces and logical clusters
// share the queue. An Event that does not fit is dropped and counted. A failed write is counted and logged. Repeated Events with
// the same text on the same object are aggregated into a count, by the rules of client-go's recorder.
package events

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/utils/clock"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/share"
)

const (
	component = "warrantgate"
	// queueLength limits the memory of waiting Events. An Event on a Workspace takes about 1 KiB.
	queueLength = 1000
	// writeTimeout limits one request, so that it does not delay the next ones for longer.
	writeTimeout = 5 * time.Second
	// slowFor is how long the Events of a share are dropped after a write that took writeTimeout. On kcp a tenant can register webhooks in
	// its workspace that delay each Event there.
	slowFor = time.Minute
	// permissionInterval is the time between two permission checks while the permission is missing.
	permissionInterval = 5 * time.Second
	// userBurst and userRate limit the Events that one user causes on one object for one reason: a burst, and then one Event in five
	// minutes. client-go's limit for an object is five times as high. usersRemembered limits the memory for the users.
	userBurst       = 5
	userRate        = 1. / 300
	usersRemembered = 4096
	// maxFieldBytes is the size of the longest name of an object.
	maxFieldBytes = 253
	// maxMessageBytes is the API server's limit for the message of an Event.
	maxMessageBytes = 1024
)

// Event is an Event on an object.
type Event struct {
	// Cluster is the logical cluster that holds the object.
	Cluster logicalcluster.Name
	// Object is the object. Without its UID `kubectl describe` does not show the Event.
	Object corev1.ObjectReference
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is a word in CamelCase.
	Reason string
	// Message is the text for users. It is cut to 1024 bytes.
	Message string
	// By is the user who caused it, "" if the system did. The Events of each user on an object have a small limit of their own, so that no
	// user can suppress the Events about others.
	By string
}

// Workspace returns a reference to a kcp Workspace, for Event.Object.
func Workspace(name string, uid types.UID, resourceVersion string) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: tenancyv1alpha1.SchemeGroupVersion.String(), Kind: "Workspace",
		Name: name, UID: uid, ResourceVersion: resourceVersion,
	}
}

// Writer writes Events of core/v1 in a logical cluster.
type Writer interface {
	// Create writes a new Event.
	Create(ctx context.Context, cluster logicalcluster.Name, event *corev1.Event) (*corev1.Event, error)
	// Patch increases the count of an existing Event.
	Patch(ctx context.Context, cluster logicalcluster.Name, event *corev1.Event, patch []byte) (*corev1.Event, error)
	// Permitted checks whether this process may write Events. reason explains why not. An error means that the check failed.
	Permitted(ctx context.Context) (permitted bool, reason string, err error)
}

// share returns the tenant whose Events share places in the queue. On kcp the owner of a logical cluster can create any number of namespaces.
func (e Event) share() share.Tenant {
	return share.TenantOf(e.Cluster.String(), e.Object.Namespace)
}

// Recorder writes Events asynchronously.
type Recorder struct {
	writer  Writer
	queue   chan *Event // pointers, because a channel allocates its whole capacity
	mu      sync.Mutex
	waiting map[share.Tenant]int // number of queued Events by share
	// slow contains the time until which the Events of a share are dropped. Only the goroutine that writes uses it.
	slow       map[share.Tenant]time.Time
	permitted  atomic.Bool
	correlator *record.EventCorrelator
	// perUser limits the Events that one user causes on one object.
	perUser *record.EventSourceObjectSpamFilter
}

// NewRecorder returns a recorder that writes with writer after Start. If writer is nil, Events are disabled.
func NewRecorder(writer Writer) *Recorder {
	return &Recorder{
		writer:     writer,
		queue:      make(chan *Event, queueLength),
		waiting:    map[share.Tenant]int{},
		slow:       map[share.Tenant]time.Time{},
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{SpamKeyFunc: allowance}),
		perUser:    record.NewEventSourceObjectSpamFilter(usersRemembered, userBurst, userRate, clock.RealClock{}, allowance),
	}
}

// allowance is the key of the rate limit: one reason on one object. client-go's default key is the object. With it, many Events of
// one reason would suppress Events of other reasons.
func allowance(event *corev1.Event) string {
	object := event.InvolvedObject
	return strings.Join([]string{
		event.Source.Host, object.APIVersion, object.Kind, object.Namespace, object.Name, string(object.UID), event.Type, event.Reason,
	}, "/")
}

// asCausedBy returns an Event that has the limit of its user. It contains a digest of the name, because limits are remembered and names can
// be almost a MiB long.
func asCausedBy(event Event) *corev1.Event {
	user := sha256.Sum256([]byte(event.By))
	return &corev1.Event{
		InvolvedObject: event.Object, Type: event.Type, Reason: event.Reason,
		Source: corev1.EventSource{Host: event.Cluster.String() + "/" + hex.EncodeToString(user[:])},
	}
}

// Record queues an event and returns immediately. Until the permission to write Events is confirmed, it counts the event as off and
// drops it.
func (r *Recorder) Record(event Event) {
	if !r.permitted.Load() {
		count(outcomeOff)
		return
	}
	event.Object = short(event.Object)
	if event.By != "" && r.perUser.Filter(asCausedBy(event)) {
		count(outcomeSuppressed)
		return
	}
	event.By, event.Message = "", message.Clip(event.Message, maxMessageBytes) // names in it can be long
	r.mu.Lock()
	defer r.mu.Unlock()
	// A share may use at most as many places as it leaves free, so that other shares always find a place.
	if of := event.share(); r.waiting[of] < cap(r.queue)-len(r.queue) {
		r.queue <- &event // does not block: only this line sends, under the lock
		r.waiting[of]++
		waiting.Inc()
		return
	}
	count(outcomeDropped)
}

// short limits the length of each field of a reference. The object can be the owner of another one, and a tenant can write a MiB into each field
// of an owner reference. Limits and counts of many Events are remembered by these fields.
func short(object corev1.ObjectReference) corev1.ObjectReference {
	for _, field := range []*string{&object.APIVersion, &object.Kind, &object.Namespace, &object.Name, (*string)(&object.UID)} {
		*field = message.Clip(*field, maxFieldBytes)
	}
	return object
}

// taken updates the counts after an event left the queue.
func (r *Recorder) taken(event *Event) {
	waiting.Dec()
	r.mu.Lock()
	defer r.mu.Unlock()
	if of := event.share(); r.waiting[of] > 1 {
		r.waiting[of]--
	} else {
		delete(r.waiting, of)
	}
}

// Start writes events until ctx ends, and then the waiting ones. If Events are disabled, it logs the reason and repeats the
// permission check.
func (r *Recorder) Start(ctx context.Context) error {
	if r.writer == nil {
		logf.FromContext(ctx).Info("Events are off: no kubeconfig for kcp was given (--kcp-kubeconfig)")
		return nil
	}
	r.awaitPermission(ctx)
	writes := context.WithoutCancel(ctx) // a write is limited by its own timeout, not by the end of ctx
	for ctx.Err() == nil {
		select {
		case event := <-r.queue:
			r.taken(event)
			r.write(writes, *event)
		case <-ctx.Done():
		}
	}
	r.drain(writes)
	return nil
}

func (r *Recorder) awaitPermission(ctx context.Context) {
	log := logf.FromContext(ctx)
	said := ""
	// The only error is that ctx has ended. Start checks that itself.
	_ = wait.PollUntilContextCancel(ctx, permissionInterval, true, func(ctx context.Context) (bool, error) {
		asking, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		permitted, reason, err := r.writer.Permitted(asking)
		if err != nil {
			reason = err.Error()
		}
		if permitted {
			log.Info("Events are on")
			r.permitted.Store(true)
		} else if said != reason {
			said = reason
			log.Info("Events are off; gates and controllers work without them", "reason", reason, "retryEvery", permissionInterval.String())
		}
		return permitted, nil
	})
}

// drain writes the queued events at shutdown, for at most the timeout of a single write.
func (r *Recorder) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	for {
		select {
		case event := <-r.queue:
			r.taken(event)
			r.write(ctx, *event)
		default:
			return
		}
	}
}

func (r *Recorder) write(ctx context.Context, event Event) {
	if time.Now().Before(r.slow[event.share()]) {
		count(outcomeDropped)
		return
	}
	delete(r.slow, event.share())
	correlated := newCoreEvent(event)
	// The correlator aggregates by source and object. The same object name in two logical clusters means two objects, so the source
	// contains the logical cluster during correlation.
	correlated.Source.Host = event.Cluster.String()
	result, err := r.correlator.EventCorrelate(correlated)
	if err != nil {
		logf.FromContext(ctx).Error(err, "aggregate an Event", "reason", event.Reason)
		count(outcomeFailed)
		return
	}
	if result.Skip {
		count(outcomeSuppressed)
		return
	}
	result.Event.Source.Host = ""
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()

	var written *corev1.Event
	err = apierrors.NewNotFound(corev1.Resource("events"), result.Event.Name)
	if result.Event.Count > 1 {
		written, err = r.writer.Patch(ctx, event.Cluster, result.Event, result.Patch)
	}
	if apierrors.IsNotFound(err) { // a new Event, or one that has expired
		result.Event.ResourceVersion = ""
		written, err = r.writer.Create(ctx, event.Cluster, result.Event)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		r.slow[event.share()] = time.Now().Add(slowFor)
	}
	if err != nil {
		logf.FromContext(ctx).Error(err, "write an Event", "reason", event.Reason,
			"cluster", event.Cluster, "object", event.Object.Name, "message", event.Message)
		count(outcomeFailed)
		return
	}
	written.Source.Host = correlated.Source.Host
	r.correlator.UpdateState(written)
	count(outcomeWritten)
}

func newCoreEvent(event Event) *corev1.Event {
	now := metav1.Now()
	// Events of cluster-scoped objects are in namespace default, as in Kubernetes.
	namespace := event.Object.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:      util.GenerateEventName(event.Object.Name, now.UnixNano()),
			Namespace: namespace,
		},
		InvolvedObject:      event.Object,
		Type:                event.Type,
		Reason:              event.Reason,
		Message:             event.Message,
		Source:              corev1.EventSource{Component: component},
		ReportingController: component,
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
	}
}
