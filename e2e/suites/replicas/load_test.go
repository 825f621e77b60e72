//go:build e2e

package replicas_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/volume"
)

// rateEnv is the environment variable with the admissions per second of a large load.
const rateEnv = "RATE"

const (
	// smallRate is the rate of a small load, defaultRate that of a large one without rateEnv.
	smallRate, defaultRate = 5, 20
	// concurrency limits the concurrent admissions, in case the machine is too slow.
	concurrency = 100
)

// load makes the API server call the gates, for one kind of object after the other, and compares each verdict with the expected one.
type load struct {
	world *world
	// kinds are the kinds of admissions, which alternate.
	kinds []kind
	// perSecond is the rate.
	perSecond int
	// least is the minimum number of admissions.
	least int64
	// tidy is true if each write is reverted, so that the number of objects does not grow.
	tidy bool
	// underWay is locked for reading by each admission.
	underWay sync.RWMutex
	made     atomic.Int64

	mu    sync.Mutex
	wrong []string
}

// kind is one kind of admission.
type kind struct {
	name string
	want verdict
	// write makes the admission. If it is admitted, undo reverts the write.
	write func(ctx context.Context, number int64) (undo func() error, err error)
}

// newLoad creates the objects of the admissions.
func (w *world) newLoad(ctx context.Context) *load {
	GinkgoHelper()
	s := w.begin(ctx)
	create := func(ctx context.Context, as client.Client, object client.Object) (func() error, error) {
		return func() error { return w.admin.Delete(ctx, object) }, as.Create(ctx, object)
	}
	return &load{world: w, perSecond: volume.Of(smallRate, perSecond()), least: int64(volume.Of(0, 2000)), kinds: []kind{
		{name: "a machine that names its user's own server", write: func(ctx context.Context, number int64) (func() error, error) {
			object := machine(s.namespace, fmt.Sprintf("machine-%d", number), "pool")
			undo, err := create(ctx, w.admin, object)
			if err != nil {
				return nil, err
			}
			owned := w.cloud.AddServer(region, s.user, object.GetName()).UUID
			return func() error {
				w.cloud.RemoveServer(owned)
				return undo()
			}, w.setInstanceID(ctx, object, owned)
		}},
		{name: "a machine that names a server of another user", want: verdict{reason: "InstanceNotOwned"}, write: func(ctx context.Context, _ int64) (func() error, error) {
			return nil, w.setInstanceID(ctx, s.machine, s.foreign)
		}},
		{name: "a cluster of an administrator", write: func(ctx context.Context, number int64) (func() error, error) {
			return create(ctx, w.admin, cluster(s.namespace, fmt.Sprintf("cluster-%d", number), s.user.Email))
		}},
		{name: "a cluster of a user that its author may not impersonate", want: verdict{policy: "cloudsigmaclusters.cluster.warrantgate.dev"}, write: func(ctx context.Context, number int64) (func() error, error) {
			return create(ctx, w.author, cluster(s.namespace, fmt.Sprintf("cluster-%d", number), s.user.Email))
		}},
		{name: "a policy that does what it says", write: func(ctx context.Context, number int64) (func() error, error) {
			return create(ctx, w.admin, policy(s.namespace, fmt.Sprintf("policy-%d", number), sound))
		}},
		{name: "a policy that is broken", want: verdict{reason: "KeystonePolicyBroken"}, write: func(ctx context.Context, number int64) (func() error, error) {
			return create(ctx, w.admin, policy(s.namespace, fmt.Sprintf("policy-%d", number), broken))
		}},
	}}
}

// run makes admissions until there are enough and done is closed.
func (l *load) run(ctx context.Context, done <-chan struct{}) {
	limiter := rate.NewLimiter(rate.Limit(l.perSecond), 1)
	slots := make(chan struct{}, concurrency)
	var all sync.WaitGroup
	defer all.Wait()
	for number := int64(0); number < l.least || !isClosed(done); number++ {
		if limiter.Wait(ctx) != nil {
			return
		}
		slots <- struct{}{}
		l.underWay.RLock()
		all.Go(func() {
			defer func() { <-slots }()
			defer l.underWay.RUnlock()
			l.admit(ctx, number)
		})
	}
}

func (l *load) admit(ctx context.Context, number int64) {
	kind := l.kinds[number%int64(len(l.kinds))]
	began := time.Now()
	undo, err := kind.write(ctx, number)
	admitted := err == nil
	err = kind.want.check(err)
	l.made.Add(1)
	if err == nil && admitted && l.tidy {
		err = undo()
	}
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, fmt.Sprintf("%s, after %s: %d, %s: %v", began.Format(time.TimeOnly+".000"), time.Since(began), number, kind.name, err))
}

// between calls do while there are no admissions, and blocks new ones during that time.
func (l *load) between(do func()) {
	l.underWay.Lock()
	defer l.underWay.Unlock()
	do()
}

// awaitMore returns after so many more admissions that every replica has had some.
func (l *load) awaitMore(ctx context.Context) {
	GinkgoHelper()
	more := 2 * int64(l.perSecond)
	Eventually(l.made.Load).WithContext(ctx).Should(BeNumerically(">=", l.made.Load()+more))
}

// perSecond is the rate of a large load.
func perSecond() int {
	GinkgoHelper()
	value := os.Getenv(rateEnv)
	if value == "" {
		return defaultRate
	}
	number, err := strconv.Atoi(value)
	Expect(err).NotTo(HaveOccurred(), rateEnv)
	Expect(number).To(BeNumerically(">", 0), rateEnv)
	return number
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
