package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"warrantgate.dev/internal/message"
)

// Formats of a report.
const (
	FormatText = "text"
	formatJSON = "json"
	formatYAML = "yaml"
)

// CheckFormat returns an error if a value of --output is no format of a report.
func CheckFormat(format string) error {
	switch format {
	case FormatText, formatJSON, formatYAML:
		return nil
	}
	return fmt.Errorf("--output: %q must be one of text, json, yaml", format)
}

// PrintReport prints a report in a format. text prints it as text.
func PrintReport(out io.Writer, format string, report any, text func(io.Writer) error) error {
	switch format {
	case formatJSON:
		encoder := json.NewEncoder(message.JSON(out))
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	case formatYAML:
		document, err := message.YAML(report)
		if err == nil {
			_, err = out.Write(document)
		}
		return err
	}
	return text(out)
}

// Table prints rows in aligned columns, for a terminal.
func Table(text *bytes.Buffer, indent string, rows [][]string) {
	w := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = message.Printable(cell)
		}
		fmt.Fprintln(w, indent+strings.Join(cells, "\t"))
	}
	w.Flush() // into a buffer
}

// Wrap splits a text between words into lines of at most width characters. A word that is longer has a line of its own. Without a width,
// it is one line.
func Wrap(text string, width int) []string {
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
