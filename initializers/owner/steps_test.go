package owner

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/kcp"
)

const (
	theHome    = "2bcdefghijklmnop"
	bareName   = "system:serviceaccount:default:bot"
	globalName = "system:kcp:serviceaccount:" + theHome + ":default:bot"
	// foreignOwner is a service account outside its home, rewrittenOwner the result of its rewrite, and localOwner a user.
	foreignOwner = `{"username":"` + bareName + `","groups":["system:serviceaccounts","system:authenticated"],` +
		`"extra":{"authentication.kcp.io/cluster-name":["` + theHome + `"]}}`
	rewrittenOwner   = `{"username":"` + globalName + `","groups":["system:authenticated"]}`
	localOwner       = `{"username":"alice","groups":["system:authenticated"]}`
	ownerWithoutHome = `{"username":"` + bareName + `"}`
	// lentOwner and lentOwnerWithoutHome also have an administrator's warrant.
	lentOwner            = `{"username":"alice","groups":["system:authenticated"],"extra":{"authorization.kcp.io/warrant":["{\"user\":\"bob\",\"groups\":[\"system:kcp:admin\"]}"]}}`
	lentOwnerWithoutHome = `{"username":"` + bareName + `","extra":{"authorization.kcp.io/warrant":["{\"user\":\"bob\",\"groups\":[\"system:kcp:admin\"]}"]}}`
)

// rewriteOf is the result of the rewrite of an owner in theCluster.
func rewriteOf(raw string) string {
	owner, _ := identity.Rewrite(raw, theHome, theCluster, "", identity.Policy{})
	return owner.String()
}

// impersonatedIn is a service account that somebody impersonated in a logical cluster.
func impersonatedIn(cluster string) string {
	return `{"username":"` + bareName + `","groups":["system:serviceaccounts","system:authenticated"],` +
		`"extra":{"authentication.kcp.io/scopes":["cluster:` + cluster + `"]}}`
}

// childIn is Steps.WorkspaceOf for the Workspace of theCluster in a fake kcp.
func childIn(clients kcp.Clients) func(context.Context, logicalcluster.Name, *corev1alpha1.LogicalClusterOwner) (*tenancyv1alpha1.Workspace, error) {
	return func(ctx context.Context, cluster logicalcluster.Name, of *corev1alpha1.LogicalClusterOwner) (*tenancyv1alpha1.Workspace, error) {
		if cluster != theCluster || of.Cluster != theHome || of.Name != "child" || of.UID != "1" {
			return nil, nil
		}
		c, err := clients(logicalcluster.NewPath(theHome))
		if err != nil {
			return nil, err
		}
		ws := &tenancyv1alpha1.Workspace{}
		return ws, c.Get(ctx, client.ObjectKey{Name: of.Name}, ws)
	}
}

// cluster is the state of theCluster and its Workspace, which is in theHome, in the fake kcp.
type cluster struct {
	owner        string // on the LogicalCluster
	recorded     string // on the Workspace, the same if empty
	phase        corev1alpha1.LogicalClusterPhaseType
	initializers []corev1alpha1.LogicalClusterInitializer
	rewritten    time.Time // zero if it was not
	admins       []string
	newKCP       bool // v0.32 and later record spec.createdBy
	reduced      bool // the Workspace is Ready, so kcp has reduced its owner
	allowed      bool // everyone may do everything
	lacksEntry   bool // no user may do anything
	failed       bool // kcp has failed to create the default API bindings
	gone         bool
	claims       string                            // the path on the LogicalCluster, its own if empty
	binds        bool                              // its type binds the APIExport widgets
	of           *corev1alpha1.LogicalClusterOwner // what spec.owner names, the Workspace if nil
}

// path is the path on the LogicalCluster.
func (c cluster) path() string {
	if c.claims != "" {
		return c.claims
	}
	return "root:orgs:child"
}

// fakeKCP returns clients that answer as kcp does with cluster. A request fails if fail returns an error for it.
func fakeKCP(t *testing.T, c cluster, fail func(verb string, object client.Object) error) kcp.Clients {
	t.Helper()
	if fail == nil {
		fail = func(string, client.Object) error { return nil }
	}
	failing := interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if err := fail("get", object); err != nil {
				return err
			}
			return c.Get(ctx, key, object, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			if err := fail("update", object); err != nil {
				return err
			}
			return c.Update(ctx, object, options...)
		},
		Create: func(ctx context.Context, with client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if review, ok := object.(*authorizationv1.SubjectAccessReview); ok {
				if review.Status.Allowed = c.allowed; !c.allowed && !c.lacksEntry {
					return errors.New("it may not be asked")
				}
				return nil
			}
			return with.Create(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := fail("patch", object); err != nil {
				return err
			}
			return c.Patch(ctx, object, patch, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if err := fail("patch "+sub, object); err != nil {
				return err
			}
			err := c.SubResource(sub).Patch(ctx, object, patch, options...)
			if err != nil && strings.Contains(err.Error(), "test") { // the API server's error if a test of a JSON patch fails
				return apierrors.NewInvalid(logicalClusterGVK.GroupKind(), object.GetName(), nil)
			}
			return err
		},
	}
	with := func(objects ...client.Object) client.Client {
		return fake.NewClientBuilder().WithScheme(kcp.Scheme()).WithObjects(objects...).
			WithStatusSubresource(&corev1alpha1.LogicalCluster{}, &tenancyv1alpha1.Workspace{}).
			WithInterceptorFuncs(failing).Build()
	}
	neighbor := c.workspace() // with the same owner
	neighbor.Name, neighbor.UID, neighbor.Spec.Cluster = "neighbor", "2", "another"
	clients := map[string]client.Client{theHome: with(c.workspace(), neighbor, binding(), harmless(), widgets()), theCluster: with()}
	if !c.gone {
		clients[theCluster] = with(c.logicalCluster(t), c.workspaceAdmin())
		clients["root:orgs:child"] = clients[theCluster]
	}
	return func(path logicalcluster.Path) (client.Client, error) {
		if c, found := clients[path.String()]; found {
			return c, nil
		}
		return nil, errors.New("no logical cluster " + path.String())
	}
}

func (c cluster) logicalCluster(t *testing.T) *corev1alpha1.LogicalCluster {
	t.Helper()
	lc := &corev1alpha1.LogicalCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "cluster",
			Annotations: map[string]string{logicalcluster.AnnotationKey: theCluster, "kcp.io/path": c.path(), kcp.OwnerAnnotation: c.owner},
			Labels:      map[string]string{bindingsLabel: "x"},
		},
		Spec:   corev1alpha1.LogicalClusterSpec{Owner: &corev1alpha1.LogicalClusterOwner{Cluster: theHome, Name: "child", UID: "1"}},
		Status: corev1alpha1.LogicalClusterStatus{Phase: c.phase, Initializers: c.initializers},
	}
	lc.Spec.Initializers = c.initializers
	if c.of != nil {
		lc.Spec.Owner = c.of
	}
	if c.failed {
		lc.Status.Conditions = append(lc.Status.Conditions, conditionsv1alpha1.Condition{
			Type: tenancyv1alpha1.WorkspaceAPIBindingsInitialized, Status: "False", Reason: tenancyv1alpha1.WorkspaceInitializedAPIBindingErrors,
		})
	}
	if !c.rewritten.IsZero() {
		lc.Annotations[rewrittenAtAnnotation] = c.rewritten.Format(time.RFC3339Nano)
	}
	if c.binds {
		lc.Annotations[tenancyv1alpha1.LogicalClusterTypeAnnotationKey] = theHome + ":binding"
	}
	if c.newKCP {
		lc.Spec.CreatedBy = &corev1alpha1.OwnerUserInfo{}
		if err := json.Unmarshal([]byte(c.owner), lc.Spec.CreatedBy); err != nil {
			t.Fatal(err)
		}
	}
	return lc
}

func (c cluster) workspace() *tenancyv1alpha1.Workspace {
	owner := c.recorded
	if owner == "" {
		owner = c.owner
	}
	phase := corev1alpha1.LogicalClusterPhaseInitializing
	if c.reduced {
		phase = corev1alpha1.LogicalClusterPhaseReady
	}
	return &tenancyv1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{Name: "child", UID: "1", Annotations: map[string]string{kcp.OwnerAnnotation: owner}},
		Spec:       tenancyv1alpha1.WorkspaceSpec{Cluster: theCluster},
		Status:     tenancyv1alpha1.WorkspaceStatus{Phase: phase},
	}
}

// binding is a WorkspaceType whose workspaces bind the APIExport widgets.
func binding() *tenancyv1alpha1.WorkspaceType {
	return &tenancyv1alpha1.WorkspaceType{
		ObjectMeta: metav1.ObjectMeta{Name: "binding", Annotations: map[string]string{logicalcluster.AnnotationKey: theHome}},
		Spec:       tenancyv1alpha1.WorkspaceTypeSpec{DefaultAPIBindings: []tenancyv1alpha1.APIExportReference{{Export: "widgets"}}},
	}
}

// harmless is a WorkspaceType without default API bindings.
func harmless() *tenancyv1alpha1.WorkspaceType {
	return &tenancyv1alpha1.WorkspaceType{ObjectMeta: metav1.ObjectMeta{Name: "harmless", Annotations: map[string]string{logicalcluster.AnnotationKey: theHome}}}
}

func widgets() *apisv1alpha2.APIExport {
	return &apisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: "widgets", Annotations: map[string]string{logicalcluster.AnnotationKey: theHome}}}
}

func (c cluster) workspaceAdmin() *rbacv1.ClusterRoleBinding {
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: workspaceAdmin}}
	for _, admin := range c.admins {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: rbacv1.UserKind, Name: admin})
	}
	return binding
}

// after is the compared part of a LogicalCluster once the steps have run.
type after struct {
	Owner           string // its username
	RewrittenAt     bool   // whether it is still recorded
	BindingsLabel   bool
	WorkspaceMarked bool
}

func stateOf(t *testing.T, clients kcp.Clients) after {
	t.Helper()
	var lc corev1alpha1.LogicalCluster
	var ws tenancyv1alpha1.Workspace
	inCluster, _ := clients(logicalcluster.NewPath(theCluster))
	inHome, _ := clients(logicalcluster.NewPath(theHome))
	if err := inCluster.Get(t.Context(), client.ObjectKey{Name: "cluster"}, &lc); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err := inHome.Get(t.Context(), client.ObjectKey{Name: "child"}, &ws); err != nil {
		t.Fatal(err)
	}
	username, _, _ := strings.Cut(strings.TrimPrefix(lc.Annotations[kcp.OwnerAnnotation], `{"username":"`), `"`)
	_, rewritten := lc.Annotations[rewrittenAtAnnotation]
	_, labeled := lc.Labels[bindingsLabel]
	_, marked := ws.Annotations[kcp.RepairedAtAnnotation]
	return after{Owner: username, RewrittenAt: rewritten, BindingsLabel: labeled, WorkspaceMarked: marked}
}

var (
	logicalClusters = schema.GroupResource{Group: "core.kcp.io", Resource: "logicalclusters"}
	bindings        = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterrolebindings"}
	onlyBindings    = []corev1alpha1.LogicalClusterInitializer{"system:apibindings"}
	onlyOthers      = []corev1alpha1.LogicalClusterInitializer{"root:org:policies"}
)

// failOn returns an error for one verb on one kind.
func failOn[T client.Object](verb string, err error) func(string, client.Object) error {
	return func(v string, object client.Object) error {
		_, typed := object.(T)
		isLogicalCluster := object.GetObjectKind().GroupVersionKind() == logicalClusterGVK
		var want T
		if _, lc := any(want).(*corev1alpha1.LogicalCluster); v == verb && (typed || lc && isLogicalCluster) {
			return err
		}
		return nil
	}
}

// changesOwner writes another owner than the steps, as a webhook would.
func changesOwner(verb string, object client.Object) error {
	if verb == "update" {
		annotations := object.GetAnnotations()
		annotations[kcp.OwnerAnnotation] = `{"username":"root-boss","groups":["system:masters"]}`
		object.SetAnnotations(annotations)
	}
	return nil
}

// Each case is one run of the steps.
func TestSteps(t *testing.T) {
	const initializing, ready = corev1alpha1.LogicalClusterPhaseInitializing, corev1alpha1.LogicalClusterPhaseReady
	forbidden := apierrors.NewForbidden(logicalClusters, "cluster", errors.New("not in the group"))
	now, long := time.Now(), time.Now().Add(-time.Minute)
	// result is the compared part of a Result.
	type result struct {
		Outcome   Outcome
		Rewritten bool
		Requeue   bool
		Path      string
		Reason    string
	}
	const path = "root:orgs:child"
	for name, tc := range map[string]struct {
		cluster   cluster
		dryRun    bool
		fail      func(string, client.Object) error
		want      result
		wantAfter after
		wantError string
	}{
		"a foreign owner is rewritten first": {
			cluster:   cluster{owner: foreignOwner, phase: initializing, initializers: onlyBindings, admins: []string{bareName}},
			want:      result{Rewritten: true, Requeue: true, Path: path, Reason: "ServiceAccountRewritten"},
			wantAfter: after{Owner: globalName, RewrittenAt: true, BindingsLabel: true},
		},
		"a foreign owner of a Ready workspace, too": {
			cluster:   cluster{owner: foreignOwner, phase: ready, admins: []string{bareName}},
			want:      result{Rewritten: true, Requeue: true, Path: path, Reason: "ServiceAccountRewritten"},
			wantAfter: after{Owner: globalName, RewrittenAt: true, BindingsLabel: true},
		},
		"then kcp has to adopt it": {
			cluster: cluster{
				owner: rewriteOf(foreignOwner), recorded: foreignOwner, phase: initializing, initializers: onlyBindings, rewritten: now, admins: []string{bareName}, newKCP: true,
			},
			want:      result{Requeue: true, Path: path, Reason: "InScope"},
			wantAfter: after{Owner: globalName, RewrittenAt: true, BindingsLabel: true},
		},
		"kcp does not adopt it in time": {
			cluster:   cluster{owner: rewrittenOwner, phase: initializing, initializers: onlyBindings, rewritten: long, admins: []string{bareName}},
			want:      result{Outcome: Failed, Path: path, Reason: "InScope"},
			wantAfter: after{Owner: globalName, RewrittenAt: true, BindingsLabel: true},
			wantError: "wait for kcp to adopt the owner of root:orgs:child: kcp has not yet adopted the new owner in the ClusterRoleBinding workspace-admin",
		},
		"another client wrote a future time": {
			cluster:   cluster{owner: rewrittenOwner, phase: initializing, initializers: onlyBindings, rewritten: now.Add(time.Hour)},
			want:      result{Outcome: Failed, Path: path, Reason: "InScope"},
			wantAfter: after{Owner: globalName, RewrittenAt: true, BindingsLabel: true},
			wantError: "wait for kcp to adopt the owner of root:orgs:child: kcp has not yet adopted the new owner in the ClusterRoleBinding workspace-admin",
		},
		"then system:apibindings is retriggered": {
			cluster:   cluster{owner: rewrittenOwner, phase: initializing, initializers: onlyBindings, rewritten: now, admins: []string{globalName}},
			want:      result{Outcome: Corrected, Path: path, Reason: "InScope"},
			wantAfter: after{Owner: globalName},
		},
		"even a long time afterwards": {
			cluster:   cluster{owner: rewrittenOwner, phase: initializing, initializers: onlyBindings, rewritten: long, admins: []string{globalName}},
			want:      result{Outcome: Corrected, Path: path, Reason: "InScope"},
			wantAfter: after{Owner: globalName},
		},
		"a Ready workspace is not retriggered": {
			cluster:   cluster{owner: rewrittenOwner, phase: ready, rewritten: now, admins: []string{globalName}},
			want:      result{Outcome: Corrected, Path: path, Reason: "InScope"},
			wantAfter: after{Owner: globalName, BindingsLabel: true},
		},
		"a local owner is fine": {
			cluster:   cluster{owner: localOwner, phase: initializing, initializers: onlyBindings},
			want:      result{Outcome: Fine, Path: path, Reason: "InScope"},
			wantAfter: after{Owner: "alice", BindingsLabel: true},
		},
		"a local owner loses an administrator's warrant": {
			cluster:   cluster{owner: lentOwner, phase: initializing, initializers: onlyBindings, admins: []string{"alice"}},
			want:      result{Rewritten: true, Requeue: true, Path: path, Reason: "InScope"},
			wantAfter: after{Owner: "alice", RewrittenAt: true, BindingsLabel: true},
		},
		"then system:apibindings is retriggered, too": {
			cluster:   cluster{owner: localOwner, recorded: lentOwner, phase: initializing, initializers: onlyBindings, rewritten: now, admins: []string{"alice"}},
			want:      result{Outcome: Corrected, Path: path, Reason: "InScope"},
			wantAfter: after{Owner: "alice"},
		},
		"not in a dry run": {
			cluster: cluster{owner: lentOwner, phase: initializing, initializers: onlyBindings}, dryRun: true,
			want:      result{Outcome: Foreign, Path: path, Reason: "InScope"},
			wantAfter: after{Owner: "alice", BindingsLabel: true},
		},
		"nor that of a Ready workspace, as which kcp acts only for terminators": {
			cluster:   cluster{owner: lentOwner, phase: ready, admins: []string{"alice"}},
			want:      result{Outcome: Fine, Path: path, Reason: "InScope"},
			wantAfter: after{Owner: "alice", BindingsLabel: true},
		},
		"an owner that cannot be corrected loses it, too": {
			cluster:   cluster{owner: lentOwnerWithoutHome, phase: initializing, initializers: onlyBindings, admins: []string{bareName}},
			want:      result{Rewritten: true, Requeue: true, Path: path, Reason: "HomeUnknown"},
			wantAfter: after{Owner: bareName, RewrittenAt: true, BindingsLabel: true},
		},
		"then it is reported": {
			cluster:   cluster{owner: ownerWithoutHome, phase: initializing, initializers: onlyBindings, rewritten: now, admins: []string{bareName}},
			want:      result{Outcome: NotCorrectable, Path: path, Reason: "HomeUnknown"},
			wantAfter: after{Owner: bareName, RewrittenAt: true, BindingsLabel: true},
		},
		"as in a dry run": {
			cluster: cluster{owner: lentOwnerWithoutHome, phase: initializing, initializers: onlyBindings}, dryRun: true,
			want:      result{Outcome: NotCorrectable, Path: path, Reason: "HomeUnknown"},
			wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"an owner without a home cannot be corrected": {
			cluster:   cluster{owner: ownerWithoutHome, phase: ready},
			want:      result{Outcome: NotCorrectable, Path: path, Reason: "HomeUnknown"},
			wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"initializers of others act as the owner, too": {
			cluster:   cluster{owner: foreignOwner, phase: initializing, initializers: onlyOthers},
			want:      result{Rewritten: true, Requeue: true, Path: path, Reason: "ServiceAccountRewritten"},
			wantAfter: after{Owner: globalName, RewrittenAt: true, BindingsLabel: true},
		},
		"they are not retriggered": {
			cluster:   cluster{owner: rewrittenOwner, phase: initializing, initializers: onlyOthers, rewritten: now, admins: []string{globalName}},
			want:      result{Outcome: Corrected, Path: path, Reason: "InScope"},
			wantAfter: after{Owner: globalName, BindingsLabel: true},
		},
		"a workspace that is not scheduled yet": {
			cluster:   cluster{owner: foreignOwner, phase: corev1alpha1.LogicalClusterPhaseScheduling, initializers: onlyOthers},
			want:      result{Outcome: Waiting, Path: path, Reason: "ServiceAccountRewritten"},
			wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"the initializer of warrantgate is pending": {
			cluster:   cluster{owner: foreignOwner, phase: initializing, initializers: []corev1alpha1.LogicalClusterInitializer{initializer}},
			want:      result{Rewritten: true, Requeue: true, Path: path, Reason: "ServiceAccountRewritten"},
			wantAfter: after{Owner: globalName, RewrittenAt: true, BindingsLabel: true},
		},
		"the owner is not that of the Workspace": {
			cluster:   cluster{owner: `{"username":"root-boss","groups":["system:masters"]}`, recorded: localOwner, phase: initializing, initializers: onlyBindings},
			want:      result{Outcome: Differs, Path: path, Reason: "OwnerDiffers"},
			wantAfter: after{Owner: "root-boss", BindingsLabel: true},
		},
		"spec.createdBy is not that of the Workspace": {
			cluster: cluster{
				owner: `{"username":"root-boss","groups":["system:masters"]}`, recorded: localOwner, newKCP: true, phase: initializing, initializers: onlyBindings,
			},
			want:      result{Outcome: Differs, Path: path, Reason: "OwnerDiffers"},
			wantAfter: after{Owner: "root-boss", BindingsLabel: true},
		},
		"spec.createdBy has a group that it does not have on the Workspace": {
			cluster: cluster{
				owner: `{"username":"alice","groups":["system:masters"]}`, recorded: localOwner, newKCP: true, phase: initializing, initializers: onlyBindings,
			},
			want:      result{Outcome: Differs, Path: path, Reason: "OwnerDiffers"},
			wantAfter: after{Owner: "alice", BindingsLabel: true},
		},
		"spec.createdBy is not that of the Workspace, and spec.owner was removed": {
			cluster: cluster{
				owner: `{"username":"root-boss"}`, recorded: localOwner, newKCP: true, phase: initializing, initializers: onlyBindings, of: &corev1alpha1.LogicalClusterOwner{},
			},
			want:      result{Outcome: Differs, Path: path, Reason: "OwnerDiffers"},
			wantAfter: after{Owner: "root-boss", BindingsLabel: true},
		},
		"spec.createdBy has such a group, and the owner of the parent wrote the phase Ready, so that kcp reduced the owner of the Workspace": {
			cluster: cluster{
				owner: `{"username":"alice","groups":["system:masters"]}`, recorded: `{"username":"alice"}`, newKCP: true, phase: initializing,
				initializers: onlyBindings, reduced: true,
			},
			want:      result{Outcome: Differs, Path: path, Reason: "OwnerDiffers"},
			wantAfter: after{Owner: "alice", BindingsLabel: true},
		},
		"kcp has reduced the owner of the Workspace to its name, but does not report the LogicalCluster as Ready yet": {
			cluster:   cluster{owner: localOwner, recorded: `{"username":"alice"}`, newKCP: true, phase: initializing, reduced: true},
			want:      result{Outcome: Fine, Path: path, Reason: "InScope"},
			wantAfter: after{Owner: "alice", BindingsLabel: true},
		},
		"spec.owner names no Workspace": {
			cluster:   cluster{owner: foreignOwner, phase: initializing, initializers: onlyBindings, of: &corev1alpha1.LogicalClusterOwner{}},
			want:      result{Outcome: Differs, Path: path, Reason: "OwnerDiffers"},
			wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"spec.owner names a Workspace that does not exist": {
			cluster: cluster{
				owner: foreignOwner, phase: initializing, initializers: onlyBindings,
				of: &corev1alpha1.LogicalClusterOwner{Cluster: theHome, Name: "other", UID: "1"},
			},
			want:      result{Outcome: Differs, Path: path, Reason: "OwnerDiffers"},
			wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"spec.owner names the Workspace of another logical cluster": {
			cluster: cluster{
				owner: foreignOwner, phase: initializing, initializers: onlyBindings,
				of: &corev1alpha1.LogicalClusterOwner{Cluster: theHome, Name: "neighbor", UID: "2"},
			},
			want:      result{Outcome: Differs, Path: path, Reason: "OwnerDiffers"},
			wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"a service account that was impersonated in the workspace that contains the Workspace": {
			cluster:   cluster{owner: impersonatedIn(theHome), newKCP: true, phase: initializing, initializers: onlyBindings},
			want:      result{Rewritten: true, Requeue: true, Path: path, Reason: "ServiceAccountRewritten"},
			wantAfter: after{Owner: globalName, RewrittenAt: true, BindingsLabel: true},
		},
		"a service account that was impersonated elsewhere": {
			cluster:   cluster{owner: impersonatedIn("another"), newKCP: true, phase: initializing, initializers: onlyBindings},
			want:      result{Outcome: NotCorrectable, Path: path, Reason: "HomeUnknown"},
			wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"a service account that was impersonated, and spec.owner names another Workspace": {
			cluster: cluster{
				owner: impersonatedIn(theHome), newKCP: true, phase: initializing, initializers: onlyBindings,
				of: &corev1alpha1.LogicalClusterOwner{Cluster: theHome, Name: "neighbor", UID: "2"},
			},
			want:      result{Outcome: Differs, Path: path, Reason: "OwnerDiffers"},
			wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"a dry run writes nothing": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: onlyBindings}, dryRun: true,
			want:      result{Outcome: Foreign, Path: path, Reason: "ServiceAccountRewritten"},
			wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"a dry run does not continue": {
			cluster: cluster{owner: rewrittenOwner, phase: initializing, initializers: onlyBindings, rewritten: now, admins: []string{globalName}}, dryRun: true,
			want:      result{Outcome: Foreign, Path: path, Reason: "InScope"},
			wantAfter: after{Owner: globalName, RewrittenAt: true, BindingsLabel: true},
		},
		"the logical cluster was deleted": {
			cluster: cluster{owner: foreignOwner, gone: true},
			want:    result{Outcome: Gone, Path: theCluster},
		},
		"it cannot be read": {
			cluster: cluster{owner: foreignOwner, phase: ready}, fail: failOnce(failOn[*corev1alpha1.LogicalCluster]("get", forbidden)),
			want:      result{Outcome: Failed, Path: theCluster},
			wantAfter: after{Owner: bareName, BindingsLabel: true},
			wantError: `read the LogicalCluster of ` + theCluster + `: logicalclusters.core.kcp.io "cluster" is forbidden: not in the group (LogicalClusters are read ` +
				"and written as the group system:kcp:external-logical-cluster-admin, and workspace-admin is read with the permissions of `warrantgate install kcp --shard-kubeconfig`)",
		},
		"a webhook in the workspace changes the written owner": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: onlyBindings, admins: []string{bareName}}, fail: changesOwner,
			want:      result{Outcome: Differs, Path: path, Reason: "OwnerDiffers"},
			wantAfter: after{Owner: "root-boss", RewrittenAt: true, BindingsLabel: true},
		},
		"a webhook in the workspace changes the owner when it is retriggered": {
			cluster: cluster{owner: rewrittenOwner, phase: initializing, initializers: onlyBindings, rewritten: now, admins: []string{globalName}}, fail: changesOwner,
			want:      result{Outcome: Differs, Path: path, Reason: "OwnerDiffers"},
			wantAfter: after{Owner: "root-boss"},
		},
		"the owner cannot be written": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: onlyBindings}, fail: failOn[*corev1alpha1.LogicalCluster]("update", errors.New("no quorum")),
			want:      result{Outcome: Failed, Path: path, Reason: "ServiceAccountRewritten"},
			wantAfter: after{Owner: bareName, BindingsLabel: true},
			wantError: "change the owner of root:orgs:child: no quorum",
		},
		"kcp wrote in between": {
			cluster:   cluster{owner: foreignOwner, phase: initializing, initializers: onlyBindings},
			fail:      failOn[*corev1alpha1.LogicalCluster]("update", apierrors.NewConflict(logicalClusters, "cluster", errors.New("changed"))),
			want:      result{Requeue: true, Path: path, Reason: "ServiceAccountRewritten"},
			wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"without the permission for the next step the owner is not rewritten": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: onlyBindings},
			fail:    failOn[*rbacv1.ClusterRoleBinding]("get", apierrors.NewForbidden(bindings, workspaceAdmin, errors.New("no rule"))),
			want:    result{Outcome: Failed, Path: path, Reason: "ServiceAccountRewritten"}, wantAfter: after{Owner: bareName, BindingsLabel: true},
			wantError: `change the owner of root:orgs:child: read ClusterRoleBinding workspace-admin: clusterrolebindings.rbac.authorization.k8s.io "workspace-admin" is forbidden: no rule ` +
				"(LogicalClusters are read and written as the group system:kcp:external-logical-cluster-admin, and workspace-admin is read with the permissions of `warrantgate install kcp --shard-kubeconfig`)",
		},
		"the Workspace cannot be read": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: onlyBindings}, fail: failOnce(failOn[*tenancyv1alpha1.Workspace]("get", errors.New("no shard"))),
			want: result{Outcome: Failed, Path: path}, wantAfter: after{Owner: bareName, BindingsLabel: true},
			wantError: "compare the owner of root:orgs:child: read the Workspace: no shard",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !tc.cluster.rewritten.IsZero() { // the cases before may have taken longer than an adoption may
				tc.cluster.rewritten = tc.cluster.rewritten.Add(time.Since(now))
			}
			clients := fakeKCP(t, tc.cluster, tc.fail)
			steps := &Steps{LogicalClusters: clients, Workspaces: clients, WorkspaceOf: childIn(clients), DryRun: tc.dryRun}
			got, err := steps.Run(t.Context(), theCluster)
			if message := textOf(err); message != tc.wantError {
				t.Errorf("Run() error = %q, want %q", message, tc.wantError)
			}
			if diff := cmp.Diff(tc.want, result{
				Outcome: got.Outcome, Rewritten: got.Rewritten, Requeue: got.RequeueAfter > 0, Path: got.Path, Reason: string(got.Report.Reason),
			}); diff != "" {
				t.Errorf("Run() (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantAfter, stateOf(t, clients)); diff != "" {
				t.Errorf("afterwards (-want +got):\n%s", diff)
			}
		})
	}
}

// Only the warrant is dropped, wherever kcp records the owner.
func TestStepsDropOnlyTheWarrant(t *testing.T) {
	for name, newKCP := range map[string]bool{"kcp before v0.32": false, "kcp v0.32": true} {
		t.Run(name, func(t *testing.T) {
			clients := fakeKCP(t, cluster{owner: lentOwner, phase: corev1alpha1.LogicalClusterPhaseInitializing, newKCP: newKCP}, nil)
			if _, err := (&Steps{LogicalClusters: clients, Workspaces: clients, WorkspaceOf: childIn(clients)}).Run(t.Context(), theCluster); err != nil {
				t.Fatal(err)
			}
			var lc corev1alpha1.LogicalCluster
			inCluster, _ := clients(logicalcluster.NewPath(theCluster))
			if err := inCluster.Get(t.Context(), client.ObjectKey{Name: "cluster"}, &lc); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{localOwner, localOwner}, []string{kcp.RecordedOwner(&lc), lc.Annotations[kcp.OwnerAnnotation]}); diff != "" {
				t.Errorf("owner (-want +got):\n%s", diff)
			}
		})
	}
}

// All steps lead from a foreign owner to a corrected one, also if each is run by another replica.
func TestStepsInOrder(t *testing.T) {
	clients := fakeKCP(t, cluster{
		owner: foreignOwner, phase: corev1alpha1.LogicalClusterPhaseInitializing, initializers: onlyBindings, admins: []string{bareName},
	}, nil)
	run := func() Result {
		t.Helper()
		result, err := (&Steps{LogicalClusters: clients, Workspaces: clients}).Run(t.Context(), theCluster)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if got := run(); !got.Rewritten || got.RequeueAfter != shortestPoll {
		t.Errorf("first %+v, want the owner rewritten", got)
	}
	if got := run(); got.Rewritten || got.Outcome != "" || got.RequeueAfter < shortestPoll {
		t.Errorf("then %+v, want to wait for kcp", got)
	}
	inCluster, _ := clients(logicalcluster.NewPath(theCluster))
	binding := cluster{admins: []string{globalName}}.workspaceAdmin()
	if err := inCluster.Update(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	if got := run(); got.Outcome != Corrected {
		t.Errorf("once kcp has adopted it %+v, want corrected", got)
	}
	if got := run(); got.Outcome != Fine {
		t.Errorf("at last %+v, want fine", got)
	}
}

func TestNotifyWorkspace(t *testing.T) {
	const initializing, ready = corev1alpha1.LogicalClusterPhaseInitializing, corev1alpha1.LogicalClusterPhaseReady
	for name, tc := range map[string]struct {
		cluster   cluster
		dryRun    bool
		fail      func(string, client.Object) error
		want      bool
		wantError string
	}{
		"Ready, on kcp before v0.32":      {cluster: cluster{owner: localOwner, phase: ready}, want: true},
		"Ready, on kcp v0.32":             {cluster: cluster{owner: localOwner, phase: ready, newKCP: true}},
		"not Ready":                       {cluster: cluster{owner: localOwner, phase: initializing}},
		"a dry run":                       {cluster: cluster{owner: localOwner, phase: ready}, dryRun: true},
		"the Workspace cannot be written": {cluster: cluster{owner: localOwner, phase: ready}, fail: failOn[*tenancyv1alpha1.Workspace]("patch", errors.New("no shard")), wantError: "no shard"},
	} {
		t.Run(name, func(t *testing.T) {
			clients := fakeKCP(t, tc.cluster, tc.fail)
			steps := &Steps{LogicalClusters: clients, Workspaces: clients, WorkspaceOf: childIn(clients), DryRun: tc.dryRun}
			result, err := steps.Run(t.Context(), theCluster)
			if err != nil || result.Outcome != Fine {
				t.Fatalf("Run() = %+v, %v", result, err)
			}
			if message := textOf(steps.notifyWorkspace(t.Context(), result)); message != tc.wantError {
				t.Errorf("notifyWorkspace() error = %q, want %q", message, tc.wantError)
			}
			if got := stateOf(t, clients).WorkspaceMarked; got != tc.want {
				t.Errorf("annotated: %t, want %t", got, tc.want)
			}
		})
	}
}

// failOnce fails the first time that fail does.
func failOnce(fail func(string, client.Object) error) func(string, client.Object) error {
	failed := false
	return func(verb string, object client.Object) error {
		err := fail(verb, object)
		if err == nil || failed {
			return nil
		}
		failed = true
		return err
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
