// Package events writes Kubernetes Events about what warrantgate did, on the objects concerned, in their logical cluster.
//
// Events do not delay decisions, and the Events of one tenant do not delay those of others. Record puts an Event into the queue of its tenant and
// returns. The tenants share the places of their queues (package share), and each queue is written by a goroutine of its own. An Event that
// gets no place is dropped and counted. A failed write is counted and logged. Repeated Events with the same text on the same object are
// aggregated into a count, by the correlator of client-go's recorder. client-go's broadcaster is not used: it writes the Events of all tenants
// one after the other, and waits for minutes for an API server that does not answer.
package events

import (
	"cmp"
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
	// places limits the memory of waiting Events. An Event on a Workspace takes about 1 KiB.
	places = 1000
	// writeTimeout limits one request. On kcp a tenant can register webhooks in its workspace that delay each Event there. After a request that
	// takes so long, the waiting Events of its tenant are dropped.
	writeTimeout = 5 * time.Second
	// permissionInterval is the time between two permission checks while the permission is missing.
	permissionInterval = 5 * time.Second
	// permissionWait is how long an Event waits for the permission. Repairs begin as soon as warrantgate is installed, before the next check.
	permissionWait = time.Minute
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

// Writer writes Events of core/v1 in a logical cluster. It does not return them as stored: on kcp a tenant can register webhooks in its workspace that
// write more than a MiB into a field, and the correlator would remember that.
type Writer interface {
	// Create writes a new Event.
	Create(ctx context.Context, cluster logicalcluster.Name, event *corev1.Event) error
	// Patch increases the count of an existing Event.
	Patch(ctx context.Context, cluster logicalcluster.Name, event *corev1.Event, patch []byte) error
	// Permitted checks whether this process may write Events. reason explains why not. An error means that the check failed.
	Permitted(ctx context.Context) (permitted bool, reason string, err error)
}

// tenant returns the tenant whose queue an Event waits in.
func (e *Event) tenant() share.Tenant { return share.TenantOf(e.Cluster.String(), e.Object.Namespace) }

// Recorder writes Events asynchronously.
type Recorder struct {
	writer    Writer
	permitted atomic.Bool
	// checked is closed when permitted does not change any more, because the permission is confirmed or Start ends.
	checked    chan struct{}
	correlator *record.EventCorrelator
	// perUser limits the Events that one user causes on one object.
	perUser *record.EventSourceObjectSpamFilter
	// places are those in all queues.
	places *share.Limit[share.Tenant]

	mu sync.Mutex
	// queues are the waiting Events of each tenant that has a goroutine. begun are the tenants that need one.
	queues map[share.Tenant][]waiting
	begun  chan share.Tenant
}

// waiting is an Event with a place, which is dropped if there is no permission at the given time.
type waiting struct {
	Event
	until time.Time
	leave func()
}

// NewRecorder returns a recorder that writes with writer after Start. If writer is nil, Events are disabled.
func NewRecorder(writer Writer) *Recorder {
	return &Recorder{
		writer:     writer,
		checked:    make(chan struct{}),
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{SpamKeyFunc: allowance}),
		perUser:    record.NewEventSourceObjectSpamFilter(usersRemembered, userBurst, userRate, clock.RealClock{}, allowance),
		places:     share.New[share.Tenant](places),
		queues:     map[share.Tenant][]waiting{},
		begun:      make(chan share.Tenant, places),
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

// Record queues an event and returns immediately. If Events are disabled, it counts the event as off and drops it.
func (r *Recorder) Record(event Event) {
	if r.writer == nil {
		count(outcomeOff)
		return
	}
	event.Object = short(event.Object)
	if event.By != "" && r.perUser.Filter(asCausedBy(event)) {
		count(outcomeSuppressed)
		return
	}
	event.By, event.Message = "", message.Clip(event.Message, maxMessageBytes) // names in it can be long
	tenant := event.tenant()
	leave, found := r.places.Try(tenant, 1)
	if !found {
		count(outcomeDropped)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	queue, begun := r.queues[tenant]
	r.queues[tenant] = append(queue, waiting{event, time.Now().Add(permissionWait), leave})
	if !begun {
		r.begun <- tenant // does not block: each of these tenants has a place
	}
}

// short limits the length of each field of a reference. The object can be the owner of another one, and a tenant can write a MiB into each field
// of an owner reference. Limits and counts of many Events are remembered by these fields.
func short(object corev1.ObjectReference) corev1.ObjectReference {
	for _, field := range []*string{&object.APIVersion, &object.Kind, &object.Namespace, &object.Name, (*string)(&object.UID)} {
		*field = message.Clip(*field, maxFieldBytes)
	}
	return object
}

// Start writes events until ctx ends, and then the waiting ones, for at most the timeout of a single write. While the permission is missing, it
// logs the reason and repeats the check.
func (r *Recorder) Start(ctx context.Context) error {
	if r.writer == nil {
		logf.FromContext(ctx).Info("Events are off: no kubeconfig for kcp was given (--kcp-kubeconfig)")
		return nil
	}
	writes, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var tenants sync.WaitGroup
	tenants.Go(func() { r.awaitPermission(ctx) })
	for ctx.Err() == nil || len(r.begun) > 0 {
		select {
		case tenant := <-r.begun:
			tenants.Go(func() { r.writeAll(writes, tenant) })
		case <-ctx.Done():
		}
	}
	defer time.AfterFunc(writeTimeout, cancel).Stop()
	tenants.Wait()
	return nil
}

// writeAll writes the Events of a tenant until none waits.
func (r *Recorder) writeAll(ctx context.Context, tenant share.Tenant) {
	answers := true
	for event := r.next(tenant); event != nil; event = r.next(tenant) {
		if !answers || ctx.Err() != nil {
			event.leave()
			count(outcomeDropped)
			continue
		}
		select {
		case <-r.checked:
		case <-time.After(time.Until(event.until)):
		}
		event.leave()
		if !r.permitted.Load() {
			count(outcomeOff)
			continue
		}
		answers = !errors.Is(r.write(ctx, &event.Event), context.DeadlineExceeded)
	}
}

// next takes the next Event of a tenant, which keeps its place. If there is none, it returns nil, and the tenant needs another goroutine for further ones.
func (r *Recorder) next(tenant share.Tenant) *waiting {
	r.mu.Lock()
	defer r.mu.Unlock()
	queue := r.queues[tenant]
	if len(queue) == 0 {
		delete(r.queues, tenant)
		return nil
	}
	r.queues[tenant] = queue[1:]
	return &queue[0]
}

func (r *Recorder) awaitPermission(ctx context.Context) {
	defer close(r.checked)
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

func (r *Recorder) write(ctx context.Context, event *Event) error {
	correlated := newCoreEvent(event)
	// The correlator aggregates by source and object. The same object name in two logical clusters means two objects, so the source
	// contains the logical cluster during correlation.
	correlated.Source.Host = event.Cluster.String()
	result, err := r.correlator.EventCorrelate(correlated)
	if err != nil {
		logf.FromContext(ctx).Error(err, "aggregate an Event", "reason", event.Reason)
		count(outcomeFailed)
		return err
	}
	if result.Skip {
		count(outcomeSuppressed)
		return nil
	}
	result.Event.Source.Host = ""
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()

	err = apierrors.NewNotFound(corev1.Resource("events"), result.Event.Name)
	if result.Event.Count > 1 {
		err = r.writer.Patch(ctx, event.Cluster, result.Event, result.Patch)
	}
	if apierrors.IsNotFound(err) { // a new Event, or one that has expired
		err = r.writer.Create(ctx, event.Cluster, result.Event)
	}
	if err != nil {
		logf.FromContext(ctx).Error(err, "write an Event", "reason", event.Reason,
			"cluster", event.Cluster, "object", event.Object.Name, "message", event.Message)
		count(outcomeFailed)
		return err
	}
	count(outcomeWritten)
	return nil
}

func newCoreEvent(event *Event) *corev1.Event {
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: util.GenerateEventName(event.Object.Name, now.UnixNano()),
			// Events of cluster-scoped objects are in namespace default, as in Kubernetes.
			Namespace: cmp.Or(event.Object.Namespace, metav1.NamespaceDefault),
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
