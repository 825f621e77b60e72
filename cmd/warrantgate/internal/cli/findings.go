package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"

	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/preflight"
)

// Status returns the error for the exit status of a verdict.
func Status(verdict preflight.Answer) error {
	switch verdict {
	case preflight.Yes:
		return nil
	case preflight.No:
		return ExitError{Code: ExitWrong}
	default:
		return ExitError{Code: ExitUnknown}
	}
}

// Verdicts are the sentences before the findings, by the verdict.
type Verdicts map[preflight.Answer]string

// OfObject are the verdicts on an object.
var OfObject = Verdicts{
	preflight.Yes:     "Nothing is wrong with it.",
	preflight.No:      "Something is wrong with it:",
	preflight.Unknown: "Whether something is wrong with it could not be determined:",
}

// PrintFindings prints the verdict, and then the findings: first what is wrong, then what is unknown, and information last.
// The verdict is in color if out, which the text is for, is a terminal.
func PrintFindings(out io.Writer, text *bytes.Buffer, verdicts Verdicts, findings []preflight.Finding) error {
	verdict := preflight.Verdict(findings)
	fmt.Fprintf(text, "\n%s\n", Color(out, verdict, verdicts[verdict]))
	order := func(f preflight.Finding) int {
		switch {
		case f.Advisory:
			return 2
		case f.Reason == preflight.Undetermined:
			return 1
		}
		return 0
	}
	for _, finding := range slices.SortedStableFunc(slices.Values(findings), func(a, b preflight.Finding) int { return order(a) - order(b) }) {
		note := ""
		if finding.Advisory {
			note = " (for information)"
		}
		fmt.Fprintf(text, "\n  %s%s\n    %s\n", message.Printable(string(finding.Reason)), note, message.Printable(finding.Message))
		if finding.Next != "" {
			fmt.Fprintf(text, "    What to do: %s\n", message.Printable(finding.Next))
		}
		if finding.Grant == nil {
			continue
		}
		fmt.Fprintln(text, "    For kubectl apply: -o objects prints only the objects.")
		for _, object := range finding.Grant.Objects {
			document, err := message.YAML(object)
			if err != nil {
				return err
			}
			fmt.Fprintf(text, "\n---\n%s", document) // without indentation, to be copied
		}
	}
	return nil
}

// PrintObjects prints the objects of findings, to be applied. It notes the command for each of their workspaces, or what else is to be done.
func PrintObjects(out, notes io.Writer, findings []preflight.Finding, apply func(workspace string) (string, error)) error {
	text, where := &bytes.Buffer{}, []string{}
	for _, finding := range findings {
		if finding.Grant == nil {
			continue
		}
		workspace := message.Printable(finding.Grant.Workspace)
		if !slices.Contains(where, workspace) {
			where = append(where, workspace)
		}
		for _, object := range finding.Grant.Objects {
			document, err := message.YAML(object)
			if err != nil {
				return err
			}
			fmt.Fprintf(text, "---\n# in workspace %s\n%s", workspace, document)
		}
	}
	if _, err := out.Write(text.Bytes()); err != nil {
		return err
	}
	for _, workspace := range where {
		command, err := apply(workspace)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(notes, "Apply the objects of workspace %s with: %s\n", workspace, command); err != nil {
			return err
		}
	}
	if len(where) > 0 {
		return nil
	}
	return noObjects(notes, findings)
}

// noObjects says what is to be done about findings that no objects repair.
func noObjects(notes io.Writer, findings []preflight.Finding) error {
	text := &bytes.Buffer{}
	for _, finding := range findings {
		if !finding.Advisory {
			fmt.Fprintf(text, "No objects to apply: %s: %s\n", finding.Reason, message.Printable(cmp.Or(finding.Next, finding.Message)))
		}
	}
	if text.Len() == 0 {
		text.WriteString("No objects to apply: nothing is wrong\n")
	}
	_, err := notes.Write(text.Bytes())
	return err
}
