package main

import (
	"fmt"
	"html"
	"strings"
)

// Sizes of a picture in pixels. Fonts differ, so a column is a bit wider than a character of the font.
const (
	columnWidth, lineHeight, margin = 8, 18, 16
)

// picture is an SVG of a terminal in which a command printed a text.
func picture(command, text string) string {
	lines := append([]string{"$ " + command}, strings.Split(strings.TrimRight(text, "\n"), "\n")...)
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d"
  font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="13">
<rect width="100%%" height="100%%" rx="8" fill="#0d1117"/>
`, width*columnWidth+2*margin, len(lines)*lineHeight+2*margin)
	for i, line := range lines {
		if line == "" {
			continue
		}
		baseline := margin + (i+1)*lineHeight - 5
		fmt.Fprintf(&svg, `<text x="%d" y="%d" xml:space="preserve" %s>%s</text>`+"\n", margin, baseline, style(line), html.EscapeString(line))
	}
	return svg.String() + "</svg>\n"
}

// style is how a line looks: headings begin in the first column, commands with a prompt.
func style(line string) string {
	switch trimmed := strings.TrimSpace(line); {
	case strings.HasPrefix(trimmed, "$ "):
		return `fill="#79c0ff"`
	case trimmed == line:
		return `fill="#7ee787" font-weight="bold"`
	default:
		return `fill="#c9d1d9"`
	}
}
