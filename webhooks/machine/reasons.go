package machine

import (
	_ "embed" // for the table of reasons
	"strings"
)

//go:embed README.md
var readme string

// WhatToDo returns what the table of reasons in the README says about a reason, or "" if it does not have the reason.
func WhatToDo(reason string) string {
	_, reasons, _ := strings.Cut(readme, "\n## Reasons\n")
	for line := range strings.Lines(reasons) {
		cells := strings.Split(line, "|")
		if len(cells) == 4 && strings.Contains(cells[1], "`"+reason+"`") {
			return strings.ReplaceAll(strings.TrimSpace(cells[2]), "`", "")
		}
	}
	return ""
}
