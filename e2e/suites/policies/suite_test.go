//go:build e2e

// Package policies_test tests the admission policies on real kcp servers: alone, while no warrantgate runs, and together with serve. On a
// kcp before v0.32, which has no such policies, the same specs test that install reports it and that the webhook rewrites the owners.
package policies_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

const (
	startTimeout = 5 * time.Minute
	specTimeout  = 3 * time.Minute
	// manyTimeout is for specs that create many workspaces, of which kcp makes about one a second on two processors.
	manyTimeout = 20 * time.Minute
	// readyTimeout is far longer than a workspace takes to become Ready.
	readyTimeout = 2 * time.Minute
	pollInterval = 100 * time.Millisecond
	// abreast is the number of workspaces that are created at the same time.
	abreast = 5
)

var (
	// kcp is the server of all specs but those that need other arguments. Each container installs what it needs, and removes it.
	kcp *kcptest.Server
	// byPolicy reports whether kcp has MutatingAdmissionPolicies.
	byPolicy bool
)

func TestPolicies(t *testing.T) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	suite.Run(t, "Policies", readyTimeout, pollInterval)
}

var _ = BeforeSuite(func(ctx SpecContext) { kcp, byPolicy = startKCP(ctx) }, NodeTimeout(startTimeout))

// startKCP starts a kcp of one shard, and reports whether it has MutatingAdmissionPolicies.
func startKCP(ctx context.Context, args ...string) (server *kcptest.Server, byPolicy bool) {
	GinkgoHelper()
	server = suite.KCP(ctx, args...)
	return server, suite.ByPolicy(server)
}

// run runs warrantgate as an administrator of root, and returns its output and its exit code.
func run(ctx context.Context, server *kcptest.Server, args ...string) (output string, code int) {
	GinkgoHelper()
	printed := suite.Warrantgate(ctx, append(args, "--kubeconfig="+server.AdminKubeconfig(), "--context=root")...)
	return printed.Stdout + printed.Stderr, printed.Status
}

// applyPolicies applies the file of the policies as "kubectl apply --server-side" does, and waits until kcp acts on them.
func applyPolicies(ctx context.Context, server *kcptest.Server) {
	GinkgoHelper()
	file, err := os.ReadFile("../../../charts/warrantgate/files/kcp-policies.yaml")
	Expect(err).NotTo(HaveOccurred())
	root := suite.KCPClient(server.Admin("root"))
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(file), len(file))
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(root.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("kubectl"))).To(Succeed())
	}
	Eventually(ctx, func() (string, error) {
		output, code := run(ctx, server, "check", "admission", "kcp", "--policies-only")
		if code != 0 {
			return output, fmt.Errorf("exit code %d", code)
		}
		return output, nil
	}).Should(And(ContainSubstring("warrantgate-owner-rewrite: ok"), ContainSubstring("warrantgate-restore: ok"), ContainSubstring("warrantgate-owner-integrity: ok")))
}

// home is a workspace whose service accounts may create workspaces.
type home struct{ suite.Place }

func newHome(ctx context.Context, server *kcptest.Server) home {
	GinkgoHelper()
	h := home{suite.NewPlace(ctx, server)}
	Expect(kcptest.Grant(ctx, h.Admin(), kcptest.Group("system:serviceaccounts"), kcptest.CreatorRules()...)).To(Succeed())
	return h
}

// child is a workspace of a service account of its own.
type child struct {
	name    string
	bot     *rest.Config
	created time.Time
	// took is the time from creation to Ready.
	took time.Duration
	ws   *tenancyv1alpha1.Workspace
	// met is the number of forgeries that reached the workspace, forged the number of those that changed its owner.
	met, forged int
}

// many creates service accounts that create one workspace each, with limited concurrency, and waits until all are Ready. Workspaces for
// which forged is true are forged meanwhile.
func (h home) many(ctx context.Context, prefix string, count int, created func(int), forged func(int) bool) []child {
	GinkgoHelper()
	children := make([]child, count)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(abreast)
	for i := range children {
		children[i].name = fmt.Sprintf("%s-%d", prefix, i)
		group.Go(func() error { return h.one(groupCtx, &children[i], i, created, forged(i)) })
	}
	Expect(group.Wait()).To(Succeed())
	return children
}

func never(int) bool { return false }
func ignored(int)    {}

func (h home) one(ctx context.Context, c *child, i int, created func(int), forged bool) (err error) {
	c.bot, err = kcptest.ServiceAccount(ctx, h.Admin(), metav1.NamespaceDefault, c.name)
	if err != nil {
		return err
	}
	cease := func() (int, int) { return 0, 0 }
	if forged {
		cease = h.forge(ctx, c.name)
	}
	// A busy kcp observes a service account some time after it was created.
	if err := wait.PollUntilContextTimeout(ctx, pollInterval, readyTimeout, true, func(ctx context.Context) (bool, error) {
		c.created = time.Now()
		_, err := kcptest.TryCreateWorkspace(ctx, c.bot, c.name)
		unknown := apierrors.IsUnauthorized(err)
		if unknown {
			err = nil
		}
		return !unknown, err
	}); err != nil {
		return err
	}
	created(i)
	waiting, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	c.ws, err = kcptest.WaitReady(waiting, h.Admin(), c.name)
	c.took = time.Since(c.created)
	c.met, c.forged = cease()
	return err
}

const forgedOwner = `{"username":"root-boss","groups":["system:masters","system:kcp:admin"]}`

// forge patches the owner of a workspace in a loop, as a cluster-admin of the parent workspace, until cease is called. cease returns the
// number of patches that reached the workspace, and the number of those that were admitted.
func (h home) forge(ctx context.Context, name string) (cease func() (met, forged int)) {
	ctx, cancel := context.WithCancel(ctx)
	var forgers sync.WaitGroup
	var mu sync.Mutex
	met, forged := 0, 0
	for range 2 {
		forgers.Go(func() {
			c, err := kcptest.NewClient(kcptest.OwnConnection(h.Server.User(h.Path, "mallory")))
			if err != nil {
				return
			}
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, kcptest.OwnerAnnotation, forgedOwner))
			for ctx.Err() == nil {
				err := c.Patch(ctx, &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: name}}, patch)
				mu.Lock()
				if err == nil || apierrors.IsForbidden(err) {
					met++
				}
				if err == nil {
					forged++
				}
				mu.Unlock()
			}
		})
	}
	return func() (int, int) {
		cancel()
		forgers.Wait()
		return met, forged
	}
}

// expectOwned expects that the creator of each workspace has permissions in it, that the next service account has none, and that its owner
// was not forged.
func (h home) expectOwned(ctx context.Context, children []child) {
	GinkgoHelper()
	for i, c := range children {
		Expect(c.ws.Annotations).To(HaveKeyWithValue(kcptest.CreatedByAnnotation, h.Cluster+":default:"+c.name))
		lc, err := kcptest.GetLogicalCluster(ctx, h.Server.Admin(c.ws.Spec.Cluster))
		Expect(err).NotTo(HaveOccurred())
		if lc.Spec.CreatedBy != nil { // from v0.32 on
			Expect(lc.Spec.CreatedBy.Username).To(Equal("system:kcp:serviceaccount:" + h.Cluster + ":default:" + c.name))
		}
		Expect(lc.Annotations[kcptest.OwnerAnnotation]).NotTo(ContainSubstring("root-boss"))
		ws := &tenancyv1alpha1.Workspace{} // after the last forgery
		Expect(suite.KCPClient(h.Admin()).Get(ctx, client.ObjectKey{Name: c.name}, ws)).To(Succeed())
		Expect(ws.Annotations[kcptest.OwnerAnnotation]).NotTo(ContainSubstring("root-boss"))
		Expect(c.forged).To(BeZero(), c.name)
		suite.ExpectAtHome(ctx, c.bot, c.ws.Spec.Cluster)
		other := suite.KCPClient(kcptest.In(children[(i+1)%len(children)].bot, c.ws.Spec.Cluster))
		Expect(other.List(ctx, &corev1.NamespaceList{})).To(WithTransform(apierrors.IsForbidden, BeTrue()), c.name)
	}
}

// expectOneWarrant expects the recorded owner to have one warrant that contains no other warrant: a second rewrite would nest them.
func (h home) expectOneWarrant(ctx context.Context, c child) {
	GinkgoHelper()
	const warrants = "authorization.kcp.io/warrant"
	lc, err := kcptest.GetLogicalCluster(ctx, h.Server.Admin(c.ws.Spec.Cluster))
	Expect(err).NotTo(HaveOccurred())
	if lc.Spec.CreatedBy != nil { // from v0.32 on
		Expect(lc.Spec.CreatedBy.Extra).To(HaveKeyWithValue(warrants, HaveExactElements(Not(ContainSubstring(warrants)))), c.name)
	}
}

// expectImpostorLockedOut creates a service account of the creator's name in the workspace, which must have no permissions there.
func (h home) expectImpostorLockedOut(ctx context.Context, c child) {
	GinkgoHelper()
	impostor, err := kcptest.ServiceAccount(ctx, h.Server.Admin(c.ws.Spec.Cluster), metav1.NamespaceDefault, c.name)
	Expect(err).NotTo(HaveOccurred())
	for _, attempt := range []error{
		suite.KCPClient(impostor).List(ctx, &corev1.NamespaceList{}),
		suite.KCPClient(impostor).Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "intruder"}}),
	} {
		Expect(attempt).To(WithTransform(apierrors.IsForbidden, BeTrue()), c.name)
	}
}
