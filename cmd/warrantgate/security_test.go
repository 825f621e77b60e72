package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestTheThreatModelIsShownByTestsThatThereAre checks that all 18 threats have an answer, and that each one names an existing test or says
// that it is not covered.
func TestTheThreatModelIsShownByTestsThatThereAre(t *testing.T) {
	_, table, found := strings.Cut(readFile(t, "../../SECURITY.md"), "| # | Threat |")
	if !found {
		t.Fatal("SECURITY.md has no table of threats")
	}
	link := regexp.MustCompile(`\[[^\]]+\]\(([^)]+)\)`)
	number := 0
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) != 6 || !strings.HasPrefix(row, "| ") || strings.HasPrefix(row, "| # ") {
			continue
		}
		number++
		if got := strings.TrimSpace(cells[1]); got != strconv.Itoa(number) {
			t.Errorf("threat %s stands where %d is expected", got, number)
		}
		tests := link.FindAllStringSubmatch(cells[4], -1)
		if (len(tests) == 0) != strings.Contains(cells[3], "Not covered") {
			t.Errorf("threat %d: %q, shown by %q", number, cells[3], cells[4])
		}
		for _, test := range tests {
			if _, err := os.Stat("../../" + test[1]); err != nil || !strings.HasSuffix(test[1], "_test.go") {
				t.Errorf("threat %d: %s is no test: %v", number, test[1], err)
			}
		}
	}
	if number != 18 {
		t.Errorf("%d threats, want 18", number)
	}
}

// TestTheGuaranteesAreAttackedByTestsThatThereAre checks that each guarantee names existing suites.
func TestTheGuaranteesAreAttackedByTestsThatThereAre(t *testing.T) {
	_, section, found := strings.Cut(readFile(t, "../../SECURITY.md"), "## Guarantees\n")
	section, _, end := strings.Cut(section, "\n## ")
	if !found || !end {
		t.Fatal("SECURITY.md has no section of guarantees")
	}
	link := regexp.MustCompile(`\[[^\]]+\]\(([^)]+_test\.go)\)`)
	number := 0
	for row := range strings.Lines(section) {
		cells := strings.Split(row, "|")
		if len(cells) != 5 || cells[1] != " "+strconv.Itoa(number+1)+" " {
			continue
		}
		number++
		tests := link.FindAllStringSubmatch(cells[3], -1)
		if len(tests) == 0 {
			t.Errorf("guarantee %d names no test", number)
		}
		for _, test := range tests {
			if _, err := os.Stat("../../" + test[1]); err != nil {
				t.Errorf("guarantee %d: %v", number, err)
			}
		}
	}
	if number != 7 {
		t.Errorf("%d guarantees, want 7", number)
	}
}
