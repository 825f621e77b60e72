package install

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"warrantgate.dev/initializers/owner"
)

// addWaitingFlag adds the flag with which a command removes the WorkspaceType warranted although workspaces wait for its initializer.
func (t *kcpTarget) addWaitingFlag(flags *pflag.FlagSet, verb string) {
	flags.BoolVar(&t.ignoreWaiting, "ignore-waiting", false,
		verb+" although workspaces wait for the initializer of the WorkspaceType warranted; they stay in Initializing")
}

// maxListed limits how many waiting workspaces an error names.
const maxListed = 5

// checkWaiting returns an error if workspaces wait for the initializer, or if that could not be determined, unless they are ignored. A
// command calls it before it removes the WorkspaceType.
func (t kcpTarget) checkWaiting(ctx context.Context) error {
	if t.ignoreWaiting {
		return nil
	}
	config, err := t.rootConfig()
	if err != nil {
		return err
	}
	shards, err := owner.NewShards(config)
	if err != nil {
		return err
	}
	waiting, err := shards.Waiting(ctx)
	if err != nil {
		return fmt.Errorf("nothing was changed, because it could not be determined which workspaces wait for the initializer of the WorkspaceType "+
			"warranted: %w; run this command again, or with --ignore-waiting", err)
	}
	if len(waiting) == 0 {
		return nil
	}
	list := strings.Join(waiting[:min(len(waiting), maxListed)], "\n  ")
	if more := len(waiting) - maxListed; more > 0 {
		list += fmt.Sprintf("\n  and %d more", more)
	}
	return fmt.Errorf("nothing was changed, because workspaces wait for the initializer of the WorkspaceType warranted, %d in all, and would stay in "+
		"Initializing without it:\n  %s\nKeep `warrantgate serve` running, with the repair on, until they are Ready (`warrantgate explain workspace "+
		"PATH` says what one lacks), or delete them. Then run this command again. With --ignore-waiting it does not wait for them; to finish "+
		"these workspaces later, run `warrantgate install kcp` and `warrantgate serve` again, with the repair on", len(waiting), list)
}
