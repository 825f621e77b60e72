package main

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/kcp"
)

// flagValues are the values of flags that a shell completes. Those that the description of a flag names are offered.
var flagValues = map[string][]string{
	"output":     {"text", "table", "json", "yaml", "sarif", "objects", "html", "markdown"},
	"rewrite":    {"Auto", "Policy", "Webhook"},
	"through":    {"ApplicationCredential", "Trust"},
	"fail-on":    {"error", "warning", "note"},
	"log-level":  {"debug", "info", "warn", "error"},
	"log-format": {"json", "text"},
}

// completionTimeout limits the request for the workspaces that a shell offers.
const completionTimeout = 3 * time.Second

// completesForKubectl returns whether kubectl called the program for the completion of its plugin, with the words after "kubectl warrantgate".
func completesForKubectl(program string) bool {
	return strings.HasPrefix(filepath.Base(program), "kubectl_complete-")
}

// addCompletion lets shells complete values of flags, and paths of workspaces.
func addCompletion(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		complete := completeWorkspaces
		if flag.Name != "under" {
			offered := slices.DeleteFunc(slices.Clone(flagValues[flag.Name]), func(value string) bool { return !strings.Contains(flag.Usage, value) })
			if len(offered) == 0 {
				return
			}
			complete = cobra.FixedCompletions(offered, cobra.ShellCompDirectiveNoFileComp)
		}
		if err := cmd.RegisterFlagCompletionFunc(flag.Name, complete); err != nil {
			panic(err) // a flag that is registered twice
		}
	})
	if operand, _, _ := strings.Cut(strings.TrimPrefix(cmd.Use, cmd.Name()+" "), " "); operand == "PATH" || operand == "WORKSPACE..." {
		cmd.ValidArgsFunction = completeWorkspaces
	}
	for _, child := range cmd.Commands() {
		addCompletion(child)
	}
}

// completeWorkspaces offers the workspaces below the last colon of a path.
func completeWorkspaces(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	parent := kcp.Root
	if i := strings.LastIndex(begun, ":"); i > 0 {
		parent = logicalcluster.NewPath(begun[:i])
	}
	kubeconfig, kubeContext := cmd.Flags().Lookup("kubeconfig").Value.String(), cmd.Flags().Lookup("context").Value.String()
	config, err := cli.LoadKubeconfig(kubeconfig, kubeContext)
	if err != nil {
		return nil, directive
	}
	if config, err = kcp.ConfigFor(config, parent); err != nil {
		return nil, directive
	}
	config.Timeout = completionTimeout
	workspaces, err := kcp.NewClient(config)
	if err != nil {
		return nil, directive
	}
	var list tenancyv1alpha1.WorkspaceList
	if err := workspaces.List(cmd.Context(), &list); err != nil {
		return nil, directive
	}
	var paths []string
	for _, workspace := range list.Items {
		if path := parent.Join(workspace.Name).String(); strings.HasPrefix(path, begun) {
			paths = append(paths, path)
		}
	}
	return paths, directive
}
