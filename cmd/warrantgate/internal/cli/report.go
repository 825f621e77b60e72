package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

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
