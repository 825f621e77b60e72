package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/internal/kcp"
)

const (
	policyReadyBound = 1.03
	policyCPUBound   = 1.03

	// Each contender creates a number of workspaces per round, one after the other.
	policyWarmUpRounds, policyRounds, policyWorkspaces = 2, 20, 4
	// policySettleTime is the time in which kcp loads a change of the policies, and ends what it does for the workspaces that tested it.
	policySettleTime = 3 * time.Second
)

// contestedKCP is a kcp in which contenders create workspaces in turn.
type contestedKCP struct {
	kcp  *kcptest.Server
	race *race
}

// contender creates workspaces in a kcp.
type contender struct {
	name   string
	client client.Client
	// withPolicies is whether the admission policies are installed while it creates workspaces. It matters to contestCPU.
	withPolicies bool
	// isRewritten is true if the owners of its workspaces must be rewritten.
	isRewritten bool
	// took is the time of each workspace until it was Ready, in milliseconds. worked is the CPU time of kcp per workspace, in
	// milliseconds, on average of a round.
	took, worked []float64
}

// measurePolicies compares, in one kcp, a service account with a user while the admission policies are installed, and a user with the
// policies and without them.
func measurePolicies(ctx context.Context, out *figures) (err error) {
	c, err := startContested(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if has, err := hasMutatingPolicies(c.kcp); err != nil || !has {
		progress("this kcp has no mutating admission policies, which came with v0.32: there is nothing to measure")
		return err
	}
	if err := installPolicies(ctx, c); err != nil {
		return err
	}
	serviceAccount, user, err := contestReady(ctx, c)
	if err != nil {
		return err
	}
	out.atMost("policy_ready_ratio", median(serviceAccount.took)/median(user.took), "ratio", policyReadyBound)
	with, without, err := contestCPU(ctx, c)
	if err != nil {
		return err
	}
	out.atMost("policy_cpu_ratio", median(with.worked)/median(without.worked), "ratio", policyCPUBound)
	return nil
}

func startContested(ctx context.Context) (*contestedKCP, error) {
	server, err := startKCP(ctx)
	if err != nil {
		return nil, err
	}
	c := &contestedKCP{kcp: server}
	if c.race, err = prepareRace(ctx, server); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return c, nil
}

func (c *contestedKCP) stop() error {
	c.race.watch.Stop()
	return c.kcp.Stop()
}

func hasMutatingPolicies(server *kcptest.Server) (bool, error) {
	d, err := discovery.NewDiscoveryClientForConfig(server.Admin("root"))
	if err != nil {
		return false, err
	}
	return kcp.HasMutatingPolicies(d)
}

// run runs warrantgate as an administrator of root.
func (c *contestedKCP) run(ctx context.Context, args ...string) error {
	binary, err := asset.Path(asset.Warrantgate)
	if err != nil {
		return err
	}
	output, err := exec.CommandContext(ctx, binary, append(args, "--kubeconfig="+c.kcp.AdminKubeconfig(), "--context=root")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("warrantgate %s: %w: %s", args[0], err, output)
	}
	return nil
}

// installPolicies installs the policies and waits until kcp applies the one that rewrites owners.
func installPolicies(ctx context.Context, c *contestedKCP) error {
	if err := c.run(ctx, "install", "kcp", "--policies-only"); err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		name := fmt.Sprintf("probe-%d", time.Now().UnixNano())
		if err := c.race.serviceAccount.Create(ctx, &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return false, err
		}
		waiting, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err := kcptest.WaitReady(waiting, c.race.admin, name)
		return err == nil, ctx.Err()
	})
}

// uninstallPolicies removes the policies and waits until kcp does not apply the one that rewrites owners.
func uninstallPolicies(ctx context.Context, c *contestedKCP) error {
	if err := c.run(ctx, "uninstall", "kcp"); err != nil {
		return err
	}
	inParent, err := kcptest.NewClient(c.race.admin)
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, time.Second, false, func(ctx context.Context) (bool, error) {
		ws := &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{GenerateName: "canary-"}}
		kcptest.OfType("root", "universal")(ws)
		kcptest.WithAnnotation(kcp.CanaryAnnotation, kcp.PolicyCanary)(ws) // the policy removes it, and the policy on owners' annotations denies it
		err := inParent.Create(ctx, ws, client.DryRunAll)
		if apierrors.IsForbidden(err) {
			return true, nil
		}
		return ws.Annotations[kcp.CanaryAnnotation] != "", err
	})
}

// contestReady makes a service account, whose owners the policies rewrite, and a user create workspaces in turn.
func contestReady(ctx context.Context, c *contestedKCP) (serviceAccount, user *contender, err error) {
	serviceAccount = &contender{name: "service-account", client: c.race.serviceAccount, isRewritten: true}
	user = &contender{name: "user", client: c.race.user}
	for round := range policyWarmUpRounds + policyRounds {
		progress("workspaces of a service account and of a user: round %d of %d", round+1, policyWarmUpRounds+policyRounds)
		for _, one := range turns(round, serviceAccount, user) {
			if err := c.turn(ctx, one, round); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", one.name, err)
			}
		}
	}
	return serviceAccount, user, nil
}

// contestCPU makes a user create workspaces in one kcp, in turn with the policies and without them. They leave the owner of a user. Two
// processes of kcp differ by more CPU time than the policies take.
func contestCPU(ctx context.Context, c *contestedKCP) (with, without *contender, err error) {
	with = &contender{name: "with-policies", client: c.race.user, withPolicies: true}
	without = &contender{name: "without-policies", client: c.race.user}
	order := []*contender{with, without} // the policies are installed
	for round := range policyWarmUpRounds + policyRounds {
		progress("workspaces of a user with the policies and without: round %d of %d", round+1, policyWarmUpRounds+policyRounds)
		for i, one := range order {
			if i == 1 { // the first has what the last round ended with
				change := uninstallPolicies
				if one.withPolicies {
					change = installPolicies
				}
				if err := change(ctx, c); err != nil {
					return nil, nil, err
				}
				if err := pause(ctx, policySettleTime); err != nil {
					return nil, nil, err
				}
			}
			if err := c.turn(ctx, one, round); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", one.name, err)
			}
		}
		slices.Reverse(order)
	}
	return with, without, nil
}

// turn makes one contender create the workspaces of a round.
func (c *contestedKCP) turn(ctx context.Context, one *contender, round int) error {
	before, err := processorTime(c.kcp.PID())
	if err != nil {
		return err
	}
	var took []float64
	for n := range policyWorkspaces {
		name := fmt.Sprintf("%s-%d-%d", one.name, round, n)
		ready, err := c.race.timeToReady(ctx, one.client, name, universal)
		if err != nil {
			return err
		}
		took = append(took, milliseconds(ready))
		var ws tenancyv1alpha1.Workspace
		if err := one.client.Get(ctx, client.ObjectKey{Name: name}, &ws); err != nil {
			return err
		}
		if _, isRewritten := ws.Annotations[kcptest.CreatedByAnnotation]; isRewritten != one.isRewritten {
			return fmt.Errorf("that the owner of workspace %s is rewritten is %t", name, isRewritten)
		}
	}
	after, err := processorTime(c.kcp.PID())
	if err != nil || round < policyWarmUpRounds {
		return err
	}
	one.took = append(one.took, took...)
	one.worked = append(one.worked, milliseconds(after-before)/policyWorkspaces)
	return nil
}
