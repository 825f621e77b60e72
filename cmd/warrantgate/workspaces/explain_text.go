package workspaces

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

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
		{"Created by:", creator(report)},
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
	verdicts := cli.OfObject
	if ws.NotCreated {
		verdicts = ofCreation
	}
	if err := cli.PrintFindings(out, text, verdicts, report.Findings); err != nil {
		return err
	}
	_, err := out.Write(text.Bytes())
	return err
}

// creator returns the creator of a workspace. A service account is named as the owner is, whatever name of it kcp or warrantgate recorded.
func creator(report preflight.Report) string {
	by := report.Workspace.CreatedBy
	if owner := report.Owner; owner != nil && by != "" {
		home, namespace, name, ok := owner.Recorded.ServiceAccount()
		recorded := strings.Join([]string{home.String(), namespace, name}, ":")
		if ok && (by == owner.Recorded.Username || strings.TrimPrefix(by, "system:kcp:serviceaccount:") == recorded) {
			return owner.Description
		}
	}
	return cmp.Or(by, "unknown")
}

// ofCreation are the verdicts on a workspace that is not created.
var ofCreation = cli.Verdicts{
	preflight.Yes:     "The creator lacks no permission for it.",
	preflight.No:      "Something is missing to create it:",
	preflight.Unknown: cli.OfObject[preflight.Unknown],
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

// describeIdentity leaves out the groups that kcp adds to all users, and to all users of a logical cluster. Of the anonymous user, the latter
// are the only permissions.
func describeIdentity(as identity.Owner) string {
	anonymous := as.Username == user.Anonymous
	groups := slices.DeleteFunc(slices.Clone(as.Groups), func(group string) bool {
		return group == user.AllAuthenticated || group == user.AllUnauthenticated || strings.HasPrefix(group, "system:cluster:") && !anonymous
	})
	name := cmp.Or(as.Username, "nobody")
	switch {
	case len(groups) > 0:
		name += ", in " + strings.Join(groups, ", ")
	case anonymous:
		name = "anonymous: no extra permissions"
	}
	return name
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
