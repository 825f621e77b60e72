package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"warrantgate.dev/internal/config/v1beta1"
)

// item is an element of a list, in YAML. Its key is the same in all configurations.
type item struct {
	key, text string
}

// list returns the template of a list: the items of the full configuration, with what each setting adds in a block of its own.
func list(settings []setting, items func(v1beta1.GateConfiguration) ([]item, error)) (string, error) {
	without := make([]map[string]string, len(settings))
	for i, s := range settings {
		config := full()
		s.remove(&config)
		found, err := items(config)
		if err != nil {
			return "", err
		}
		without[i] = map[string]string{}
		for _, item := range found {
			without[i][item.key] = item.text
		}
	}
	found, err := items(full())
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, item := range found {
		if strings.Contains(item.text, "{{") {
			return "", fmt.Errorf("%s contains an action of a template: %s", item.key, item.text)
		}
		var open, end string
		var additions []addition
		for i, s := range settings {
			text, exists := without[i][item.key]
			switch {
			case !exists:
				open, end = open+s.open+"\n", end+"{{- end }}\n"
			case text != item.text:
				added, err := addedTo(text, item.text)
				if err != nil {
					return "", fmt.Errorf("%s, without %s: %w", item.key, s.open, err)
				}
				added.open = s.open
				additions = append(additions, added)
			}
		}
		out.WriteString(open + withBlocks(item.text, additions) + end)
	}
	text := placeholders.Replace(out.String())
	if left := placeholder.FindString(text); left != "" {
		return "", fmt.Errorf("the placeholder %s is not replaced", left)
	}
	return text, nil
}

// placeholder is what the values of the full configuration look like.
var placeholder = regexp.MustCompile(`\{[a-zA-Z]+\}`)

// addition is what a setting adds to a text: its bytes from start to end.
type addition struct {
	start, end int
	open       string
}

// addedTo returns what was added to a text. If the addition is whole lines, it begins with a line. If it is an element of a list, it begins with
// the comma.
func addedTo(before, after string) (addition, error) {
	start := 0
	for start < len(before) && start < len(after) && before[start] == after[start] {
		start++
	}
	end := start + len(after) - len(before)
	if end <= start || after[:start]+after[end:] != before {
		return addition{}, fmt.Errorf("the setting changes more than one place, from\n%s\nto\n%s", before, after)
	}
	for shift := 0; shift < start && after[start-shift-1] == after[end-shift-1]; shift++ {
		switch at := start - shift - 1; after[at] {
		case '\n':
			return addition{start: at + 1, end: end - shift}, nil
		case ',':
			return addition{start: at, end: end - shift - 1}, nil
		}
	}
	return addition{start: start, end: end}, nil
}

// withBlocks puts each addition to a text into a block of the template, on lines of its own if the addition is whole lines. An addition may
// contain others.
func withBlocks(text string, additions []addition) string {
	slices.SortFunc(additions, func(a, b addition) int { return cmp.Compare(b.end-b.start, a.end-a.start) }) // outer ones first
	opens, ends := map[int]string{}, map[int]string{}
	for _, a := range additions {
		open, end := strings.Replace(a.open, "{{-", "{{", 1), "{{ end }}"
		if strings.HasPrefix(a.open, "{{-") && (a.start == 0 || text[a.start-1] == '\n') {
			open, end = a.open+"\n", "{{- end }}\n"
		}
		opens[a.start] += open
		ends[a.end] = end + ends[a.end]
	}
	var out strings.Builder
	for i := range len(text) {
		out.WriteString(ends[i] + opens[i] + text[i:i+1])
	}
	return out.String() + ends[len(text)]
}
