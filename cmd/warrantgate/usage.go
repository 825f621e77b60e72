package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/message"
)

// helpWidth is the number of columns of the help.
const helpWidth = 80

// explainUsage makes the errors about the arguments and flags of all commands say what was meant, with an example, and fits their help into
// helpWidth columns.
func explainUsage(root *cobra.Command) {
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
			var names []string
			cmd.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
			err = didYouMean(err, "--", message.Nearest(unknown.GetSpecifiedName(), names))
		}
		return withExample(cmd, err)
	})
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { // before cobra checks the same
		return withExample(cmd, errors.Join(cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups()))
	}
	root.SetUsageFunc(printUsage)
	root.InitDefaultCompletionCmd() // which cobra adds later otherwise
	explainArguments(root)
}

// explainArguments is the part of explainUsage for a command and those below it.
func explainArguments(cmd *cobra.Command) {
	cmd.Long = wrap(cmd.Long, helpWidth)
	for _, child := range cmd.Commands() {
		explainArguments(child)
	}
	if cmd.HasSubCommands() {
		cmd.SuggestionsMinimumDistance = 2 // the default, which cobra sets later
		cmd.Args, cmd.RunE = cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		_, operands, _ := strings.Cut(cmd.Use, " ")
		switch err := check(cmd, args); {
		case err == nil:
			return nil
		case cmd.HasSubCommands():
			return withExample(cmd, didYouMean(fmt.Errorf("unknown command %q", args[0]), "", suggestion(cmd, args[0])))
		case len(args) == 0:
			return withExample(cmd, fmt.Errorf("%s is missing", operands))
		default:
			return withExample(cmd, fmt.Errorf("unexpected argument %q", args[len(strings.Fields(operands))]))
		}
	}
}

// suggestion returns the command that was meant: one of a similar name, or whose name begins so, or that to explain an object whose kind was left out.
// The argument of a command with a single one below it may be that of the latter.
func suggestion(cmd *cobra.Command, arg string) string {
	for separator, kind := range map[string]string{":": "workspace", "/": "machine"} {
		if cmd.Name() == "explain" && strings.Contains(arg, separator) {
			return fmt.Sprintf("explain %s %s", kind, arg)
		}
	}
	near, children := cmd.SuggestionsFor(arg), cmd.Commands()
	if len(near) == 0 && len(children) == 1 {
		return fmt.Sprintf("%s %s %s", cmd.Name(), children[0].Name(), arg)
	}
	return strings.Join(near, " or ")
}

// didYouMean appends a suggestion to an error, if there is one.
func didYouMean(err error, prefix, suggestion string) error {
	if suggestion == "" {
		return err
	}
	return fmt.Errorf("%w; did you mean %s%s?", err, prefix, suggestion)
}

// withExample appends the first example of a command, or how to get help, to an error about its use.
func withExample(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	hint := fmt.Sprintf("See \"%s --help\".", cmd.CommandPath())
	if _, example, ok := strings.Cut(cmd.Example, "  "+cmd.Root().CommandPath()+" "); ok {
		first := strings.Split(strings.ReplaceAll(example, "\\\n", "\\\r"), "\n")[0]
		hint += " For example:\n  " + cmd.Root().CommandPath() + " " + strings.ReplaceAll(first, "\r", "\n")
	}
	return fmt.Errorf("%w\n%s", err, hint)
}

// printUsage prints the part of the help below the description: as cobra does, but each flag above its meaning, within helpWidth columns.
func printUsage(cmd *cobra.Command) error {
	var b strings.Builder
	line := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		line = cmd.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(&b, "Usage:\n  %s\n", line)
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, child := range cmd.Commands() {
			fmt.Fprintf(&b, "  %-*s %s\n", cmd.Commands()[0].NamePadding(), child.Name(), child.Short)
		}
	}
	b.WriteString("\nFlags:\n")
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		alone := pflag.NewFlagSet("", pflag.ContinueOnError)
		alone.AddFlag(flag)
		name, meaning, _ := strings.Cut(strings.TrimLeft(alone.FlagUsages(), " "), "   ") // what pflag writes between them
		meaning = strings.ReplaceAll(wrap(meaning, helpWidth-6), "\n", "\n      ")
		fmt.Fprintf(&b, "  %s\n      %s\n", name, meaning)
	})
	_, err := io.WriteString(cmd.OutOrStderr(), b.String())
	return err
}

// wrap breaks the lines of paragraphs at a width. It does not change paragraphs that are indented, such as examples.
func wrap(text string, width int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, paragraph := range paragraphs {
		if strings.HasPrefix(paragraph, " ") || strings.HasPrefix(paragraph, "\t") {
			continue
		}
		paragraphs[i] = strings.Join(cli.Wrap(paragraph, width), "\n")
	}
	return strings.Join(paragraphs, "\n\n")
}
