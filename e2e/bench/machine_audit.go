package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

const (
	// pages is the number of pages of the lists of all users: one each.
	pages = users
	// auditRequestsBound is one request for the UUID of each user, and one for each page.
	auditRequestsBound = users + pages
	auditMemoryBound   = 120
	// auditRate is a rate of requests to the cloud at which the audit never waits.
	auditRate = 100_000
)

// measureAudit measures one audit of all machines, without findings.
func (m *machines) measureAudit(ctx context.Context, out *figures) error {
	progress("audit of %d machines", users*machinesOfUser)
	args := append([]string{
		"audit", "--kubeconfig=" + m.api.AdminKubeconfig(), "--config=" + m.warrantgate.ConfigFile(), "-o=json", fmt.Sprintf("--rate=%d", auditRate),
	}, m.flags...)
	before := len(m.cloud.Requests())
	audited, err := runForMemory(ctx, m.env, m.binary, args...)
	if err != nil {
		return err
	}
	// In addition to the findings, it prints the number of checked objects.
	all := fmt.Sprintf("machines: %d, accounts: %d, ", users*machinesOfUser, users)
	if audited.Failure != "" || !strings.HasPrefix(audited.Output, all) {
		return errors.Join(errors.New(audited.Failure), fmt.Errorf("want %q and no finding, got:\n%s", all, audited.Output))
	}
	var api float64
	for _, request := range m.cloud.Requests()[before:] {
		switch request.Operation {
		case cloudsigmatest.GetProfile, cloudsigmatest.ListServers, cloudsigmatest.GetServer:
			api++
		}
	}
	out.atMost("audit_cloud_requests", api, "requests", auditRequestsBound)
	out.atMost("audit_rss_mib", float64(audited.PeakKiB)/1024, "MiB", auditMemoryBound)
	return nil
}
