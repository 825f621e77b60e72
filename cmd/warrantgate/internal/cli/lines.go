package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"warrantgate.dev/internal/message"
)

// Lines prints results one by one: as a table, or as JSON with one object per line.
type Lines struct {
	table   *tabwriter.Writer // nil for JSON
	encoder *json.Encoder
	err     error
}

// NewLines returns the lines for a value of --output. header is that of the table.
func NewLines(out io.Writer, format string, header ...string) (*Lines, error) {
	switch format {
	case formatJSON:
		return &Lines{encoder: json.NewEncoder(message.JSON(out))}, nil
	case "table":
		l := &Lines{table: tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)}
		l.row(header)
		return l, nil
	}
	return nil, fmt.Errorf("--output: %q is neither table nor json", format)
}

// Add prints a result: the cells in a table, or the object in JSON. Tenants wrote some of the cells.
func (l *Lines) Add(object any, cells ...string) {
	if l.table == nil {
		l.err = errors.Join(l.err, l.encoder.Encode(object))
		return
	}
	l.row(cells)
}

func (l *Lines) row(cells []string) {
	printable := make([]string, 0, len(cells))
	for _, cell := range cells {
		printable = append(printable, message.Printable(cell))
	}
	_, err := fmt.Fprintln(l.table, strings.Join(printable, "\t"))
	l.err = errors.Join(l.err, err)
}

// Flush prints the table, and returns the first error.
func (l *Lines) Flush() error {
	if l.table != nil {
		l.err = errors.Join(l.err, l.table.Flush())
	}
	return l.err
}
