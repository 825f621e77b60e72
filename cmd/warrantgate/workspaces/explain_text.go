package workspaces

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/preflight"
	"warrantgate.dev/webhooks/workspace"
)

// printExplanation prints a report as text: the workspace, the owner that kcp acts as, what the workspace waits for, and what to do.
// Tenants wrote most values.
func printExplanation(out io.Writer, report preflight.Report) error {
	text := &bytes.Buffer{}
	ws := report.Workspace
	noCluster := "none yet"
	if ws.Mount != "" {
		noCluster = "none, as " + ws.Mount + " is mounted there"
	}
	rows := [][]string{
		{"Workspace:", ws.Path},
		{"Phase:", phase(ws)},
		{"Logical cluster:", cmp.Or(ws.Cluster.String(), noCluster)},
		{"Type:", cmp.Or(ws.Type, "none")},
		{"Created by:", cmp.Or(ws.CreatedBy, "unknown")},
	}
	switch ws.RewrittenBy {
	case "":
	case kcp.RewrittenByPolicy:
		rows = append(rows, []string{"Rewritten by:", "the admission policy " + workspace.RewritePolicyName})
	default:
		rows = append(rows, []string{"Rewritten by:", "warrantgate: the webhook, the initializer or the repair"})
	}
	cli.Table(text, "", rows)
	printOwner(text, report.Owner)
	printInitializers(text, report.Initializers)
	printBindings(text, report.Bindings)
	if err := printFindings(text, report); err != nil {
		return err
	}
	_, err := out.Write(text.Bytes())
	return err
}

func phase(ws preflight.Workspace) string {
	if ws.NotCreated {
		return "none, as this is about its creation"
	}
	return string(ws.Phase)
}

func printOwner(text *bytes.Buffer, owner *preflight.Owner) {
	if owner == nil {
		return
	}
	scope := "in scope"
	if !owner.InScope {
		scope = "foreign"
	}
	fmt.Fprintf(text, "\nOwner: %s, %s in the workspace\n", message.Printable(owner.Description), scope)
	for _, place := range owner.Places {
		where := "in the workspace"
		if place.Home {
			where = "in its home workspace " + cmp.Or(place.Workspace, place.Cluster.String())
		}
		fmt.Fprintf(text, "  %s kcp treats it as\n", message.Printable(where))
		for _, as := range place.As {
			fmt.Fprintf(text, "    %s\n", message.Printable(describeIdentity(as)))
		}
	}
}

func describeIdentity(as identity.Owner) string {
	if len(as.Groups) == 0 {
		return cmp.Or(as.Username, "nobody") + ", in no group"
	}
	return cmp.Or(as.Username, "nobody") + ", in " + strings.Join(as.Groups, ", ")
}

func printInitializers(text *bytes.Buffer, initializers []preflight.Initializer) {
	if len(initializers) == 0 {
		return
	}
	rows := make([][]string, 0, len(initializers))
	for _, initializer := range initializers {
		state := "done"
		if initializer.Waiting {
			state = "waiting"
		}
		rows = append(rows, []string{initializer.Name, state, "by " + initializer.Of})
	}
	fmt.Fprintln(text, "\nInitializers:")
	cli.Table(text, "  ", rows)
}

func printBindings(text *bytes.Buffer, bindings []preflight.Binding) {
	if len(bindings) == 0 {
		return
	}
	rows := make([][]string, 0, len(bindings))
	for _, binding := range bindings {
		rows = append(rows, []string{binding.Export, string(binding.Answer), binding.Why})
	}
	fmt.Fprintln(text, "\nDefault API bindings:")
	cli.Table(text, "  ", rows)
}

// printFindings prints errors first, and information last.
func printFindings(text *bytes.Buffer, report preflight.Report) error {
	fmt.Fprintln(text)
	switch verdict := report.Verdict(); {
	case verdict == preflight.Yes && report.Workspace.NotCreated:
		fmt.Fprintln(text, "Nothing is missing to create it.")
	case verdict == preflight.No && report.Workspace.NotCreated:
		fmt.Fprintln(text, "Something is missing to create it:")
	case verdict == preflight.Yes:
		fmt.Fprintln(text, "Nothing is wrong with it.")
	case verdict == preflight.No:
		fmt.Fprintln(text, "Something is wrong with it:")
	default:
		fmt.Fprintln(text, "Whether something is wrong with it could not be determined:")
	}
	findings := slices.Clone(report.Findings)
	slices.SortStableFunc(findings, func(a, b preflight.Finding) int {
		switch {
		case a.Advisory == b.Advisory:
			return 0
		case a.Advisory:
			return 1
		default:
			return -1
		}
	})
	for _, finding := range findings {
		if err := printFinding(text, finding); err != nil {
			return err
		}
	}
	return nil
}

func printFinding(text *bytes.Buffer, finding preflight.Finding) error {
	note := ""
	if finding.Advisory {
		note = " (for information)"
	}
	fmt.Fprintf(text, "\n  %s%s\n    %s\n", finding.Reason, note, message.Printable(finding.Message))
	if finding.Next != "" {
		fmt.Fprintf(text, "    What to do: %s\n", message.Printable(finding.Next))
	}
	if finding.Grant == nil {
		return nil
	}
	for _, object := range finding.Grant.Objects {
		document, err := message.YAML(object)
		if err != nil {
			return err
		}
		fmt.Fprintf(text, "\n---\n%s", document) // without indentation, to be copied
	}
	return nil
}
