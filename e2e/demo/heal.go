package main

import (
	"context"
	"fmt"
	"os/exec"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kcptest"
)

// heal mends the workspace that has hung since before warrantgate was there.
func heal(ctx context.Context, d *demo) error {
	if _, err := d.hanging(ctx); err != nil {
		return err
	}
	binary, err := asset.Path(asset.Warrantgate)
	if err != nil {
		return err
	}
	reading, err := d.kcp.KubeconfigFile(kcptest.WarrantgateUser, d.kcp.Person("root", kcptest.WarrantgateUser))
	if err != nil {
		return err
	}
	writing, err := d.kcp.KubeconfigFile("logical-cluster-admin", d.kcp.Person("root", "logical-cluster-admin", kcptest.LogicalClusterAdmins))
	if err != nil {
		return err
	}
	say("Workspace %q, from before warrantgate was there, still hangs. One command heals it, with the user from above and "+
		"a certificate of the one group that kcp lets write owners:", before)
	repair := exec.CommandContext(ctx, binary, "repair", "--kubeconfig="+reading, "--logical-cluster-kubeconfig="+writing,
		"--under="+home, "--after=5s", "--output=json")
	d.showCommand(repair.Args)
	output, err := repair.Output()
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	d.show(string(output))
	if _, err := kcptest.WaitReady(ctx, d.account, before); err != nil {
		return err
	}
	say("Workspace %q is Ready.", before)
	return useWorkspace(ctx, d.account, before)
}
