package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// width is the width of a terminal. No line is longer, so that the terminal does not break lines.
	width = 100
	// pollInterval is the interval between two checks.
	pollInterval = 25 * time.Millisecond
)

// print prints lines, counts and keeps them.
func (d *demo) print(text string) {
	d.lines += strings.Count(text, "\n") + 1
	d.printed.WriteString(text + "\n")
	fmt.Println(text)
}

// heading prints the title of a step.
func (d *demo) heading(text string) {
	d.print("\n" + text)
}

// say prints a sentence.
func (d *demo) say(format string, args ...any) {
	d.print(fold(fmt.Sprintf(format, args...), "  ", "  "))
}

// quote prints the output of another program, line by line.
func (d *demo) quote(text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		d.print(fold(line, "      ", "          "+indent))
	}
}

// show prints the output of warrantgate.
func (d *demo) show(text string) {
	d.quote(d.shorten(text))
}

// showCommand prints a command line that a user can run in a shell where DIR is set.
func (d *demo) showCommand(args []string) {
	d.show("$ " + strings.Join(append([]string{filepath.Base(args[0])}, args[1:]...), " "))
}

// shorten removes the long names of the temporary directories.
func (d *demo) shorten(text string) string {
	if d.machines.api != nil {
		text = strings.ReplaceAll(text, d.machines.api.Dir(), "$API")
	}
	if d.kcp != nil {
		text = strings.ReplaceAll(text, d.kcp.Dir(), "$DIR")
	}
	return text
}

// fold breaks a line at blanks. A word that is too long stays in one piece.
func fold(line, first, further string) string {
	var text strings.Builder
	text.WriteString(first)
	column, empty := utf8.RuneCountInString(first), true
	for i, word := range strings.Split(line, " ") {
		length := utf8.RuneCountInString(word)
		if i > 0 {
			if column+1+length > width && !empty {
				text.WriteString("\n" + further)
				column = utf8.RuneCountInString(further)
			} else {
				text.WriteString(" ")
				column++
			}
		}
		text.WriteString(word)
		column += length
		empty = empty && word == ""
	}
	return text.String()
}

func seconds(d time.Duration) string {
	return fmt.Sprintf("%.1f s", d.Seconds())
}
