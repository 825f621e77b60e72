package policies

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/preflight"
)

// Results of a check.
const (
	resultOK      = "ok"
	resultWrong   = "wrong"
	resultUnknown = "unknown"
)

// verdicts are the verdicts of the results.
var verdicts = map[string]preflight.Answer{resultOK: preflight.Yes, resultWrong: preflight.No, resultUnknown: preflight.Unknown}

// checks are the results of a command that checks several things.
type checks struct {
	Checks []checked `json:"checks"`
}

// checked is what was checked, with the result.
type checked struct {
	Name string `json:"name"`
	// Result is ok, wrong or unknown.
	Result string `json:"result"`
	// Answer is the result in a word, such as NOT DENIED.
	Answer  string   `json:"answer"`
	Details []string `json:"details,omitempty"`
}

// addOutputFlag adds --output, for the formats of cli.PrintReport.
func addOutputFlag(flags *pflag.FlagSet, output *string) {
	flags.StringVarP(output, "output", "o", cli.FormatText, "text, json or yaml")
}

// add adds a result. The text is the answer, and below it, indented by two spaces, the details.
func (c *checks) add(name, result, text string) {
	lines := strings.Split(text, "\n  ")
	c.Checks = append(c.Checks, checked{Name: name, Result: result, Answer: lines[0], Details: lines[1:]})
}

func (c *checks) has(result string) bool {
	return slices.ContainsFunc(c.Checks, func(one checked) bool { return one.Result == result })
}

// print prints the results in a format.
func (c *checks) print(out io.Writer, format string) error {
	return cli.PrintReport(out, format, c, func(out io.Writer) error {
		text := &strings.Builder{}
		for _, one := range c.Checks {
			fmt.Fprintf(text, "%s: %s\n", one.Name, strings.Join(append([]string{cli.Color(out, verdicts[one.Result], one.Answer)}, one.Details...), "\n  "))
		}
		_, err := io.WriteString(out, text.String())
		return err
	})
}

// status returns the error for the exit status.
func (c *checks) status() error {
	switch {
	case c.has(resultWrong):
		return cli.ExitError{Code: cli.ExitWrong}
	case c.has(resultUnknown):
		return cli.ExitError{Code: cli.ExitUnknown}
	}
	return nil
}
