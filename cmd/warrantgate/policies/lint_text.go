package policies

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

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
	rows := rowsOf(groups)
	text := &strings.Builder{}
	switch room := width - fixedColumns(rows); {
	case len(groups) == 0:
	case room >= minMessageColumns:
		writeTable(text, rows, room)
	default:
		writeList(text, groups, width)
	}
	writeSummary(text, all, notes, width)
	_, err := io.WriteString(out, text.String())
	return err
}

// printTable prints findings as a table with one line for each, whatever the width of the terminal.
func printTable(out io.Writer, all []linted, notes bool) error {
	text := &strings.Builder{}
	if groups := grouped(all, notes); len(groups) > 0 {
		writeTable(text, rowsOf(groups), 0)
	}
	writeSummary(text, all, notes, 0)
	_, err := io.WriteString(out, text.String())
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

// widths returns the widths of all columns of a table but the last one.
func widths(rows [][]string) []int {
	widths := make([]int, len(heading)-1)
	for _, row := range rows {
		for i := range widths {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	return widths
}

// separation is the number of spaces between two columns.
const separation = 2

// fixedColumns returns the number of characters before the last column of a table.
func fixedColumns(rows [][]string) int {
	sum := 0
	for _, width := range widths(rows) {
		sum += width + separation
	}
	return sum
}

// writeTable writes a table whose last column has lines of at most room characters, or one line if room is 0.
func writeTable(text *strings.Builder, rows [][]string, room int) {
	fixed := widths(rows)
	indent := strings.Repeat(" ", fixedColumns(rows))
	for _, row := range rows {
		for i, width := range fixed {
			fmt.Fprintf(text, "%-*s", width+separation, row[i])
		}
		text.WriteString(strings.Join(wrap(row[len(fixed)], room), "\n"+indent))
		text.WriteString("\n")
	}
}

// writeList writes findings as a list, with at most width characters in a line unless a word is longer.
func writeList(text *strings.Builder, groups [][]oslopolicy.Finding, width int) {
	paragraph := func(indent, content string) {
		for _, line := range wrap(oneTableCell(content), max(width-len(indent), 1)) {
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
				paragraph("    ", "for example "+f.Witness.String())
			}
		}
		text.WriteString("\n")
	}
}

// writeSummary writes how many notes are left out, and for each FILE the number of its findings and the verdict of the gate.
func writeSummary(text *strings.Builder, all []linted, notes bool, width int) {
	left := 0
	for _, f := range findingsOf(all) {
		if f.Severity == oslopolicy.SeverityNote && !notes {
			left++
		}
	}
	if left > 0 {
		fmt.Fprintf(text, "%s (--notes)\n", counted(left, oslopolicy.SeverityNote))
	}
	const indent = "  "
	if width > 0 {
		width = max(width-len(indent), 1)
	}
	for _, l := range all {
		line := fmt.Sprintf("%s: %s; %s", l.name, counts(l.findings), verdict(l))
		text.WriteString(strings.Join(wrap(oneTableCell(line), width), "\n"+indent) + "\n")
	}
}

// counts returns the number of findings of each severity, such as "2 errors, 1 note".
func counts(findings []oslopolicy.Finding) string {
	var parts []string
	for _, severity := range severities {
		n := 0
		for _, f := range findings {
			if f.Severity == severity {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, counted(n, severity))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing found")
}

func counted(n int, severity oslopolicy.Severity) string {
	if n == 1 {
		return fmt.Sprintf("1 %s", severity)
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

// wrap splits a text between words into lines of at most width characters. A word that is longer has a line of its own. Without a width,
// it is one line.
func wrap(text string, width int) []string {
	var lines []string
	length := 0
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		if len(lines) == 0 || width > 0 && length+1+n > width {
			lines, length = append(lines, word), n
			continue
		}
		lines[len(lines)-1] += " " + word
		length += 1 + n
	}
	return lines
}

// oneTableCell keeps text from a file from adding lines or columns to the table, and from controlling the terminal.
func oneTableCell(text string) string {
	return message.Printable(strings.Join(strings.Fields(text), " "))
}
