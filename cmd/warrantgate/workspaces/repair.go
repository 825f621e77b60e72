package workspaces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/spf13/cobra"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/initializers/owner"
	"warrantgate.dev/internal/config"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/kcp"
)

type repairOptions struct {
	config string
	cli.Connection
	logicalClusterKubeconfig string
	under                    string
	after                    time.Duration
	rate                     int32
	dryRun                   bool
	output                   string
}

// NewRepairCommand returns the command repair.
func NewRepairCommand() *cobra.Command {
	var o repairOptions
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "Repair workspaces that are stuck because of their owner",
		Long: `Check the workspaces of all shards once, and repair those that are stuck in Initializing because their recorded owner is
foreign in them, for example a service account of another workspace (kcp-dev/kcp#4038). The owner is rewritten as the webhook
rewrites it, and the initialization is retriggered. Ready workspaces whose owner is the name of a service account
without its home, which a tenant can create inside, are repaired too if kcp recorded the home.

Workspaces that are stuck for another reason are listed and not changed. See "warrantgate explain workspace".

From kcp v0.32 on, only the groups system:kcp:external-logical-cluster-admin and system:masters can write owners. If the user of
--kubeconfig is in neither, set --logical-cluster-kubeconfig. In a kubeconfig of "kcp start", use --context=system:admin.

--dry-run sends the writes as dry runs, so that it also prints why a repair would fail.

The exit status is 1 if a stuck workspace could not be repaired, or would not be, and 2 if not all could be checked.`,
		Example: `  warrantgate repair --kubeconfig=admin.kubeconfig \
    --logical-cluster-kubeconfig=lca.kubeconfig --dry-run
  warrantgate repair --kubeconfig=admin.kubeconfig \
    --logical-cluster-kubeconfig=lca.kubeconfig \
    --under=root:orgs --output=json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.config, "config", "", "configuration file of serve, for its delegation policy")
	o.AddFlags(flags, "kubeconfig that reads the workspaces of all shards and their RBAC")
	flags.StringVar(&o.logicalClusterKubeconfig, "logical-cluster-kubeconfig", "",
		"kubeconfig of a member of the group system:kcp:external-logical-cluster-admin, to write LogicalClusters (default --kubeconfig)")
	flags.StringVar(&o.under, "under", "", "check only this workspace and those below it: a path such as root:orgs, or the name of a logical cluster")
	flags.DurationVar(&o.after, "after", time.Minute, "how long a workspace may be Initializing before it counts as stuck")
	flags.Int32Var(&o.rate, "rate", v1beta1.Default().Repair.WorkspacesPerSecond, "limit of workspaces that are checked per second")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print what would be done, and write nothing")
	flags.StringVarP(&o.output, "output", "o", "table", "table, or json with one object per line")
	return cmd
}

func (o repairOptions) run(ctx context.Context, out, notes io.Writer) error {
	lines, err := cli.NewLines(out, o.output, "WORKSPACE", "PHASE", "OUTCOME", "MESSAGE")
	if err != nil {
		return err
	}
	if o.rate < 1 {
		return fmt.Errorf("--rate: %d is less than 1", o.rate)
	}
	if o.under != "" && !logicalcluster.NewPath(o.under).IsValid() {
		return fmt.Errorf("--under: %q is not the path of a workspace, such as root:orgs", o.under)
	}
	repair, err := o.repair()
	if err != nil {
		return err
	}
	progress := cli.NewProgress(notes)
	total := 0
	repair.Progress = func(done, all int) {
		total = all
		progress.Show("%d of %d workspaces are checked", done, all)
	}
	var mu sync.Mutex
	found, repaired, failed, mayNotWrite := 0, 0, 0, false
	younger, err := repair.Run(ctx, o.under, func(r owner.Repaired) {
		mu.Lock()
		defer mu.Unlock()
		found++
		mayNotWrite = mayNotWrite || errors.Is(r.Err, owner.ErrMayNotWriteOwner)
		if r.Err != nil || r.Result.Outcome == owner.NotCorrectable {
			failed++
		} else if r.Result.Outcome == owner.Corrected {
			repaired++
		}
		if o.output != "table" { // which is printed at the end
			progress.Clear()
		}
		add(lines, r)
	})
	if progress.Clear() {
		fmt.Fprintf(notes, "%d workspaces were checked, %d were repaired\n", total, repaired)
	}
	err = errors.Join(err, lines.Flush())
	if found == 0 && younger > 0 {
		fmt.Fprintf(notes, "%d workspaces have been Initializing for less than %s, and were not checked: run this command again in %[2]s, or with --after=0s\n",
			younger, o.after)
	}
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d workspaces were repaired, %d could not be", repaired, failed)
		if mayNotWrite {
			err = fmt.Errorf("%w: add %s", err, o.writer())
		}
		err = cli.ExitError{Code: cli.ExitWrong, Err: err}
	}
	return err
}

// writer returns the flag for a user who may write owners.
func (o repairOptions) writer() string {
	if admin := kcp.SystemAdmin.String(); o.logicalClusterKubeconfig == "" && o.HasContext(admin) {
		return cli.KubeconfigFlags("", "", admin)[1:]
	}
	return "--logical-cluster-kubeconfig=FILE, of a member of the group system:kcp:external-logical-cluster-admin"
}

func (o repairOptions) repair() (*owner.Repair, error) {
	config, err := config.Load(o.config)
	if err != nil {
		return nil, err
	}
	reading, err := o.Config()
	if err != nil {
		return nil, err
	}
	writing := reading
	if o.logicalClusterKubeconfig != "" {
		if writing, err = cli.LoadKubeconfig(o.logicalClusterKubeconfig, ""); err != nil {
			return nil, err
		}
	}
	repair, err := cli.NewRepair(reading, writing, config)
	if err != nil {
		return nil, err
	}
	repair.After, repair.Steps.DryRun = o.after, o.dryRun
	repair.Limiter = cli.Limiter(o.rate)
	return repair, nil
}

// repaired is one line of the output.
type repaired struct {
	Path           string `json:"path"`
	LogicalCluster string `json:"logicalCluster"`
	Phase          string `json:"phase"`
	Outcome        string `json:"outcome"`
	Reason         string `json:"reason,omitempty"`
	Message        string `json:"message"`
}

// add adds the result of a workspace to the output.
func add(lines *cli.Lines, r owner.Repaired) {
	line := repaired{
		Path: r.Result.Path, LogicalCluster: r.Result.Cluster.String(), Phase: string(r.Result.Phase),
		Outcome: string(r.Result.Outcome), Reason: string(r.Result.Report.Reason), Message: owner.Sentence(r.Result, r.Err),
	}
	lines.Add(line, line.Path, line.Phase, line.Outcome, line.Message)
}
