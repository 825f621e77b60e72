package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

const (
	// pages is how many pages the lists of all users have: one each.
	pages = users
	// auditRequestsBound is one request for each user, who has to be known by UUID, and one for each page.
	auditRequestsBound = users + pages
	auditMemoryBound   = 120
	// auditRate is so many requests to the cloud a second that the audit does not wait for the next.
	auditRate = 100_000
)

// measureAudit measures one audit of all machines, of which none has anything wrong with it.
func (m *machines) measureAudit(ctx context.Context, out *figures) error {
	progress("audit of %d machines", users*machinesOfUser)
	kubeconfig, err := m.api.KubeconfigFile("auditor", m.api.Config())
	if err != nil {
		return err
	}
	args := append([]string{
		"audit", "--kubeconfig=" + kubeconfig, "--config=" + m.warrantgate.ConfigFile(), "-o=json", fmt.Sprintf("--rate=%d", auditRate),
	}, m.flags...)
	before := len(m.cloud.Requests())
	start := time.Now()
	audited, err := runForMemory(ctx, m.env, m.binary, args...)
	took := time.Since(start)
	if err != nil {
		return err
	}
	// It tells besides the findings what it has looked at.
	all := fmt.Sprintf("machines: %d, accounts: %d, ", users*machinesOfUser, users)
	if audited.Failure != "" || !strings.HasPrefix(audited.Output, all) {
		return errors.Join(errors.New(audited.Failure), fmt.Errorf("instead of %q and no finding it says:\n%s", all, audited.Output))
	}
	var api, tokens float64
	for _, request := range m.cloud.Requests()[before:] {
		switch request.Operation {
		case cloudsigmatest.GetProfile, cloudsigmatest.ListServers, cloudsigmatest.GetServer:
			api++
		default:
			tokens++
		}
	}
	out.show("audit_ms", milliseconds(took), "ms")
	out.show("audit_token_requests", tokens, "requests")
	out.atMost("audit_cloud_requests", api, "requests", auditRequestsBound)
	out.atMost("audit_rss_mib", float64(audited.PeakKiB)/1024, "MiB", auditMemoryBound)
	return nil
}
