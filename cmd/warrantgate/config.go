package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"warrantgate.dev/internal/config"
	"warrantgate.dev/internal/config/v1beta1"
)

func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Work on configuration files of serve",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigConvertCommand())
	return cmd
}

func newConfigConvertCommand() *cobra.Command {
	var filename string
	cmd := &cobra.Command{
		Use:   "convert",
		Short: "Print a configuration file in the current version",
		Long: `Print a configuration file in the current version, ` + v1beta1.APIVersion + `. It means the same.

What is printed is what the file says, without the defaults of what it leaves out. Its comments are lost, and its fields are
in the order of the alphabet. A file that has the current version already is printed as it is.

A file with a mistake is not converted: the mistakes are told as serve would tell them.`,
		Example: `  warrantgate config convert -f config.yaml >converted.yaml
  kubectl get configmap warrantgate -o jsonpath='{.data.config\.yaml}' | warrantgate config convert`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return convertConfig(filename, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&filename, "filename", "f", "-", "configuration file to convert; - is the standard input")
	return cmd
}

func convertConfig(filename string, in io.Reader, out io.Writer) error {
	name, read := filename, func() ([]byte, error) { return os.ReadFile(filename) }
	if filename == "-" {
		name, read = "from the standard input", func() ([]byte, error) { return io.ReadAll(in) }
	}
	raw, err := read()
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	converted, err := config.Convert(raw)
	if err != nil {
		return fmt.Errorf("configuration %s: %w", name, err)
	}
	_, err = out.Write(converted)
	return err
}
