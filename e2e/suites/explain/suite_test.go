//go:build e2e

// Package explain_test runs "warrantgate explain workspace" for workspaces that are stuck in Initializing, and applies the remedies that
// it prints.
package explain_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

const (
	specTimeout = 8 * time.Minute
	// awaitTimeout is far longer than kcp needs to observe a change.
	awaitTimeout = 3 * time.Minute
)

var kcp *kcptest.Server

func TestExplain(t *testing.T) {
	suite.Run(t, "explain", awaitTimeout, 100*time.Millisecond)
}

var _ = BeforeSuite(func(ctx SpecContext) {
	kcp = suite.KCP(ctx, "--feature-gates=WorkspaceMounts=true")
}, NodeTimeout(specTimeout))

// explanation is the output of the command and its exit status.
type explanation struct {
	code         int
	out, errText string
}

// explain runs "warrantgate explain workspace" as the user of a kubeconfig.
func explain(ctx context.Context, kubeconfig, path string, args ...string) explanation {
	GinkgoHelper()
	printed := suite.Warrantgate(ctx, append([]string{"explain", "workspace", path, "--kubeconfig=" + kubeconfig}, args...)...)
	return explanation{code: printed.Status, out: printed.Stdout, errText: printed.Stderr}
}

// explainAsAdmin explains a workspace to an administrator, in text and as JSON. Both must have the same verdict.
func explainAsAdmin(ctx context.Context, path string) (explanation, report) {
	GinkgoHelper()
	text := explain(ctx, kcp.AdminKubeconfig(), path, "--context=root")
	asJSON := explain(ctx, kcp.AdminKubeconfig(), path, "--context=root", "--output=json")
	Expect(asJSON.code).To(Equal(text.code), "%s\n%s", text.out, asJSON.out)
	Expect(text.errText + asJSON.errText).To(BeEmpty())
	AddReportEntry(path, ReportEntryVisibilityNever, text.out)
	return text, parse(asJSON.out)
}

// explainAsJSON is the report for an administrator, for states that change by themselves.
func explainAsJSON(ctx context.Context, path string) report {
	GinkgoHelper()
	return parse(explain(ctx, kcp.AdminKubeconfig(), path, "--context=root", "--output=json").out)
}

// report contains the checked fields of the JSON.
type report struct {
	Workspace struct{ Phase, Cluster, Type, CreatedBy, RewrittenBy string }
	Owner     struct {
		Description string
		InScope     bool
		Places      []struct {
			Workspace string
			Home      bool
			As        []struct{ Username string }
		}
	}
	Initializers []struct {
		Name    string
		Waiting bool
	}
	Bindings []struct{ Export, Answer, Why string }
	Findings []finding
}

type finding struct {
	Reason, Message, Next string
	Advisory              bool
	Grant                 *struct {
		Workspace string
		Objects   []json.RawMessage
	}
}

func parse(raw string) report {
	GinkgoHelper()
	var r report
	Expect(json.Unmarshal([]byte(raw), &r)).To(Succeed(), raw)
	return r
}

// answers are the default API bindings with their answers.
func (r report) answers() map[string]string {
	answers := map[string]string{}
	for _, binding := range r.Bindings {
		answers[binding.Export] = binding.Answer
	}
	return answers
}

// waiting are the initializers that have not finished.
func (r report) waiting() []string {
	var names []string
	for _, initializer := range r.Initializers {
		if initializer.Waiting {
			names = append(names, initializer.Name)
		}
	}
	return names
}

// reasons are the reasons of the findings, without advisory ones.
func (r report) reasons() []string {
	var reasons []string
	for _, f := range r.Findings {
		if !f.Advisory {
			reasons = append(reasons, f.Reason)
		}
	}
	return reasons
}
