package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"warrantgate.dev/internal/preflight"
)

func isTerminal(out io.Writer) bool {
	file, ok := out.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(file.Fd()))
}

// Color returns a text in the color of a verdict: green, red or yellow. It returns the text alone if out is no terminal, or with $NO_COLOR.
func Color(out io.Writer, verdict preflight.Answer, text string) string {
	if !isTerminal(out) || os.Getenv("NO_COLOR") != "" {
		return text
	}
	colors := map[preflight.Answer]int{preflight.Yes: 32, preflight.No: 31, preflight.Unknown: 33}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", colors[verdict], text)
}

const (
	// progressDelay is how long a command works before it shows its progress, progressInterval the time between two updates.
	progressDelay    = 2 * time.Second
	progressInterval = 100 * time.Millisecond
	clearLine        = "\r\x1b[K"
)

// Progress shows on one line of a terminal what a command has done, once that takes longer than two seconds. It is safe for concurrent use.
type Progress struct {
	out  io.Writer // nil if it is no terminal
	mu   sync.Mutex
	next time.Time
	// line is whether there is a line now, and shown whether there was one.
	line, shown bool
}

// NewProgress returns the progress of a command that begins now. Nothing is shown if out is no terminal.
func NewProgress(out io.Writer) *Progress {
	p := &Progress{next: time.Now().Add(progressDelay)}
	if isTerminal(out) {
		p.out = out
	}
	return p
}

// Show replaces the line.
func (p *Progress) Show(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out == nil || time.Now().Before(p.next) {
		return
	}
	p.line, p.shown, p.next = true, true, time.Now().Add(progressInterval)
	fmt.Fprintf(p.out, clearLine+format, args...)
}

// Clear removes the line, before other output and at the end. It reports whether there was one at some time.
func (p *Progress) Clear() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line {
		fmt.Fprint(p.out, clearLine)
	}
	p.line = false
	return p.shown
}
