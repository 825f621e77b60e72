package machines

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"warrantgate.dev/internal/audit"
	"warrantgate.dev/internal/message"
	"warrantgate.dev/webhooks/machine"
)

// The values of --output that print one document for people who were not there.
const (
	formatHTML     = "html"
	formatMarkdown = "markdown"
)

// auditReport is the result of an audit as a document. Its texts are printable: tenants wrote some of them.
type auditReport struct {
	// Server is the API server whose machines were checked.
	Server, Time       string
	Machines, Accounts int
	// Failed is why not everything could be checked, "" if everything was.
	Failed              string
	Reasons, Namespaces []findingGroup
	Findings            []findingRow
}

// findingGroup is the number of findings with a reason, or in a namespace.
type findingGroup struct {
	Name  string
	Count int
	// WhatToDo is for reasons only.
	WhatToDo string
}

type findingRow struct {
	Namespace, Object, Reason, Instance, Message string
}

// newAuditReport returns the report about an audit that ended now. failed is its error.
func newAuditReport(server string, now time.Time, result audit.Result, failed error) auditReport {
	report := auditReport{
		Server: message.Printable(server), Time: now.UTC().Format("2006-01-02 15:04 MST"), Machines: result.Machines, Accounts: result.Accounts,
	}
	if failed != nil {
		report.Failed = message.Printable(strings.ReplaceAll(failed.Error(), "\n", "; "))
	}
	for _, f := range result.Findings {
		report.Findings = append(report.Findings, findingRow{
			Namespace: message.Printable(f.Object.Namespace), Object: message.Printable(f.Object.Kind + "/" + f.Object.Name),
			Reason: message.Printable(f.Reason), Instance: message.Printable(f.Instance), Message: message.Printable(f.Message),
		})
	}
	report.Reasons = groupsOf(report.Findings, func(f findingRow) string { return f.Reason })
	report.Namespaces = groupsOf(report.Findings, func(f findingRow) string { return f.Namespace })
	for i := range report.Reasons {
		report.Reasons[i].WhatToDo = machine.WhatToDo(report.Reasons[i].Name)
	}
	return report
}

// groupsOf counts findings by the name that by returns, the most frequent one first.
func groupsOf(findings []findingRow, by func(findingRow) string) []findingGroup {
	counts := map[string]int{}
	for _, f := range findings {
		counts[by(f)]++
	}
	groups := make([]findingGroup, 0, len(counts))
	for name, count := range counts {
		groups = append(groups, findingGroup{Name: name, Count: count})
	}
	slices.SortFunc(groups, func(a, b findingGroup) int { return cmp.Or(b.Count-a.Count, cmp.Compare(a.Name, b.Name)) })
	return groups
}

// indexOf returns the index of a group.
func indexOf(groups []findingGroup, name string) int {
	return slices.IndexFunc(groups, func(group findingGroup) bool { return group.Name == name })
}

// markdown writes the report for a ticket, with a list of tasks for each namespace.
func (r auditReport) markdown(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# warrantgate audit\n\nAPI server %s, %s. Machines: %d, accounts: %d, findings: %d.\n",
		code(r.Server), r.Time, r.Machines, r.Accounts, len(r.Findings))
	switch {
	case r.Failed != "":
		fmt.Fprintf(&b, "\n**Not everything could be checked:** %s\n", code(r.Failed))
	case len(r.Findings) == 0:
		b.WriteString("\nNothing is wrong.\n")
	}
	if len(r.Findings) > 0 {
		b.WriteString("\n| Reason | Findings | What to do |\n|---|---|---|\n")
	}
	for _, reason := range r.Reasons {
		fmt.Fprintf(&b, "| %s | %d | %s |\n", code(reason.Name), reason.Count, strings.ReplaceAll(reason.WhatToDo, "<", "&lt;"))
	}
	for _, namespace := range r.Namespaces {
		fmt.Fprintf(&b, "\n## %s: %d\n\n", code(namespace.Name), namespace.Count)
		for _, f := range r.Findings {
			if f.Namespace == namespace.Name {
				fmt.Fprintf(&b, "- [ ] %s %s: %s\n", code(f.Reason), code(f.Object), code(f.Message))
			}
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// code returns a printable text as a code span. In a code span there is no markup, no link, no mention of a user and no command of a tracker. It
// ends with the first backtick, and a table takes a bar for the end of a cell, so both are escaped as in Go.
func code(printable string) string {
	return "`" + strings.NewReplacer("`", `\x60`, "|", `\x7c`).Replace(printable) + "`"
}
