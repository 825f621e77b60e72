package webhookstest

import (
	"context"
	"iter"
	goruntime "runtime"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/dynamic"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	fakekubernetes "k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Plugin is the admission plugin ValidatingAdmissionPolicy or MutatingAdmissionPolicy.
type Plugin interface {
	SetExternalKubeInformerFactory(informers.SharedInformerFactory)
	SetExternalKubeClientSet(kubernetes.Interface)
	SetRESTMapper(meta.RESTMapper)
	SetDynamicClient(dynamic.Interface)
	SetDrainedNotification(<-chan struct{})
	SetAuthorizer(authorizer.Authorizer)
	ValidateInitialization() error
	WaitForReady() bool
}

// PolicyOptions configure what a plugin evaluates.
type PolicyOptions struct {
	// Policies are the installed policies and bindings.
	Policies []client.Object
	// Objects are other objects of the API server.
	Objects []runtime.Object
	// Authorizer decides the authorizer checks of policies.
	Authorizer authorizer.Authorizer
	// Client wraps the client of the API server. Default: not wrapped.
	Client func(kubernetes.Interface) kubernetes.Interface
	// Evaluates returns nil once the plugin evaluates the policies. The plugin compiles them first, with a delay.
	Evaluates func(context.Context) error
}

// apiServer is a client of a fake API server.
type apiServer struct{ kubernetes.Interface }

// IsWatchListSemanticsUnSupported forwards the marker method of the fake client, which the embedded interface hides.
func (apiServer) IsWatchListSemanticsUnSupported() bool { return true }

// StartPolicies starts a plugin and waits until it evaluates the policies.
func StartPolicies(tb testing.TB, plugin Plugin, options PolicyOptions) {
	tb.Helper()
	objects := options.Objects
	for _, object := range options.Policies {
		setDefaults(object)
		objects = append(objects, object)
	}
	var api kubernetes.Interface = fakekubernetes.NewSimpleClientset(objects...)
	if options.Client != nil {
		api = options.Client(api)
	}
	api = apiServer{api}
	factory := informers.NewSharedInformerFactory(api, 0)
	plugin.SetExternalKubeInformerFactory(factory)
	plugin.SetExternalKubeClientSet(api)
	plugin.SetRESTMapper(meta.NewDefaultRESTMapper(nil))
	plugin.SetDynamicClient(fakedynamic.NewSimpleDynamicClient(runtime.NewScheme()))
	plugin.SetDrainedNotification(tb.Context().Done())
	plugin.SetAuthorizer(options.Authorizer)
	if err := plugin.ValidateInitialization(); err != nil {
		tb.Fatal(err)
	}
	factory.Start(tb.Context().Done())
	if !plugin.WaitForReady() {
		tb.Fatal("the plugin does not become ready")
	}
	var last error
	if err := wait.PollUntilContextTimeout(tb.Context(), 10*time.Millisecond, 15*time.Second, true, func(ctx context.Context) (bool, error) {
		last = options.Evaluates(ctx)
		return last == nil, nil
	}); err != nil {
		tb.Fatalf("the policy is not evaluated: %v, %v", err, last)
	}
}

// setDefaults sets the defaults of a policy, as an API server does.
func setDefaults(object client.Object) {
	var constraints *admissionregistrationv1.MatchResources
	switch policy := object.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		constraints = policy.Spec.MatchConstraints
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		constraints = policy.Spec.MatchConstraints
	default: // a binding
		return
	}
	constraints.NamespaceSelector, constraints.ObjectSelector = &metav1.LabelSelector{}, &metav1.LabelSelector{}
}

// Tally counts the outcomes of about count tries. One goroutine per processor makes them, each with its own seed. It ends early if
// the test has failed.
func Tally(tb testing.TB, count int, try func(seed uint64, count int) iter.Seq[string]) map[string]int {
	tb.Helper()
	var workers sync.WaitGroup
	var mu sync.Mutex
	counts := map[string]int{}
	shares := goruntime.GOMAXPROCS(0)
	for seed := range uint64(shares) { //nolint:gosec // a few processors
		workers.Go(func() {
			own := map[string]int{}
			for outcome := range try(seed, count/shares+1) {
				if own[outcome]++; tb.Failed() {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for outcome, n := range own {
				counts[outcome] += n
			}
		})
	}
	workers.Wait()
	return counts
}
