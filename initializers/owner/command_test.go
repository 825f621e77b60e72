package owner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// adopting lets kcp adopt an owner as soon as workspace-admin has been read twice.
func adopting(t *testing.T, c cluster) (clients func(logicalcluster.Path) (client.Client, error)) {
	t.Helper()
	reads := 0
	kcp := fakeKCP(t, c, func(verb string, object client.Object) error {
		if _, isBinding := object.(*rbacv1.ClusterRoleBinding); verb == "get" && isBinding {
			reads++
		}
		return nil
	})
	return func(path logicalcluster.Path) (client.Client, error) {
		c, err := kcp(path)
		if err == nil && reads == 2 {
			reads++
			err = c.Update(t.Context(), cluster{admins: []string{globalName}}.workspaceAdmin())
		}
		return c, err
	}
}

func TestRepairOne(t *testing.T) {
	stuckCluster := cluster{
		owner: foreignOwner, phase: corev1alpha1.LogicalClusterPhaseInitializing, initializers: onlyBindings, admins: []string{bareName},
	}
	for name, tc := range map[string]struct {
		cluster    cluster
		under      string
		dryRun     bool
		want       Outcome
		wantReason string
		wantAfter  after
	}{
		"runs all steps, and reports the rewrite": {
			cluster: stuckCluster, want: Corrected, wantReason: "ServiceAccountRewritten", wantAfter: after{Owner: globalName},
		},
		"is within the part of the tree": {
			cluster: stuckCluster, under: "root:orgs", want: Corrected, wantReason: "ServiceAccountRewritten", wantAfter: after{Owner: globalName},
		},
		"is in another part of the tree, and claims a path in this one": {
			cluster: claiming(stuckCluster, "root:others:child"), under: "root:others", want: Foreign, wantReason: "ServiceAccountRewritten",
			wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"is in a part of the tree whose name only begins alike": {
			cluster: stuckCluster, under: "root:org", want: Foreign, wantReason: "ServiceAccountRewritten",
			wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"is in another part of the tree": {
			cluster: stuckCluster, under: "root:others", want: Foreign, wantReason: "ServiceAccountRewritten",
			wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"writes nothing on a dry run": {
			cluster: stuckCluster, dryRun: true, want: Foreign, wantReason: "ServiceAccountRewritten",
			wantAfter: after{Owner: bareName, BindingsLabel: true},
		},
		"continues after an interruption": {
			cluster: cluster{
				owner: rewrittenOwner, phase: corev1alpha1.LogicalClusterPhaseInitializing, initializers: onlyBindings,
				rewritten: time.Now().Add(-time.Hour), admins: []string{globalName},
			},
			want: Corrected, wantReason: "InScope", wantAfter: after{Owner: globalName},
		},
	} {
		t.Run(name, func(t *testing.T) {
			clients := adopting(t, tc.cluster)
			repair := &Repair{Steps: &Steps{LogicalClusters: clients, Workspaces: clients, DryRun: tc.dryRun}}
			got, err := repair.repairOne(t.Context(), theCluster, subtree{path: tc.under})
			if err != nil || got.Outcome != tc.want || string(got.Report.Reason) != tc.wantReason {
				t.Errorf("repairOne() = %+v, %v, want %s because of %s", got, err, tc.want, tc.wantReason)
			}
			if after := stateOf(t, clients); after != tc.wantAfter {
				t.Errorf("afterwards %+v, want %+v", after, tc.wantAfter)
			}
		})
	}
}

// claiming returns a logical cluster whose administrator has written another path.
func claiming(c cluster, path string) cluster {
	c.claims = path
	return c
}

// TestDryRunReportsWhatARunDoes: a dry run has the outcome of a run, but for a rewrite, and writes nothing.
func TestDryRunReportsWhatARunDoes(t *testing.T) {
	const initializing = corev1alpha1.LogicalClusterPhaseInitializing
	denied := apierrors.NewForbidden(logicalClusters, "cluster", errors.New(`spec.createdBy: Invalid value: {"username":"`+globalName+`"}: field is immutable`))
	for name, tc := range map[string]struct {
		cluster    cluster
		fail       func(string, client.Object) error
		want       Outcome
		wantDryRun Outcome
		wantErr    string
	}{
		"an owner that is foreign": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: onlyBindings, admins: []string{globalName}}, want: Corrected, wantDryRun: Foreign,
		},
		"an owner that may not be written": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: onlyBindings, admins: []string{bareName}},
			fail:    failOn[*corev1alpha1.LogicalCluster]("update", denied), want: Failed, wantDryRun: Failed, wantErr: ErrMayNotWriteOwner.Error(),
		},
		"administrators that may not be read": {
			cluster: cluster{owner: foreignOwner, phase: initializing, initializers: onlyBindings, admins: []string{bareName}},
			fail:    failOn[*rbacv1.ClusterRoleBinding]("get", apierrors.NewForbidden(bindings, workspaceAdmin, nil)), want: Failed, wantDryRun: Failed, wantErr: "read ClusterRoleBinding workspace-admin",
		},
		"nothing is missing any more": {
			cluster: cluster{owner: localOwner, phase: initializing, initializers: onlyBindings, allowed: true}, want: Retriggered, wantDryRun: Retriggered,
		},
		"nothing is missing any more, and it may not be retriggered": {
			cluster: cluster{owner: localOwner, phase: initializing, initializers: onlyBindings, allowed: true},
			fail:    failOn[*corev1alpha1.LogicalCluster]("update", denied), want: Failed, wantDryRun: Failed, wantErr: ErrMayNotWriteOwner.Error(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			for dryRun, want := range map[bool]Outcome{false: tc.want, true: tc.wantDryRun} {
				clients := fakeKCP(t, tc.cluster, tc.fail)
				before := stateOf(t, clients)
				repair := &Repair{Steps: &Steps{LogicalClusters: clients, Workspaces: clients, DryRun: dryRun}}
				got, err := repair.repairOne(t.Context(), theCluster, subtree{})
				if got.Outcome != want || (err != nil) != (tc.wantErr != "") || !strings.Contains(fmt.Sprint(err), tc.wantErr) {
					t.Errorf("dry run %t: repairOne() = %s, %v, want %s, %q", dryRun, got.Outcome, err, want, tc.wantErr)
				}
				if after := stateOf(t, clients); dryRun && after != before {
					t.Errorf("the dry run has written: %+v, before %+v", after, before)
				}
			}
		})
	}
}

func TestRepairOneEndsWithItsContext(t *testing.T) {
	clients := fakeKCP(t, cluster{
		owner: foreignOwner, phase: corev1alpha1.LogicalClusterPhaseInitializing, initializers: onlyBindings, admins: []string{bareName},
	}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	got, err := (&Repair{Steps: &Steps{LogicalClusters: clients, Workspaces: clients}}).repairOne(ctx, theCluster, subtree{})
	if got.Outcome != Failed || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("repairOne() = %+v, %v, want it to fail", got, err)
	}
}

func TestAwaitReady(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster    cluster
		wantMarked bool
	}{
		"until it is Ready":                         {cluster{owner: localOwner, phase: corev1alpha1.LogicalClusterPhaseReady}, true},
		"not if initializers of others are pending": {cluster{owner: localOwner, phase: corev1alpha1.LogicalClusterPhaseInitializing, initializers: onlyOthers}, false},
		"not if it was deleted":                     {cluster{gone: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			clients := fakeKCP(t, tc.cluster, nil)
			repair := &Repair{Steps: &Steps{LogicalClusters: clients, Workspaces: clients}}
			repair.awaitReady(t.Context(), theCluster)
			if got := stateOf(t, clients).WorkspaceMarked; got != tc.wantMarked {
				t.Errorf("annotated: %t, want %t", got, tc.wantMarked)
			}
		})
	}
}
