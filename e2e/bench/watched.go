package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
)

const (
	workspaceSlopeBound   = 8
	memoryAfterwardsBound = 1
	// few and many are the numbers of stuck workspaces at the two measurements.
	few, many = 100, 1000
	// calm is the time without a growth of the memory before a measurement.
	calm = 10 * time.Second
)

// measureWatched measures the memory of a stuck workspace in a serve that only reports it. This is the worst case: serve drops a
// workspace from memory when it is repaired or Ready.
func measureWatched(ctx context.Context, out *figures) (err error) {
	h, err := startRepairs(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	w, err := h.warrantgate(ctx, "repair: {mode: Warn, after: 1s}\n")
	if err != nil {
		return err
	}
	if err := w.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()

	var memory []float64 // with few and with many
	for _, batch := range []struct{ from, to int }{{0, few}, {few, many}} {
		progress("stuck workspaces: %d", batch.to)
		if err := h.race.createAll(ctx, h.race.serviceAccount, "watched", batch.from, batch.to, corev1alpha1.LogicalClusterPhaseInitializing); err != nil {
			return err
		}
		mebibytes, err := h.memoryWith(ctx, w, batch.to)
		if err != nil {
			return err
		}
		memory = append(memory, mebibytes)
	}
	out.atMost("workspace_slope_kib", (memory[1]-memory[0])*1024/(many-few), "KiB", workspaceSlopeBound)

	progress("stuck workspaces: 0")
	admin, err := kcptest.NewClient(h.kcp.Admin(arena))
	if err != nil {
		return err
	}
	if err := deleteWorkspaces(ctx, admin); err != nil {
		return err
	}
	afterwards, err := h.memoryWith(ctx, w, 0)
	if err != nil {
		return err
	}
	out.atMost("memory_after_deletion_mib", afterwards-memory[1], "MiB", memoryAfterwardsBound)
	return nil
}

// deleteWorkspaces deletes all of them, several at a time: a deletion of all at once would exceed the timeout of a request.
func deleteWorkspaces(ctx context.Context, c client.Client) error {
	var all tenancyv1alpha1.WorkspaceList
	if err := c.List(ctx, &all); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range all.Items {
		group.Go(func() error { return client.IgnoreNotFound(c.Delete(ctx, &all.Items[i])) })
	}
	return group.Wait()
}

// memoryWith waits until serve knows a number of stuck workspaces and has reported each, and until its memory is stable.
func (h *repairs) memoryWith(ctx context.Context, w *kcptest.Warrantgate, stuckCount int) (float64, error) {
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		stuck, err := w.Metric(ctx, "warrantgate_stuck_workspaces", nil)
		if err != nil {
			return false, err
		}
		reported, err := w.Metric(ctx, "warrantgate_repairs_total", map[string]string{"outcome": "foreign"})
		return stuck == float64(stuckCount) && reported >= float64(stuckCount), err
	})
	if err != nil {
		return 0, fmt.Errorf("wait until serve knows %d stuck workspaces: %w", stuckCount, err)
	}
	var highest float64
	since := time.Now()
	err = wait.PollUntilContextCancel(ctx, time.Second, true, func(context.Context) (bool, error) {
		now, err := residentMebibytes(w.PID())
		if now > highest {
			highest, since = now, time.Now()
		}
		return time.Since(since) > calm, err
	})
	return highest, err
}
