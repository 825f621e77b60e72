package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kcptest"
)

const (
	workspaceReadyBound = 1.10
	idleMemoryBound     = 24

	// warmUps and pairs are the numbers of workspaces of each of the two creators, unmeasured and measured.
	warmUps, pairs = 5, 30

	// idleTime is how long warrantgate has no work before it counts as idle.
	idleTime = time.Minute

	// admissions counts the calls of warrantgate.
	admissions = "warrantgate_admissions_total"

	// arena is the workspace in which the two creators create workspaces.
	arena = "root:provider"
)

var universal = kcptest.OfType("root", "universal")

// measureWorkspaces measures on a real kcp how much longer a workspace takes to be Ready with the rewrite, and then the memory of
// warrantgate.
func measureWorkspaces(ctx context.Context, out *figures) (err error) {
	kcp, err := startKCP(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kcp.Stop()) }()
	race, err := prepareRace(ctx, kcp)
	if err != nil {
		return err
	}
	defer race.watch.Stop()
	progress("warrantgate is installed and starts")
	warrantgate, err := startWarrantgate(ctx, kcp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, warrantgate.Stop()) }()

	serviceAccount, user, err := race.run(ctx, warrantgate, admissions, universal)
	if err != nil {
		return err
	}
	if err := waitIdle(ctx, warrantgate); err != nil {
		return err
	}
	out.atMost("workspace_ready_ratio", median(serviceAccount)/median(user), "ratio", workspaceReadyBound)

	progress("warrantgate becomes idle")
	select {
	case <-time.After(idleTime):
	case <-ctx.Done():
		return ctx.Err()
	}
	memory, err := anonymousMebibytes(warrantgate.PID())
	if err != nil {
		return err
	}
	out.atMost("idle_anon_mib", memory, "MiB", idleMemoryBound)
	return nil
}

func startKCP(ctx context.Context) (*kcptest.Server, error) {
	progress("kcp starts")
	return kcptest.Start(ctx)
}

// startWarrantgate installs warrantgate with the webhook that rewrites owners, starts it, and waits until it is ready.
func startWarrantgate(ctx context.Context, kcp *kcptest.Server) (*kcptest.Warrantgate, error) {
	binary, err := asset.Path(asset.Warrantgate)
	if err != nil {
		return nil, err
	}
	if binary, err = installed(binary, kcp.Dir()); err != nil {
		return nil, err
	}
	warrantgate, err := kcptest.NewWarrantgate(ctx, kcp, kcptest.WarrantgateOptions{Binary: binary})
	if err != nil {
		return nil, err
	}
	if _, err := warrantgate.Install(ctx, "--rewrite=Webhook"); err != nil {
		return nil, err
	}
	err = warrantgate.Start(ctx)
	return warrantgate, err
}

// installed copies the binary to a directory in small pieces, as a container runtime unpacks an image. Linux keeps a file in memory
// in pieces of the size in which it was written, and maps whole pieces: the file of the linker would count in full, though only a
// part is used, and be up to 16 MiB larger.
func installed(binary, dir string) (_ string, err error) {
	program, err := os.Open(binary)
	if err != nil {
		return "", err
	}
	defer program.Close()
	path := filepath.Join(dir, filepath.Base(binary))
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o700)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	// The anonymous types hide other methods, with which the kernel would copy the file in one piece.
	_, err = io.CopyBuffer(struct{ io.Writer }{file}, struct{ io.Reader }{program}, make([]byte, 32<<10))
	return path, err
}

// race is a user and a service account with the same permissions in one workspace, who create workspaces there.
//
// The user's workspaces are those "without warrantgate", although it is installed: kcp does not call it for them, and the benchmark
// verifies this each time. If warrantgate were uninstalled for the user's half, the two could not take turns, because kcp observes
// admission policies with a delay of seconds. With one half after the other, the two would not see the same kcp: it gets slower with
// every workspace, and faster as it warms up. For a user's request, kcp only evaluates a few conditions of the webhook
// configuration, which takes microseconds.
type race struct {
	admin                *rest.Config
	serviceAccount, user client.Client
	watch                watch.Interface
}

// racer is one of the two.
type racer struct {
	name   string
	client client.Client
	kind   kcptest.WorkspaceOption
	took   *[]float64
	// isRewritten is true if warrantgate must rewrite the owner of its workspaces, and false if it must not.
	isRewritten bool
}

func prepareRace(ctx context.Context, kcp *kcptest.Server) (*race, error) {
	const name, path = "provider", arena
	root := kcp.Admin("root")
	if _, err := kcptest.CreateWorkspace(ctx, root, name); err != nil {
		return nil, err
	}
	if _, err := kcptest.WaitReady(ctx, root, name); err != nil {
		return nil, err
	}
	admin := kcptest.In(root, path)
	account, err := kcptest.ServiceAccount(ctx, admin, metav1.NamespaceDefault, "bot")
	if err != nil {
		return nil, err
	}
	subject := kcptest.ServiceAccountSubject(metav1.NamespaceDefault, "bot")
	if err := kcptest.Grant(ctx, admin, subject, kcptest.CreatorRules()...); err != nil {
		return nil, err
	}
	if err := kcptest.Grant(ctx, admin, kcptest.User("alice"), kcptest.CreatorRules()...); err != nil {
		return nil, err
	}
	r := &race{admin: admin}
	if r.serviceAccount, err = kcptest.NewClient(account); err != nil {
		return nil, err
	}
	if r.user, err = kcptest.NewClient(kcp.User(path, "alice")); err != nil {
		return nil, err
	}
	r.watch, err = kcptest.WatchWorkspaces(ctx, admin)
	return r, err
}

// run returns the milliseconds until each measured workspace was Ready. The two alternate, one workspace at a time, and so does the
// first of a pair. counter is the metric of warrantgate for workspaces of the service account, which are of the type kind.
func (r *race) run(
	ctx context.Context, warrantgate *kcptest.Warrantgate, counter string, kind kcptest.WorkspaceOption,
) (serviceAccount, user []float64, err error) {
	racers := []*racer{
		{name: "user", client: r.user, kind: universal, took: &user},
		{name: "service-account", client: r.serviceAccount, kind: kind, took: &serviceAccount, isRewritten: true},
	}
	for i := range warmUps + pairs {
		if i%5 == 0 {
			progress("workspaces: %d of %d pairs", i, warmUps+pairs)
		}
		for _, racer := range racers {
			before, err := warrantgate.Metric(ctx, counter, nil)
			if err != nil {
				return nil, nil, err
			}
			name := fmt.Sprintf("%s-%d", racer.name, i)
			took, err := r.timeToReady(ctx, racer.client, name, racer.kind)
			if err != nil {
				return nil, nil, err
			}
			after, err := warrantgate.Metric(ctx, counter, nil)
			if err != nil {
				return nil, nil, err
			}
			if called := after > before; called != racer.isRewritten {
				return nil, nil, fmt.Errorf("warrantgate was called for workspace %s: %t", name, called)
			}
			if i >= warmUps {
				*racer.took = append(*racer.took, milliseconds(took))
			}
		}
		slices.Reverse(racers)
	}
	return serviceAccount, user, nil
}

// timeToReady creates a workspace and returns the time until a watch reports it as Ready.
func (r *race) timeToReady(ctx context.Context, c client.Client, name string, kind kcptest.WorkspaceOption) (time.Duration, error) {
	ws := &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	kind(ws)
	start := time.Now()
	if err := c.Create(ctx, ws); err != nil {
		return 0, fmt.Errorf("create workspace %s: %w", name, err)
	}
	for event := range r.watch.ResultChan() {
		seen, ok := event.Object.(*tenancyv1alpha1.Workspace)
		if !ok {
			return 0, fmt.Errorf("watch workspaces: %s: %v", event.Type, event.Object)
		}
		if seen.Name == name && seen.Status.Phase == corev1alpha1.LogicalClusterPhaseReady {
			return time.Since(start), nil
		}
	}
	return 0, fmt.Errorf("the watch ended before workspace %s was Ready: %w", name, ctx.Err())
}

// waitIdle waits until warrantgate has written its Events, after which it has no work. The first Events can be missing: warrantgate
// writes none until it knows that it has the permission.
func waitIdle(ctx context.Context, warrantgate *kcptest.Warrantgate) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var written float64
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		var err error
		written, err = warrantgate.Metric(ctx, "warrantgate_events_total", map[string]string{"outcome": "written"})
		return written >= pairs, err
	})
	if err != nil {
		return fmt.Errorf("wait for %d Events, %v written: %w", pairs, written, err)
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
