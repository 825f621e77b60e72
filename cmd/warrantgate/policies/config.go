package policies

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/config"
	"warrantgate.dev/internal/config/v1beta1"
)

func newCheckConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config FILE",
		Short: "Check a configuration file of serve",
		Long: `Read a configuration file as serve reads it, and print all mistakes with their lines. Use /dev/stdin for standard input. Notes
on a valid file name gates that are off because they have neither a selector nor objects, and a default region that is not listed.

serve also checks that its flags and the file fit together, for example that cloudSigma.regions are listed if it has credentials for CloudSigma.

The exit status is 0 if there is no mistake, 1 if there is one, 2 if the file could not be read.`,
		Example: `  warrantgate check config config.yaml`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := config.Load(args[0])
			if _, wrong := errors.AsType[config.Mistakes](err); wrong {
				return cli.ExitError{Code: cli.ExitWrong, Err: err}
			}
			if err != nil {
				return err
			}
			text := args[0] + ": ok\n"
			for _, note := range v1beta1.Notes(loaded) {
				text += "  note: " + note + "\n"
			}
			_, err = io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedName() == "config" { // as of the other commands
			err = fmt.Errorf("%w: the file is an argument", err)
		}
		return cmd.Parent().FlagErrorFunc()(cmd, err)
	})
	return cmd
}
