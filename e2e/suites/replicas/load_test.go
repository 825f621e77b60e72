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
)

// rateEnv is the variable that says how many admissions a second there are: see "make e2e".
const rateEnv = "RATE"

const (
	// admissions is how many there are at least, defaultRate how many come a second where rateEnv does not say.
	admissions  = 2000
	defaultRate = 20
	// concurrency bounds how many admissions are under way at the same time, for the case that the machine is too slow.
	concurrency = 100
)

// load has the API server ask the gates, of one kind of object after the other, and compares each answer with what it has to be.
type load struct {
	world *world
	// kinds are the admissions that take turns.
	kinds []kind
	// perSecond is how fast they come.
	perSecond int
	// tidy has each write taken back, so that nothing grows by what was written.
	tidy bool
	// underWay is held for reading by each admission.
	underWay sync.RWMutex
	made     atomic.Int64

	mu    sync.Mutex
	wrong []string
}

// kind is one kind of admission.
type kind struct {
	name string
	want verdict
	// write makes the admission. If that is admitted, undo takes back what was written.
	write func(ctx context.Context, number int64) (undo func() error, err error)
}

// newLoad makes what the admissions are about.
func (w *world) newLoad(ctx context.Context) *load {
	GinkgoHelper()
	s := w.begin(ctx)
	create := func(ctx context.Context, as client.Client, object client.Object) (func() error, error) {
		return func() error { return w.admin.Delete(ctx, object) }, as.Create(ctx, object)
	}
	return &load{world: w, perSecond: perSecond(), kinds: []kind{
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
		{name: "a machine that names a server of somebody else", want: verdict{reason: "InstanceNotOwned"}, write: func(ctx context.Context, _ int64) (func() error, error) {
			return nil, w.setInstanceID(ctx, s.machine, s.foreign)
		}},
		{name: "a cluster of an administrator", write: func(ctx context.Context, number int64) (func() error, error) {
			return create(ctx, w.admin, cluster(s.namespace, fmt.Sprintf("cluster-%d", number), s.user.Email))
		}},
		{name: "a cluster of who may not act as its user", want: verdict{policy: "cloudsigmaclusters.cluster.warrantgate.dev"}, write: func(ctx context.Context, number int64) (func() error, error) {
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

// run makes admissions until there are enough of them and done is closed.
func (l *load) run(ctx context.Context, done <-chan struct{}) {
	limiter := rate.NewLimiter(rate.Limit(l.perSecond), 1)
	slots := make(chan struct{}, concurrency)
	var all sync.WaitGroup
	defer all.Wait()
	for number := int64(0); number < admissions || !isClosed(done); number++ {
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

// between calls do while no admission is under way, and lets none begin meanwhile.
func (l *load) between(do func()) {
	l.underWay.Lock()
	defer l.underWay.Unlock()
	do()
}

// awaitMore returns after so many more admissions that all replicas have had some.
func (l *load) awaitMore(ctx context.Context) {
	GinkgoHelper()
	more := 2 * int64(l.perSecond)
	Eventually(l.made.Load).WithContext(ctx).Should(BeNumerically(">=", l.made.Load()+more))
}

func perSecond() int {
	GinkgoHelper()
	said := os.Getenv(rateEnv)
	if said == "" {
		return defaultRate
	}
	number, err := strconv.Atoi(said)
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
