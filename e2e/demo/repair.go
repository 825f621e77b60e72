package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kcptest"
)

// repair repairs the workspace that was stuck before warrantgate was installed.
func repair(ctx context.Context, d *demo) error {
	if _, err := d.initializing(ctx); err != nil {
		return err
	}
	binary, err := asset.Path(asset.Warrantgate)
	if err != nil {
		return err
	}
	reading, err := d.kcp.KubeconfigFile(kcptest.WarrantgateUser, d.kcp.User("root", kcptest.WarrantgateUser))
	if err != nil {
		return err
	}
	writing, err := d.kcp.KubeconfigFile("logical-cluster-admin", d.kcp.User("root", "logical-cluster-admin", kcptest.LogicalClusterAdmins))
	if err != nil {
		return err
	}
	d.say("Workspace %q is still stuck. One command repairs it, with a certificate of the group that may write owners:", before)
	command := exec.CommandContext(ctx, binary, "repair", "--kubeconfig="+reading, "--logical-cluster-kubeconfig="+writing,
		"--under="+home, "--after=5s")
	d.showCommand(command.Args)
	output, err := command.Output()
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	if !strings.Contains(string(output), home+":"+before) {
		return fmt.Errorf("it does not name the workspace: %s", output)
	}
	if _, err := kcptest.WaitReady(ctx, d.account, before); err != nil {
		return err
	}
	return d.useWorkspace(ctx, d.account, before)
}
