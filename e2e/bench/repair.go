package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"time"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kcptest"
)

const (
	initializerReadyBound = 1.5
	repairRateBound       = 1.3

	// initializations counts the workspaces that the initializer processed.
	initializations = "warrantgate_initializations_total"
	// repaired is the number of workspaces to repair.
	repaired = 200
	// creators is the number of concurrent creations of workspaces.
	creators = 8
)

// withoutGates enables only the repair and the initializer.
const withoutGates = `apiVersion: config.warrantgate.dev/v1beta1
kind: GateConfiguration
workspace:
  ownerRewrite: {mode: "Off"}
  ownerIntegrity: {mode: "Off"}
`

// repairs is a kcp without webhooks, and a warrantgate that repairs its workspaces.
type repairs struct {
	kcp              *kcptest.Server
	race             *race
	binary           string
	reading, writing string
}

// measureRepairs measures the initializer and the repair, for workspaces that no webhook has reviewed.
func measureRepairs(ctx context.Context, out *figures) (err error) {
	h, err := startRepairs(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	if err := h.measureInitializer(ctx, out); err != nil {
		return err
	}
	return h.measureRepair(ctx, out)
}

func startRepairs(ctx context.Context) (*repairs, error) {
	kcp, err := startKCP(ctx)
	if err != nil {
		return nil, err
	}
	h := &repairs{kcp: kcp}
	if err := h.prepare(ctx); err != nil {
		return nil, errors.Join(err, h.stop())
	}
	return h, nil
}

func (h *repairs) prepare(ctx context.Context) (err error) {
	if h.binary, err = asset.Path(asset.Warrantgate); err != nil {
		return err
	}
	if h.reading, err = h.kcp.KubeconfigFile("reading", h.kcp.User("root", kcptest.WarrantgateUser)); err != nil {
		return err
	}
	if h.writing, err = h.kcp.KubeconfigFile("writing", h.kcp.User("root", "writer", kcptest.LogicalClusterAdmins)); err != nil {
		return err
	}
	installer, err := h.warrantgate(ctx, "")
	if err != nil {
		return err
	}
	if _, err := installer.InstallOnly(ctx); err != nil {
		return err
	}
	h.race, err = prepareRace(ctx, h.kcp)
	return err
}

func (h *repairs) stop() error {
	if h.race != nil {
		h.race.watch.Stop()
	}
	return h.kcp.Stop()
}

// warrantgate returns a warrantgate with the repair, not started yet.
func (h *repairs) warrantgate(ctx context.Context, repair string) (*kcptest.Warrantgate, error) {
	return kcptest.NewWarrantgate(ctx, h.kcp, kcptest.WarrantgateOptions{
		Binary: h.binary, Configuration: withoutGates + repair, Args: []string{"--logical-cluster-kubeconfig=" + h.writing},
	})
}

// measureInitializer compares the service account's workspaces, whose type extends warranted, with the user's.
func (h *repairs) measureInitializer(ctx context.Context, out *figures) (err error) {
	admin, err := kcptest.NewClient(h.kcp.Admin(arena))
	if err != nil {
		return err
	}
	extending := &tenancyv1alpha1.WorkspaceType{
		ObjectMeta: metav1.ObjectMeta{Name: "extending"},
		Spec: tenancyv1alpha1.WorkspaceTypeSpec{Extend: tenancyv1alpha1.WorkspaceTypeExtension{
			With: []tenancyv1alpha1.WorkspaceTypeReference{{Path: "root", Name: "universal"}, {Path: "root", Name: "warranted"}},
		}},
	}
	if err := admin.Create(ctx, extending); err != nil {
		return err
	}
	w, err := h.warrantgate(ctx, "repair: {after: 1h}\n")
	if err != nil {
		return err
	}
	if err := w.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()

	serviceAccount, user, err := h.race.run(ctx, w, initializations, kcptest.OfType(arena, extending.Name))
	if err != nil {
		return err
	}
	out.atMost("initializer_ready_ratio", median(serviceAccount)/median(user), "ratio", initializerReadyBound)
	return nil
}

// measureRepair compares the rate at which "warrantgate repair" makes stuck workspaces Ready with the rate at which this kcp makes a
// user's workspaces Ready. One half of the latter is before the repair and one half after it, because kcp gets slower with the
// number of workspaces. Each part begins when kcp is calm: it retries the setup of stuck workspaces with exponential backoff, and at
// most ten times a second.
func (h *repairs) measureRepair(ctx context.Context, out *figures) error {
	progress("repair: %d stuck workspaces", repaired)
	if err := h.race.createAll(ctx, h.race.serviceAccount, "stuck", 0, repaired, corev1alpha1.LogicalClusterPhaseInitializing); err != nil {
		return err
	}
	if err := h.awaitCalm(ctx); err != nil {
		return err
	}
	var user, repair time.Duration // each for the same number of workspaces
	for _, part := range []struct {
		took *time.Duration
		what string
		do   func() error
	}{
		{&user, "a user's, the first half", h.making(ctx, 0, repaired/2)},
		{&repair, "all stuck workspaces", h.repairing(ctx)},
		{&user, "a user's, the second half", h.making(ctx, repaired/2, repaired)},
	} {
		progress("repair: %s", part.what)
		start := time.Now()
		if err := part.do(); err != nil {
			return err
		}
		*part.took += time.Since(start)
	}
	out.atLeast("repair_rate_ratio", user.Seconds()/repair.Seconds(), "ratio", repairRateBound)
	return nil
}

// making returns a function that makes some of a user's workspaces Ready.
func (h *repairs) making(ctx context.Context, from, to int) func() error {
	return func() error {
		return h.race.createAll(ctx, h.race.user, "made", from, to, corev1alpha1.LogicalClusterPhaseReady)
	}
}

// repairing returns a function that makes the stuck workspaces Ready.
func (h *repairs) repairing(ctx context.Context) func() error {
	return func() error {
		output, err := exec.CommandContext(ctx, h.binary, "repair", "--after=0s",
			"--kubeconfig="+h.reading, "--logical-cluster-kubeconfig="+h.writing).CombinedOutput()
		if err != nil {
			return fmt.Errorf("repair: %w\n%s", err, output)
		}
		return h.race.await(ctx, "stuck", 0, repaired, corev1alpha1.LogicalClusterPhaseReady)
	}
}

// awaitCalm waits until kcp rarely retries the setup of stuck workspaces.
func (h *repairs) awaitCalm(ctx context.Context) error {
	const period, fewTries = 5 * time.Second, 5
	last := math.Inf(-1)
	return wait.PollUntilContextCancel(ctx, period, true, func(ctx context.Context) (bool, error) {
		now, err := h.kcp.Metric(ctx, "workqueue_retries_total", map[string]string{"name": "kcp-apibinder-initializer"})
		calm := now-last <= fewTries
		last = now
		return calm, err
	})
}

// createAll creates workspaces of a numbered series, several at a time, and waits until all are in a phase.
func (r *race) createAll(ctx context.Context, c client.Client, series string, from, to int, phase corev1alpha1.LogicalClusterPhaseType) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.await(groupCtx, series, from, to, phase) })
	group.Go(func() error {
		var created errgroup.Group
		created.SetLimit(creators)
		for i := from; i < to; i++ {
			created.Go(func() error {
				ws := &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: member(series, i)}}
				universal(ws)
				return c.Create(groupCtx, ws)
			})
		}
		return created.Wait()
	})
	return group.Wait()
}

// await waits until a watch has reported those workspaces of a series in a phase.
func (r *race) await(ctx context.Context, series string, from, to int, phase corev1alpha1.LogicalClusterPhaseType) error {
	missing := sets.New[string]()
	for i := from; i < to; i++ {
		missing.Insert(member(series, i))
	}
	// The watch begins with the existing workspaces.
	watch, err := kcptest.WatchWorkspaces(ctx, r.admin)
	if err != nil {
		return err
	}
	defer watch.Stop()
	for missing.Len() > 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d workspaces %s* are not %s: %w", missing.Len(), to-from, series, phase, ctx.Err())
		case event := <-watch.ResultChan():
			ws, ok := event.Object.(*tenancyv1alpha1.Workspace)
			if !ok {
				return fmt.Errorf("watch workspaces: %s: %v", event.Type, event.Object)
			}
			// The watch selects the label, which kcp sets a moment after the phase.
			if ws.Status.Phase == phase && ws.Labels[tenancyv1alpha1.WorkspacePhaseLabel] == string(phase) {
				missing.Delete(ws.Name)
			}
		}
	}
	return nil
}

func member(series string, i int) string { return fmt.Sprintf("%s-%d", series, i) }
