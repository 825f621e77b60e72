package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/keystonetest"
)

const (
	// All workspaces of the demo are children of the workspace home.
	homeName = "provider"
	home     = "root:" + homeName

	accountNamespace = "default"
	accountName      = "bot"
	userName         = "alice"

	// Names of workspaces: of the user, and of the service account before and after the installation of warrantgate.
	ofUser, before, after = "users", "before", "after"
)

// demo contains the servers and the identities.
type demo struct {
	kcp         *kcptest.Server
	warrantgate *kcptest.Warrantgate // nil until it runs
	// account is a service account in home. user is an ordinary user with the same permissions there.
	account, user *rest.Config
	machines      machines
	keystone      *keystonetest.Keystone // nil until it runs
	// skipped is the number of steps that this machine cannot run.
	skipped int
	// printed is what was printed, and lines the number of its lines.
	printed strings.Builder
	lines   int
}

// startKCP starts kcp and creates one workspace with a service account and a user in it.
func (d *demo) startKCP(ctx context.Context) (err error) {
	start := time.Now()
	if d.kcp, err = kcptest.Start(ctx); err != nil {
		return err
	}
	d.say("kcp is ready at %s after %s, DIR=%s.", d.kcp.URL(), seconds(time.Since(start)), d.kcp.Dir())

	root := d.kcp.Admin("root")
	if _, err := kcptest.CreateWorkspace(ctx, root, homeName); err != nil {
		return err
	}
	if _, err := kcptest.WaitReady(ctx, root, homeName); err != nil {
		return err
	}
	admin := kcptest.In(root, home)
	if d.account, err = kcptest.ServiceAccount(ctx, admin, accountNamespace, accountName); err != nil {
		return err
	}
	d.user = d.kcp.User(home, userName)
	if err := kcptest.Grant(ctx, admin, kcptest.ServiceAccountSubject(accountNamespace, accountName), kcptest.CreatorRules()...); err != nil {
		return err
	}
	readEvents := kcptest.Rule("", []string{"events"}, []string{"list"})
	if err := kcptest.Grant(ctx, admin, kcptest.User(userName), append(kcptest.CreatorRules(), readEvents)...); err != nil {
		return err
	}
	d.say("In %s, service account %s/%s and user %s may create workspaces.", home, accountNamespace, accountName, userName)
	return nil
}

func (d *demo) cleanUp() error {
	var err error
	if d.warrantgate != nil {
		err = d.warrantgate.Stop()
	}
	if d.kcp != nil {
		err = errors.Join(err, d.kcp.Stop())
	}
	err = errors.Join(err, d.machines.cleanUp())
	if d.keystone != nil {
		err = errors.Join(err, d.keystone.Stop())
	}
	if err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}
