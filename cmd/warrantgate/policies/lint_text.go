package policies

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/oslopolicy"
	"warrantgate.dev/webhooks"
)

const (
	// defaultColumns is the width of the text if there is no terminal.
	defaultColumns = 80
	// minMessageColumns is the least width of the messages in a table on a terminal. A narrower terminal gets a list.
	minMessageColumns = 60
)

// heading has the titles of the columns of a table.
var heading = []string{"PLACE", "SEVERITY", "CODE", "RULE", "MESSAGE"}

// printText prints findings for a terminal: as a table if it is wide, otherwise as a list. No line breaks within a word.
func printText(out io.Writer, all []linted, notes bool) error {
	groups := grouped(all, notes)
	width := columns(out)
	text := &bytes.Buffer{}
	if room := width - fixedColumns(rowsOf(groups)); room >= minMessageColumns {
		writeTable(text, groups, room)
	} else {
		writeList(text, groups, width)
	}
	writeSummary(text, all, notes, width)
	_, err := text.WriteTo(out)
	return err
}

// printTable prints findings as a table with one line for each, whatever the width of the terminal.
func printTable(out io.Writer, all []linted, notes bool) error {
	text := &bytes.Buffer{}
	writeTable(text, grouped(all, notes), 0)
	writeSummary(text, all, notes, 0)
	_, err := text.WriteTo(out)
	return err
}

// columns returns the number of columns of a terminal: $COLUMNS if it is set.
func columns(out io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if file, ok := out.(*os.File); ok {
		if n, _, err := term.GetSize(int(file.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return defaultColumns
}

// grouped returns the findings in groups about the same rule, the groups and their findings with the worst first.
func grouped(all []linted, notes bool) [][]oslopolicy.Finding {
	type key struct {
		place, rule string
	}
	worse := func(a, b oslopolicy.Finding) int {
		return cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity))
	}
	var groups [][]oslopolicy.Finding
	index := map[key]int{}
	for _, f := range findingsOf(all) {
		if f.Severity == oslopolicy.SeverityNote && !notes {
			continue
		}
		k := key{place: f.Place(), rule: f.Rule}
		at, ok := index[k]
		if !ok {
			at = len(groups)
			index[k], groups = at, append(groups, nil)
		}
		groups[at] = append(groups[at], f)
	}
	for _, group := range groups {
		slices.SortStableFunc(group, worse)
	}
	slices.SortStableFunc(groups, func(a, b []oslopolicy.Finding) int { return worse(a[0], b[0]) })
	return groups
}

// rowsOf returns the cells of a table with these findings.
func rowsOf(groups [][]oslopolicy.Finding) [][]string {
	rows := [][]string{heading}
	for _, f := range slices.Concat(groups...) {
		rows = append(rows, []string{oneTableCell(f.Place()), string(f.Severity), f.Code, oneTableCell(f.Rule), oneTableCell(f.Details())})
	}
	return rows
}

// fixedColumns returns the number of characters before the last column of a table.
func fixedColumns(rows [][]string) int {
	const separation = 2
	sum := 0
	for i := range len(heading) - 1 {
		width := 0
		for _, row := range rows {
			width = max(width, utf8.RuneCountInString(row[i]))
		}
		sum += width + separation
	}
	return sum
}

// writeTable writes a table whose last column has lines of at most room characters, or one line if room is 0.
func writeTable(text *bytes.Buffer, groups [][]oslopolicy.Finding, room int) {
	if len(groups) == 0 {
		return
	}
	var lines [][]string
	for _, row := range rowsOf(groups) {
		last := len(row) - 1
		for i, line := range cli.Wrap(row[last], room) {
			if i > 0 {
				row = make([]string, len(row))
			}
			row[last] = line
			lines = append(lines, row)
		}
	}
	cli.Table(text, "", lines)
}

// writeList writes findings as a list, with at most width characters in a line unless a word is longer.
func writeList(text *bytes.Buffer, groups [][]oslopolicy.Finding, width int) {
	paragraph := func(indent, content string) {
		for _, line := range cli.Wrap(oneTableCell(content), max(width-len(indent), 1)) {
			text.WriteString(indent + line + "\n")
		}
	}
	for _, group := range groups {
		paragraph("", strings.TrimSpace(group[0].Place()+" "+group[0].Rule))
		for _, f := range group {
			paragraph("  ", fmt.Sprintf("%s %s: %s", f.Severity, f.Code, f.Message))
			if f.Suggestion != "" {
				paragraph("    ", f.Suggestion)
			}
			if f.Witness != nil {
				paragraph("    ", "for example "+f.Witness.Command())
			}
		}
		text.WriteString("\n")
	}
}

// writeSummary writes how many notes are left out, and for each FILE the number of its findings and the verdict of the gate.
func writeSummary(text *bytes.Buffer, all []linted, notes bool, width int) {
	if left := count(findingsOf(all), oslopolicy.SeverityNote); left > 0 && !notes {
		fmt.Fprintf(text, "%s (--notes)\n", counted(left, oslopolicy.SeverityNote))
	}
	const indent = "  "
	if width > 0 {
		width = max(width-len(indent), 1)
	}
	for _, l := range all {
		line := fmt.Sprintf("%s: %s; %s", l.name, counts(l.findings), verdict(l))
		text.WriteString(strings.Join(cli.Wrap(oneTableCell(line), width), "\n"+indent) + "\n")
	}
}

// counts returns the numbers of findings, such as "2 errors, 1 note".
func counts(findings []oslopolicy.Finding) string {
	var parts []string
	for _, severity := range severities {
		if n := count(findings, severity); n > 0 {
			parts = append(parts, counted(n, severity))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing found")
}

func count(findings []oslopolicy.Finding, severity oslopolicy.Severity) int {
	n := 0
	for _, f := range findings {
		if f.Severity == severity {
			n++
		}
	}
	return n
}

// counted says how many findings there are. The linter reports a limited number.
func counted(n int, severity oslopolicy.Severity) string {
	switch {
	case n == 1:
		return fmt.Sprintf("1 %s", severity)
	case n >= oslopolicy.MaxFindings:
		return fmt.Sprintf("at least %d %ss", n, severity)
	}
	return fmt.Sprintf("%d %ss", n, severity)
}

// verdict returns the verdict of the gate.
func verdict(l linted) string {
	switch l.decision {
	case webhooks.Allowed:
		return "the gate admits it"
	case webhooks.Warned:
		return fmt.Sprintf("the gate admits it with a warning (%s)", l.reason)
	case webhooks.Denied, webhooks.Undecided:
	}
	return fmt.Sprintf("the gate denies it (%s)", l.reason)
}

// oneTableCell keeps text from a file from adding lines or columns to the table, and from controlling the terminal.
func oneTableCell(text string) string {
	return message.Printable(strings.Join(strings.Fields(text), " "))
}
