package owner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/kcp"
)

const (
	// workspaceAdmin is the ClusterRoleBinding that kcp updates to name the recorded owner.
	workspaceAdmin = "workspace-admin"

	// shortestPoll and longestPoll limit the time between two reads while kcp adopts an owner. After adoptionTimeout without an adoption, the
	// result is an error.
	shortestPoll, longestPoll = 10 * time.Millisecond, time.Second
	adoptionTimeout           = 15 * time.Second
	// conflictDelay is how long a run waits after another client updated the LogicalCluster.
	conflictDelay = 50 * time.Millisecond
)

// Outcome is the result of the steps on a logical cluster. Its values are stable: they are in metrics and output.
type Outcome string

// The outcomes. As long as the steps are to be continued, there is none.
const (
	// Corrected: the owner was rewritten or lost a warrant, and system:apibindings was retriggered if it was pending.
	Corrected Outcome = "repaired"
	// Foreign: the owner would be rewritten or lose a warrant, but this is a dry run.
	Foreign Outcome = "foreign"
	// Fine: kcp can act as the owner. If the workspace is stuck, it is for another reason.
	Fine Outcome = "fine"
	// Retriggered: the owner is correct and nothing is missing any more, so system:apibindings was retriggered.
	Retriggered Outcome = "retriggered"
	// Waiting: the owner is foreign, but the workspace is neither Initializing nor Ready.
	Waiting Outcome = "waiting"
	// NotCorrectable: the owner cannot be rewritten, for example because its home is no longer recorded.
	NotCorrectable Outcome = "not-correctable"
	// Differs: the owner is not the one that kcp recorded on the Workspace. Another client changed it, so it is not rewritten.
	Differs Outcome = "differs"
	// Gone: the logical cluster does not exist any more.
	Gone Outcome = "gone"
	// Failed: an error.
	Failed Outcome = "failed"
)

// Result is what one run of the steps found and did.
type Result struct {
	// Cluster is the logical cluster, and Path the workspace's path if kcp records it.
	Cluster logicalcluster.Name
	Path    string
	// Phase is the phase of the LogicalCluster.
	Phase corev1alpha1.LogicalClusterPhaseType
	// Outcome is empty if the steps are to be continued.
	Outcome Outcome
	// RequeueAfter is when to continue.
	RequeueAfter time.Duration
	// Rewritten reports whether this run rewrote the owner.
	Rewritten bool
	// Report is what package identity says about the owner.
	Report identity.Report

	lc *logicalCluster
	// owner is the owner that a run would write, if this is a dry run and a run would write one.
	owner *identity.Owner
}

// healthy reports whether there is nothing to report.
func (r Result) healthy() bool {
	return r.Outcome == Fine && r.Phase == corev1alpha1.LogicalClusterPhaseReady
}

// mayLack reports whether the owner is correct, or will be once it is rewritten, so that only another cause may be left.
func (r Result) mayLack() bool { return r.Outcome == Fine || r.Outcome == Foreign }

// differs sets the outcome Differs, with a message.
func (r *Result) differs(message string) {
	r.Outcome, r.Report = Differs, identity.Report{Reason: events.OwnerDiffers, Message: message}
}

// Steps corrects the owner of logical clusters.
type Steps struct {
	// LogicalClusters reads and writes LogicalClusters. kcp allows only the group system:kcp:external-logical-cluster-admin to write
	// their owner.
	LogicalClusters kcp.Clients
	// Workspaces reads the ClusterRoleBinding workspace-admin, and reads and annotates Workspaces.
	Workspaces kcp.Clients
	// WorkspaceOf is Shards.WorkspaceOf. A service account may read Workspaces outside its home only so.
	WorkspaceOf func(ctx context.Context, cluster logicalcluster.Name, owner *corev1alpha1.LogicalClusterOwner) (*tenancyv1alpha1.Workspace, error)
	// Policy says which delegations are kept.
	Policy identity.Policy
	// DryRun is whether to write nothing.
	DryRun bool
}

// step reads what it needs, does one thing, and returns when to run the steps again if it has to wait. It does nothing if an earlier
// one decided on the outcome.
type step struct {
	name string // continued by the path of the workspace
	run  func(context.Context, *state) (wait time.Duration, err error)
}

// state is what the steps of one run share.
type state struct {
	result Result
	// parent is the logical cluster that contains the Workspace, empty if it was not read.
	parent logicalcluster.Name
	dryRun bool
}

var errNotAdopted = errors.New("kcp has not yet adopted the new owner in the ClusterRoleBinding workspace-admin")

// Run runs the steps on a logical cluster, as far as possible without waiting.
func (s *Steps) Run(ctx context.Context, cluster logicalcluster.Name) (Result, error) {
	return s.run(ctx, cluster, s.DryRun)
}

func (s *Steps) run(ctx context.Context, cluster logicalcluster.Name, dryRun bool) (Result, error) {
	return (&state{dryRun: dryRun, result: Result{Cluster: cluster, Path: cluster.String()}}).run(ctx,
		step{"read the LogicalCluster of", s.read},
		step{"compare the owner of", s.compareOwner},
		step{"change the owner of", s.rewriteOwner},
		step{"wait for kcp to adopt the owner of", s.awaitAdoption},
		step{"retrigger the initialization of", s.retrigger},
	)
}

// run runs steps until one of them has to wait, or decides on the outcome.
func (st *state) run(ctx context.Context, steps ...step) (Result, error) {
	for _, step := range steps {
		wait, err := step.run(ctx, st)
		switch {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err): // kcp updates LogicalClusters, too; the next run reads it again
			wait = conflictDelay
		case err != nil:
			st.result.Outcome = Failed
			return st.result, explain(step.name, st.result.Path, err)
		}
		if wait > 0 {
			st.result.Outcome, st.result.RequeueAfter = "", wait
			return st.result, nil
		}
		if st.result.Outcome != "" {
			return st.result, nil
		}
	}
	return st.result, nil
}

func (s *Steps) read(ctx context.Context, st *state) (wait time.Duration, err error) {
	cluster := st.result.Cluster
	c, err := s.LogicalClusters(cluster.Path())
	if err != nil {
		return 0, err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(logicalClusterGVK)
	if err := c.Get(ctx, client.ObjectKey{Name: corev1alpha1.LogicalClusterName}, object); apierrors.IsNotFound(err) {
		st.result.Outcome = Gone
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	lc, err := newLogicalCluster(cluster, object)
	if err != nil {
		return 0, err
	}
	lc.client = c
	st.result.lc, st.result.Path, st.result.Phase = lc, lc.path(), lc.typed.Status.Phase
	return 0, nil
}

// located returns a result without its path if that does not lead to the logical cluster: the administrator of a workspace can write another path into
// its LogicalCluster.
func (s *Steps) located(ctx context.Context, result Result) Result {
	c, err := s.LogicalClusters(logicalcluster.NewPath(result.Path))
	var there corev1alpha1.LogicalCluster
	if err == nil {
		err = c.Get(ctx, client.ObjectKey{Name: corev1alpha1.LogicalClusterName}, &there)
	}
	if err != nil || logicalcluster.From(&there) != result.Cluster {
		result.Path = result.Cluster.String()
	}
	return result
}

// compareOwner checks that the owner of a LogicalCluster comes from its Workspace. The administrator of the workspace can change both this owner
// and spec.owner, which names the Workspace. From v0.32 on kcp denies that for spec.createdBy, but admission that the administrator registers there
// can still change kcp's own updates.
func (s *Steps) compareOwner(ctx context.Context, st *state) (time.Duration, error) {
	lc := st.result.lc
	ws, err := s.namedWorkspace(ctx, lc)
	switch {
	case err != nil:
		return 0, err
	case ws == nil:
		st.result.differs("spec.owner of the LogicalCluster does not name its Workspace, so the recorded owner cannot be compared: it was changed there")
		return 0, nil
	}
	st.parent = logicalcluster.Name(lc.typed.Spec.Owner.Cluster)
	recorded, acting := ws.Annotations[kcp.OwnerAnnotation], kcp.RecordedOwner(&lc.typed)
	// Either can be Ready first. The owner of a parent can write the phase of the Workspace, but kcp does so only once there is no initializer left.
	ready := lc.isReady() || ws.Status.Phase == corev1alpha1.LogicalClusterPhaseReady && len(lc.typed.Status.Initializers) == 0
	if !identity.SameOwner(recorded, acting, st.parent, lc.name, lc.typed.Annotations[kcp.RequiredGroupsAnnotation], ready) {
		st.result.differs(identity.DescribeDifference(recorded, acting))
	}
	return 0, nil
}

// namedWorkspace returns the Workspace that spec.owner of a LogicalCluster names, nil if it is not that of the logical cluster.
func (s *Steps) namedWorkspace(ctx context.Context, lc *logicalCluster) (*tenancyv1alpha1.Workspace, error) {
	of := lc.typed.Spec.Owner
	if of == nil || kcp.ValidateName(logicalcluster.Name(of.Cluster)) != nil {
		return nil, nil //nolint:nilerr // no Workspace is in a logical cluster of such a name
	}
	if lc.typed.Spec.CreatedBy != nil {
		return s.WorkspaceOf(ctx, lc.name, of)
	}
	c, err := s.Workspaces(logicalcluster.NewPath(of.Cluster))
	if err != nil {
		return nil, err
	}
	var ws tenancyv1alpha1.Workspace
	if err := client.IgnoreNotFound(c.Get(ctx, client.ObjectKey{Name: of.Name}, &ws)); err != nil {
		return nil, fmt.Errorf("read the Workspace: %w", err)
	}
	if ws.UID != of.UID || clusterOf(&ws) != lc.name {
		return nil, nil
	}
	return &ws, nil
}

func (s *Steps) rewriteOwner(ctx context.Context, st *state) (time.Duration, error) {
	lc := st.result.lc
	owner, report := identity.Rewrite(kcp.RecordedOwner(&lc.typed), st.parent, lc.name, lc.typed.Annotations[kcp.RequiredGroupsAnnotation], s.Policy)
	st.result.Report = report
	_, pending := lc.rewrittenAt()
	// kcp acts as the owner of a Ready workspace only for terminators, so its warrants stay.
	switch change := report.Reason.Rewritten() || report.Changed() && !lc.isReady(); {
	case !report.Reason.Harmless() && (!change || st.dryRun):
		st.result.Outcome = NotCorrectable
		return 0, nil
	case !change && !pending:
		st.result.Outcome = Fine
		return 0, nil
	case !lc.mayBeRewritten():
		st.result.Outcome = Waiting
		return 0, nil
	case st.dryRun:
		st.result.Outcome = Foreign
		if change {
			st.result.owner = &owner
		}
		return 0, nil
	case !change:
		return 0, nil
	}
	if err := s.writeOwner(ctx, st, owner); err != nil || st.result.Outcome != "" {
		return 0, err
	}
	st.result.Rewritten = true
	return shortestPoll, nil
}

// writeOwner writes a LogicalCluster with another owner, or only tries to on a dry run.
func (s *Steps) writeOwner(ctx context.Context, st *state, owner identity.Owner) error {
	lc := st.result.lc
	// The next step needs this permission. Without it the owner is not rewritten.
	if _, err := s.admins(ctx, lc.name); err != nil {
		return err
	}
	if err := lc.setOwner(owner, time.Now()); err != nil {
		return err
	}
	changed, err := lc.update(ctx, st.dryRun)
	if err == nil && changed != "" {
		st.result.differs(changed)
	}
	return err
}

// tryOut sends the first write of a run as a dry run, after the steps have found that a run would change the owner. So the command repair
// reports what would deny the write.
func (s *Steps) tryOut(ctx context.Context, result Result) (Result, error) {
	if result.owner == nil { // a run continues an earlier one
		return result, nil
	}
	return (&state{dryRun: true, result: result}).run(ctx, step{"change the owner of", func(ctx context.Context, st *state) (time.Duration, error) {
		return 0, s.writeOwner(ctx, st, *result.owner)
	}})
}

// awaitAdoption waits until workspace-admin names the owner. If kcp acted as the owner before, its request would be denied, and kcp would
// not retry for a while.
func (s *Steps) awaitAdoption(ctx context.Context, st *state) (time.Duration, error) {
	lc := st.result.lc
	owner, err := identity.ParseOwner(kcp.RecordedOwner(&lc.typed))
	if err != nil {
		return 0, err
	}
	admins, err := s.admins(ctx, lc.name)
	if err != nil || admins.Has(owner.Username) {
		return 0, err
	}
	at, _ := lc.rewrittenAt()
	since := time.Since(at)
	if since.Abs() > adoptionTimeout { // it may also be in the future: others can write it
		return 0, errNotAdopted
	}
	return min(max(since/4, shortestPoll), longestPoll), nil
}

// admins returns the users that workspace-admin names, none if it does not exist yet.
func (s *Steps) admins(ctx context.Context, cluster logicalcluster.Name) (sets.Set[string], error) {
	c, err := s.Workspaces(cluster.Path())
	if err != nil {
		return nil, err
	}
	var binding rbacv1.ClusterRoleBinding
	if err := c.Get(ctx, client.ObjectKey{Name: workspaceAdmin}, &binding); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read ClusterRoleBinding %s: %w", workspaceAdmin, err)
	}
	users := sets.New[string]()
	for _, subject := range binding.Subjects {
		if subject.Kind == rbacv1.UserKind {
			users.Insert(subject.Name)
		}
	}
	return users, nil
}

func (s *Steps) retrigger(ctx context.Context, st *state) (time.Duration, error) {
	st.result.lc.retrigger()
	changed, err := st.result.lc.update(ctx, st.dryRun)
	if err != nil {
		return 0, err
	}
	st.result.Outcome = Corrected
	if changed != "" {
		st.result.differs(changed)
	}
	return 0, nil
}

// retry retriggers system:apibindings in a logical cluster whose owner is correct. From v0.31 on kcp does not try again by itself when a
// missing permission is granted.
func (s *Steps) retry(ctx context.Context, result Result) (Result, error) {
	result, err := (&state{dryRun: s.DryRun, result: result}).run(ctx, step{"retrigger the initialization of", s.retrigger})
	if result.Outcome == Corrected {
		result.Outcome = Retriggered
	}
	return result, err
}

// notifyWorkspace annotates a Workspace that is still Initializing although its logical cluster is Ready. kcp before v0.32 compares
// the two only when the Workspace changes and at intervals of a fifth of its age, up to ten minutes. Later versions compare them at once.
func (s *Steps) notifyWorkspace(ctx context.Context, result Result) error {
	lc := result.lc
	if s.DryRun || lc == nil || !lc.isReady() || lc.typed.Spec.CreatedBy != nil || lc.typed.Spec.Owner == nil {
		return nil
	}
	c, err := s.Workspaces(logicalcluster.NewPath(lc.typed.Spec.Owner.Cluster))
	if err != nil {
		return err
	}
	var ws tenancyv1alpha1.Workspace
	if err := c.Get(ctx, client.ObjectKey{Name: lc.typed.Spec.Owner.Name}, &ws); err != nil {
		return client.IgnoreNotFound(err)
	}
	if ws.Status.Phase != corev1alpha1.LogicalClusterPhaseInitializing || ws.Spec.Cluster != lc.name.String() {
		return nil
	}
	before := ws.DeepCopy()
	metav1.SetMetaDataAnnotation(&ws.ObjectMeta, kcp.RepairedAtAnnotation, time.Now().UTC().Format(time.RFC3339Nano))
	return client.IgnoreNotFound(c.Patch(ctx, &ws, client.MergeFrom(before)))
}

// ErrMayNotWriteOwner is the error for a user who may update LogicalClusters, but not their owner. That of kcp has the whole owner.
var ErrMayNotWriteOwner = errors.New("kcp v0.32 and later lets only members of the groups system:kcp:external-logical-cluster-admin and " +
	"system:masters change the owner (spec.createdBy)")

// explain names the missing permission if a request was denied.
func explain(what, where string, err error) error {
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "spec.createdBy: ") {
		return fmt.Errorf("%s %s: %w", what, where, ErrMayNotWriteOwner)
	}
	err = fmt.Errorf("%s %s: %w", what, where, err)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w (LogicalClusters are read and written as the group system:kcp:external-logical-cluster-admin, and "+
			"workspace-admin is read with the permissions of `warrantgate install kcp --shard-kubeconfig`)", err)
	}
	return err
}
