package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kcptest"
)

func installAndServe(ctx context.Context, d *demo) error {
	binary, err := asset.Path(asset.Warrantgate)
	if err != nil {
		return err
	}
	// Text is easier to read than JSON.
	warrantgate, err := kcptest.NewWarrantgate(ctx, d.kcp, kcptest.WarrantgateOptions{Binary: binary, Args: []string{"--log-format=text"}})
	if err != nil {
		return err
	}
	// install ends with the check that warrantgate answers.
	if err := warrantgate.Start(ctx); err != nil {
		return err
	}
	d.warrantgate = warrantgate
	install := exec.CommandContext(ctx, binary, slices.Concat(
		[]string{"install", "kcp", "--kubeconfig=" + d.kcp.AdminKubeconfig(), "--context=root"}, warrantgate.InstallArgs(),
		[]string{"--shard-kubeconfig=" + d.kcp.AdminKubeconfig(), "--shard-context=system:admin", "--user=" + kcptest.WarrantgateUser},
	)...)
	d.showCommand(install.Args)
	output, err := install.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	d.say("It creates %d objects: webhook configurations, an admission policy, a WorkspaceType, and the RBAC of user %q.",
		strings.Count(string(output), " created\n"), kcptest.WarrantgateUser)
	if err := warrantgate.WaitInstalled(ctx); err != nil {
		return err
	}
	return notAdministrator(ctx, d)
}

// notAdministrator reads the groups and permissions of warrantgate's user from kcp.
func notAdministrator(ctx context.Context, d *demo) error {
	c, err := kcptest.NewClient(d.kcp.User(home, kcptest.WarrantgateUser))
	if err != nil {
		return err
	}
	self := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, self); err != nil {
		return err
	}
	if groups := self.Status.UserInfo.Groups; !slices.Equal(groups, []string{user.AllAuthenticated}) {
		return fmt.Errorf("warrantgate serves in groups %q, not as an ordinary user", groups)
	}
	may := map[string]bool{}
	for _, attributes := range []authorizationv1.ResourceAttributes{
		{Verb: "create", Version: "v1", Resource: "events", Namespace: "default"},
		{Verb: "update", Group: "tenancy.kcp.io", Version: "v1alpha1", Resource: "workspaces"},
		{Verb: "get", Version: "v1", Resource: "secrets", Namespace: "default"},
		{Verb: "*", Group: "*", Version: "*", Resource: "*"},
	} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes}}
		if err := c.Create(ctx, review); err != nil {
			return err
		}
		may[attributes.Resource] = review.Status.Allowed
	}
	if !may["events"] || may["workspaces"] || may["secrets"] || may["*"] {
		return errors.New("warrantgate has other permissions than to write Events: " + fmt.Sprint(may))
	}
	d.say("That user is not an administrator. According to kcp it has groups %q, may create events, and may not update workspaces or get secrets.",
		self.Status.UserInfo.Groups)
	return nil
}
