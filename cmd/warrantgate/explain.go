package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/internal/preflight"
)

// Exit codes of explain, which are its answer for scripts.
const (
	exitWrong   = 1
	exitUnknown = 2
)

// exitError ends the program with a code of its own. Commands whose exit code is an answer return one.
type exitError struct {
	code int
	// err is printed; nil if all has been said.
	err error
}

func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

// exitCode is the code that an error of a command ends the program with, and what is to be printed, if anything.
func exitCode(err error) (code int, message error) {
	if exit, ok := errors.AsType[exitError](err); ok {
		return exit.code, exit.err
	}
	return 1, err
}

// requestTimeout bounds each question to kcp.
const requestTimeout = 15 * time.Second

type explainOptions struct {
	kubeconfig, context string
	output              string
}

func newExplainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Say what is wrong with an object",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newExplainWorkspaceCommand())
	return cmd
}

func newExplainWorkspaceCommand() *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "workspace PATH",
		Short: "Say why a workspace is not Ready, and what to do",
		Long: `Say why a workspace is not Ready, and what to do: as whom kcp acts for it, which initializers and API bindings it
waits for, and which rights are missing. PATH is a path such as root:orgs:team-a, or the name of a logical cluster.

It writes nothing and needs no running warrantgate, only a kubeconfig for kcp. What the user of that may not read or
ask is said to be unknown, with the right that is missing. Rights are asked of kcp itself, with SubjectAccessReviews.

The exit status is 0 if nothing is wrong, 1 if something is, 2 if that could not be told.`,
		Example: `  warrantgate explain workspace root:orgs:team-a --kubeconfig=admin.kubeconfig
  warrantgate explain workspace root:orgs:team-a -o json`,
		Args: func(cmd *cobra.Command, args []string) error { return unknownIfError(cobra.ExactArgs(1)(cmd, args)) },
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return unknownIfError(err) })
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig for kcp (default $KUBECONFIG)")
	flags.StringVar(&o.context, "context", "", "context in that kubeconfig (default its current one)")
	flags.StringVarP(&o.output, "output", "o", "text", "text, json or yaml")
	return cmd
}

// unknownIfError makes an error one after which nothing is known.
func unknownIfError(err error) error {
	if err == nil {
		return nil
	}
	return exitError{code: exitUnknown, err: err}
}

func (o explainOptions) run(ctx context.Context, path string, out io.Writer) error {
	report, err := o.report(ctx, path)
	if err != nil {
		return unknownIfError(err)
	}
	if err := o.print(out, report); err != nil {
		return unknownIfError(err)
	}
	switch report.Verdict() {
	case preflight.Yes:
		return nil
	case preflight.No:
		return exitError{code: exitWrong}
	default:
		return exitError{code: exitUnknown}
	}
}

func (o explainOptions) report(ctx context.Context, path string) (preflight.Report, error) {
	if printers[o.output] == nil {
		return preflight.Report{}, fmt.Errorf("--output: %q must be text, json or yaml", o.output)
	}
	where := logicalcluster.NewPath(path)
	if !where.IsValid() {
		return preflight.Report{}, fmt.Errorf("%q is not the path of a workspace, such as root:orgs:team-a", path)
	}
	config, err := loadKubeconfig(o.kubeconfig, o.context)
	if err != nil {
		return preflight.Report{}, err
	}
	config.Timeout = requestTimeout
	clients, err := kcp.NewClients(config)
	if err != nil {
		return preflight.Report{}, err
	}
	checker := preflight.Checker{Client: clients}
	ws, err := checker.Load(ctx, where)
	if err != nil {
		return preflight.Report{}, err
	}
	return checker.Check(ctx, ws), nil
}

// printers are the forms of output.
var printers = map[string]func(io.Writer, preflight.Report) error{
	"text": printExplanation,
	"json": func(out io.Writer, report preflight.Report) error {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	},
	"yaml": func(out io.Writer, report preflight.Report) error {
		document, err := yaml.Marshal(report)
		if err == nil {
			_, err = out.Write(document)
		}
		return err
	},
}

func (o explainOptions) print(out io.Writer, report preflight.Report) error {
	return printers[o.output](out, report)
}

// asKubectlPlugin has help show the program as it was called: kubectl runs a program kubectl-warrantgate as "kubectl
// warrantgate".
func asKubectlPlugin(root *cobra.Command, program string) {
	if !strings.HasPrefix(filepath.Base(program), "kubectl-") {
		return
	}
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl " + root.Name()}
	var rename func(*cobra.Command)
	rename = func(cmd *cobra.Command) {
		cmd.Example = strings.ReplaceAll(cmd.Example, "  "+root.Name()+" ", "  kubectl "+root.Name()+" ")
		for _, child := range cmd.Commands() {
			rename(child)
		}
	}
	rename(root)
}
