package cli

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/go-logr/logr"
)

// NewLogger returns a logger for the values of --log-level and --log-format.
func NewLogger(out io.Writer, level, format string) (logr.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return logr.Logger{}, fmt.Errorf("--log-level: %w", err)
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case "json":
		return logr.FromSlogHandler(slog.NewJSONHandler(out, options)), nil
	case "text":
		return logr.FromSlogHandler(slog.NewTextHandler(out, options)), nil
	default:
		return logr.Logger{}, fmt.Errorf("--log-format: %q is neither json nor text", format)
	}
}
