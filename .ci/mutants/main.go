// Command mutants compares the mutants that survived the tests, as gremlins reports them, with the list of those that may.
//
// A line of the list is "file | type of the mutation | the line of the source, trimmed | why no test kills it". Lines and columns
// are not in it, so that it stays true when the file changes elsewhere.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// report is what gremlins writes about one package.
type report struct {
	Files []struct {
		Name      string     `json:"file_name"`
		Mutations []mutation `json:"mutations"`
	} `json:"files"`
}

type mutation struct {
	Type   string `json:"type"`
	Status string `json:"status"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

// survived is true of mutants that no test has noticed. One that was not covered by any test is among them.
func (m mutation) survived() bool { return m.Status == "LIVED" || m.Status == "NOT COVERED" }

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: mutants LIST ROOT REPORT=PACKAGE...")
		os.Exit(2)
	}
	list, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = compare(list, os.Args[2], os.Args[3:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// compare prints the survivors that are not listed, and what is listed and did not survive. Both are an error.
func compare(content []byte, root string, reports []string) error {
	listed, err := read(content)
	if err != nil {
		return err
	}
	seen, counts, wrong := map[string]bool{}, map[string]int{}, 0
	var packages []string
	for _, argument := range reports {
		from, in, _ := strings.Cut(argument, "=")
		packages = append(packages, path.Clean(in))
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		var found report
		if err := json.Unmarshal(content, &found); err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
		for _, file := range found.Files {
			name := filepath.ToSlash(filepath.Join(in, strings.TrimPrefix(file.Name, in+"/")))
			source, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				return err
			}
			lines := strings.Split(string(source), "\n")
			for _, m := range file.Mutations {
				counts[m.Status]++
				if !m.survived() {
					continue
				}
				key := strings.Join([]string{name, m.Type, strings.TrimSpace(lines[m.Line-1])}, separator)
				seen[key] = true
				if _, ok := listed[key]; !ok {
					wrong++
					fmt.Printf("%s:%d:%d: %s\n\t%s\n", name, m.Line, m.Column, strings.ToLower(m.Status), key)
				}
			}
		}
	}
	for key := range listed {
		name, _, _ := strings.Cut(key, separator)
		if slices.Contains(packages, path.Dir(name)) && !seen[key] { // packages below it are packages of their own
			wrong++
			fmt.Printf("listed, but it did not survive: %s\n", key)
		}
	}
	fmt.Println("mutants:", counts)
	if wrong > 0 {
		return errors.New("mutants: kill them by a test, or list them in .ci/mutants/list.txt with the reason")
	}
	return nil
}

const separator = " | "

// read reads the list. The reason is what comes last.
func read(content []byte) (map[string]string, error) {
	listed := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(content))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndex(line, separator)
		if at < 0 || strings.Count(line[:at], separator) < 2 || strings.TrimSpace(line[at+len(separator):]) == "" {
			return nil, fmt.Errorf("line %d of the list: it is not \"file | type | source | reason\"", n)
		}
		listed[strings.TrimSpace(line[:at])] = line[at+len(separator):]
	}
	return listed, lines.Err()
}
