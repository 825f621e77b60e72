package install

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/impersonation"
	"warrantgate.dev/internal/kcp"
)

// kcpTarget is the kcp that a command changes, and the kubeconfigs and contexts it uses: for root or the workspace of a provider's APIExport, and for
// the shards.
type kcpTarget struct {
	cli.Connection
	shardKubeconfigs []string
	shardContext     string
	// ignoreWaiting is whether to remove the WorkspaceType warranted although workspaces wait for its initializer.
	ignoreWaiting bool
}

// addFlags adds the flags. usage describes the kubeconfig of the workspace, and what says what is changed on the shards.
func (t *kcpTarget) addFlags(flags *pflag.FlagSet, usage, what string) {
	t.AddFlags(flags, usage)
	flags.StringArrayVar(&t.shardKubeconfigs, "shard-kubeconfig", nil,
		"kubeconfig of system:masters on a shard, "+what+"; once for each shard")
	flags.StringVar(&t.shardContext, "shard-context", "", "context of the shard kubeconfigs (default: the current one)")
}

// noteShards names the roles that uninstall leaves on the shards without --shard-kubeconfig, and the command that removes them.
func (t kcpTarget) noteShards(notes io.Writer, command string, roles []client.Object) error {
	if len(t.shardKubeconfigs) > 0 {
		return nil
	}
	var names []string
	for _, role := range roles {
		names = append(names, role.GetName())
	}
	remove := "Remove them"
	if command == "provider" {
		remove = "Other providers need them, too; without any, remove them"
	}
	shard := " --shard-kubeconfig=SHARD.kubeconfig"
	if admin := kcp.SystemAdmin.String(); t.HasContext(admin) { // the kubeconfig is that of "kcp start"
		shard = " --shard-kubeconfig=" + impersonation.ShellWord(t.Kubeconfig) + cli.KubeconfigFlags("shard-", "", admin)
	}
	_, err := fmt.Fprintf(notes, "Without --shard-kubeconfig, ClusterRoles and ClusterRoleBindings that install has created on the shards stay there: %s, in the "+
		"logical cluster system:admin. %s with `warrantgate uninstall %s%s%s`, with --shard-kubeconfig once for each shard.\n",
		strings.Join(slices.Compact(names), ", "), remove, command, t.Flags(), shard)
	return err
}

func (t kcpTarget) rootClient() (client.Client, error) {
	return clientFor(t.Connection, kcp.Root)
}

// inShards calls do with each shard kubeconfig, and a client for the logical cluster system:admin of its shard. The RBAC there applies in all workspaces
// of the shard. If one of the kubeconfigs cannot be read, it calls do for none.
func (t kcpTarget) inShards(do func(where string, c client.Client) error) error {
	clients := make([]client.Client, len(t.shardKubeconfigs))
	for i, kubeconfig := range t.shardKubeconfigs {
		var err error
		if clients[i], err = clientFor(cli.NewConnection(kubeconfig, t.shardContext), kcp.SystemAdmin); err != nil {
			return err
		}
	}
	for i, c := range clients {
		if err := do(t.shardKubeconfigs[i], c); err != nil {
			return err
		}
	}
	return nil
}

func clientFor(connection cli.Connection, cluster logicalcluster.Path) (client.Client, error) {
	config, err := connection.Config()
	if err != nil {
		return nil, err
	}
	if config, err = kcp.ConfigFor(config, cluster); err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", cluster, err)
	}
	return c, nil
}
