//go:build e2e

package readme_test

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/process"
	"warrantgate.dev/e2e/env/suite"
)

// oneMachine is the page about webhooks on one machine. The others are its sections.
const (
	oneMachine          = "webhooks/workspace/QUICKSTART.md"
	oneMachineStart     = "# warrantgate serve on one machine"
	oneMachineStuck     = "## A workspace that is stuck"
	oneMachineInstall   = "## Install"
	oneMachineShown     = "## What it does"
	oneMachineUninstall = "## Uninstall"
)

var _ = Describe("The quick start on one machine", func() {
	It("starts in an empty directory, repairs a workspace, rewrites an owner, and uninstalls", func(ctx SpecContext) {
		info, err := buildinfo.ReadFile(suite.Binary(asset.KCP))
		Expect(err).NotTo(HaveOccurred())
		if strings.HasPrefix(info.Main.Version, "v0.30.") {
			Skip("the page is for kcp v0.31 or later: v0.30 admits no service account in virtual workspaces, so that it repairs nothing")
		}
		t := newKCPTerminal(ctx)
		for _, heading := range []string{oneMachineStart, oneMachineStuck, oneMachineInstall, oneMachineShown, oneMachineUninstall} {
			t.follow(section(oneMachine, heading)...)
		}
	}, SpecTimeout(specTimeout))
})

// newKCPTerminal is a terminal with kcp, kubectl, and a make that makes warrantgate. kcp listens on free ports, too.
func newKCPTerminal(ctx context.Context) *terminal {
	GinkgoHelper()
	ports, err := process.FreePorts(ctx, 3)
	Expect(err).NotTo(HaveOccurred())
	return newWarrantgateTerminal(ctx, map[string]string{
		"kcp": fmt.Sprintf(`exec %s "$@" --bind-address=127.0.0.1 --external-hostname=127.0.0.1 --secure-port=%d --shard-base-url=https://127.0.0.1:%[2]d `+
			`--embedded-etcd-client-port=%d --embedded-etcd-peer-port=%d`, suite.Binary(asset.KCP), ports[0], ports[1], ports[2]),
		"make": `[ "$*" = build ] && mkdir bin && ln -s "$(command -v warrantgate)" bin/warrantgate`,
	})
}

// newWarrantgateTerminal is a terminal with kubectl, warrantgate, and further programs. warrantgate listens on free ports of the loopback
// interface instead of its defaults, because suites run at the same time.
func newWarrantgateTerminal(ctx context.Context, programs map[string]string, env ...string) *terminal {
	GinkgoHelper()
	ports, err := process.FreePorts(ctx, 3)
	Expect(err).NotTo(HaveOccurred())
	programs["warrantgate"] = fmt.Sprintf(`if [ "$1" = serve ]; then set -- "$@" --webhook-address=localhost:%d --metrics-address=127.0.0.1:%d --health-address=127.0.0.1:%d; fi; exec %s "$@"`,
		ports[0], ports[1], ports[2], suite.Binary(asset.Warrantgate))
	t := newTerminal(ctx, programs, env...)
	at := fmt.Sprintf("localhost:%d", ports[0])
	t.replaced = strings.NewReplacer("localhost:9443", at, "warrantgate.example.com:9443", at)
	return t
}
