//go:build e2e

package oslopolicy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/volume"
	"warrantgate.dev/internal/oslopolicy"
)

// mutated is the number of mutated files, and ordinary the number of files in the style of users.
var mutated, ordinary = volume.Of(5_000, 20_000), volume.Of(1_500, 3_000)

// atOnce is the number of files in one request to the reference.
const atOnce = 250

// meaning is the content of a file as the reference reads it: the checks by the names of rules, nil if it cannot load the file.
type meaning map[string]string

// meanings reads files with the reference.
func meanings(files [][]byte) []meaning {
	GinkgoHelper()
	var all []meaning
	for batch := range slices.Chunk(files, atOnce) {
		var reply struct {
			Parsed []meaning `json:"parsed"`
		}
		oslo.call(map[string]any{"parse": batch}, &reply)
		Expect(reply.Parsed).To(HaveLen(len(batch)))
		all = append(all, reply.Parsed...)
	}
	return all
}

// difference describes how our reader accepts a file that oslo.policy cannot load, or reads it differently. It is "" if there is no
// difference.
func difference(file []byte, theirs meaning) (admitted bool, text string) {
	read, err := oslopolicy.Read("policy.yaml", file)
	switch {
	case err != nil:
		return false, ""
	case theirs == nil:
		return true, fmt.Sprintf("%q is accepted, and oslo.policy cannot load it", file)
	}
	if diff := cmp.Diff(map[string]string(theirs), read.Checks()); diff != "" {
		return true, fmt.Sprintf("%q is read differently (-oslo.policy +ours):\n%s", file, diff)
	}
	return true, ""
}

// writer writes files in the style of users.
type writer struct{ generator }

// check is a rule. Some rules are longer than a line.
func (w writer) check() string {
	plain := []string{
		"role:admin", "rule:admin_required", "user_id:%(user_id)s", "domain_id:%(target.user.domain_id)s", "token.domain.id:%(target.project.domain_id)s",
		"None:%(target.role.domain_id)s", "'member':%(target.role.name)s", "role:load-balancer_member", "system_scope:all", "is_admin_project:True", "role:größe",
	}
	text := plain[w.IntN(len(plain)-1)] // the last is rare
	if w.IntN(40) == 0 {
		text = plain[len(plain)-1]
	}
	for range w.IntN(6) {
		next := plain[w.IntN(len(plain)-1)]
		if w.IntN(4) == 0 {
			next = "(" + next + " and not " + w.pick("role:reader", "rule:shut") + ")"
		}
		text += w.pick(" and ", " or ") + next
	}
	return text
}

// value writes a rule in one of the styles of YAML, below a name at the beginning of a line.
func (w writer) value() string {
	check := w.check()
	lines := strings.ReplaceAll(check, " or ", "\n  or ")
	switch w.IntN(14) {
	case 0, 1, 2:
		return `"` + check + `"`
	case 3, 4:
		if check[0] != '\'' {
			return check
		}
		return `"` + check + `"`
	case 5:
		return "'" + strings.ReplaceAll(check, "'", "''") + "'"
	case 6:
		return w.pick("|", ">", "|-", ">-", ">+") + w.pick("", " # why") + "\n  " + lines
	case 7:
		return "\"" + lines + "\""
	case 8:
		return "\n  \"" + lines + "\""
	case 9:
		return "\n    \"" + check + "\"   # after it"
	case 10:
		return "[[\"role:admin\", " + "\"role:member\"], [role:reader]]"
	case 11:
		return "\n" + w.pick("", "  ") + "- \"role:admin\"" // both are lists
	case 12:
		return "\n  - role:admin\n  - [role:member, \"user_id:%(user_id)s\"]\n  # more\n  - - role:a\n    - role:b"
	}
	return w.pick(`"@"`, `"!"`, `""`, "''", "[]", "", "null", "!")
}

func (w writer) name() string {
	name := w.pick("identity:list_users", "identity:create_user", "admin_required", "cloud_admin", "domain_manager", "identity:get_project", "default", "x")
	switch w.IntN(3) {
	case 0:
		return `"` + name + `"`
	case 1:
		return "'" + name + "'"
	}
	return name
}

// file writes a policy.
func (w writer) file() string {
	if w.IntN(8) == 0 {
		return w.json()
	}
	var b strings.Builder
	b.WriteString(w.pick("", "", "", "---\n", "# A policy\n#\n\n", "# A policy\n---\n"))
	for range 1 + w.IntN(6) {
		b.WriteString(w.pick("", "", "", "\n", "# why\n", "#\"identity:get_user\": \"role:x\"\n\n"))
		b.WriteString(w.name() + w.pick(": ", ": ", ": ", ":  ", " : ") + w.value() + w.pick("\n", "\n", "\n", "\n", " # why\n", "\n\n"))
	}
	text := b.String()
	if w.IntN(20) == 0 {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text
}

// json writes a policy in JSON, sometimes with the mistakes of users.
func (w writer) json() string {
	rules := map[string]any{}
	for range 1 + w.IntN(6) {
		rules[strings.Trim(w.name(), `"'`)] = []any{w.check(), w.check(), "", []any{[]any{"role:admin", w.check()}}, nil}[w.IntN(5)]
	}
	document, err := json.MarshalIndent(rules, "", w.pick("", "    ", "\t"))
	Expect(err).NotTo(HaveOccurred())
	text := string(document)
	switch w.IntN(4) {
	case 0:
		text = strings.ReplaceAll(strings.Replace(text, "\n}", ",\n}", 1), "\t", "  ")
	case 1:
		text = "# why\n" + strings.ReplaceAll(text, "\t", " ")
	}
	return text
}

// bits are texts with a special meaning in YAML, JSON or Python.
var bits = []string{
	"\t", "\t", " \t", "\t ", "\n\t", " ", "  ", "\n", "\n\n", "\n ", "\n  ", "\r", "\r\n", "\x00", "\ufeff", "\u0085", "\u2028", "\u2029", "\u00a0", "\u3000", "\x7f", "\x1b", "\x0b", "\x0c", "\ufffe",
	"\U0001f600", "\U0010ffff", "\xff", "\xc0\x80", "\xed\xa0\x80", ":", ": ", " :", ":\t", "\t:", "::", "#", " #", "\t#", "# ", "- ", "-", "-\n", "--- ", "---", "---\n", "\n---\n", "...", "\n...\n", "\n... x\n", "--- x\n", "? ", "?",
	"?\n", "|", ">", "|#", "|-", ">+", "|2", ">1-", "|\t", "| #", "|0", "!", "! ", "!!str ", "!!str {", "!!null ", "!!int ", "!!binary ", "!!python/object:os.system ", "!foo ", "!<tag:yaml.org,2002:str> ", "&a ", "*a", "&a", "<<: ",
	"<<", "=", "%YAML 1.1\n---\n", "%YAML 1.2\n", "%TAG ! x\n", "%", "@", "`", "\"", "'", "''", "\"\"", "\\", "\\\n", "\\n", "\\x41", "\\x0", "\\u0041", "\\ud800", "\\U00110000", "\\U0001f600", "\\N", "\\_", "\\L", "\\P", "\\0", "\\e", "\\a",
	"\\'", "\\/", "\\ ", "\\\t", "[", "]", "{", "}", "[]", "{}", ",", ", ", ",,", "[a: b]", "{a, b}", "{a: b}", "[,]", "{? a : b}", "yes", "on", "off", "no", "y", "True", "null", "~", "~x", "0", "00", "0x0", "0o7", "0b1", "0b_", "1_000", "1:30", "190:20:30",
	".inf", "-.inf", ".nan", ".NaN", "1e3", "1.e+3", "+1", "-0", "-1", ".", ".5", "2020-01-01", "2020-99-99", "2001-12-14t21:59:43.10-05:00", "NaN", "Infinity", "-Infinity", "1e999", "\"a\":1", "(", ")", " or ", " and ", " not ", "role:x",
	"identity:x: y\n", "\n\"k\": \"v\"\n", "\"k\" : 'v'", "\n- a", "- - a", "\n  - a", "\n -a", "/*c*/", "//c", "%(x)s", "%%", "\x1c", "\x85",
}

// odd are single bytes that mean something.
const odd = "\t\n\r #:-?,[]{}&*!|>'\"%@`\\x0~=<.\x00\x7f\xc2\x85\xa0"

var (
	quotedText = regexp.MustCompile(`"[^"\n]*"|'[^'\n]*'`)
	afterColon = regexp.MustCompile(`:( +)`)
)

// mutate changes a file in one way.
func (w writer) mutate(file []byte) []byte {
	at := func() int { return w.IntN(len(file) + 1) }
	bit := bits[w.IntN(len(bits))]
	insert := func(i int, text string) []byte { return slices.Insert(slices.Clone(file), i, []byte(text)...) }
	switch w.IntN(16) {
	case 0, 1:
		return insert(at(), bit)
	case 2: // at the beginning or the end of a line
		lines := strings.SplitAfter(string(file), "\n")
		i := w.IntN(len(lines))
		if end := strings.TrimRight(lines[i], "\n"); w.IntN(2) == 0 {
			lines[i] = end + bit + lines[i][len(end):]
		} else {
			lines[i] = bit + lines[i]
		}
		return []byte(strings.Join(lines, ""))
	case 3, 4: // around a colon
		if places := afterColon.FindAllIndex(file, -1); len(places) > 0 {
			place := places[w.IntN(len(places))]
			return insert([]int{place[0], place[0] + 1, place[1]}[w.IntN(3)], bit)
		}
	case 5: // in place of the space after a colon
		if places := afterColon.FindAllSubmatchIndex(file, -1); len(places) > 0 {
			place := places[w.IntN(len(places))]
			return slices.Replace(slices.Clone(file), place[2], place[3], []byte(bit)...)
		}
	case 6, 7: // inside, before or after a text in quotes, or without its quotes
		if places := quotedText.FindAllIndex(file, -1); len(places) > 0 {
			place := places[w.IntN(len(places))]
			if w.IntN(4) == 0 {
				return slices.Concat(file[:place[0]], file[place[0]+1:place[1]-1], file[place[1]:])
			}
			return insert([]int{place[0], place[0] + 1, place[0] + w.IntN(place[1]-place[0]), place[1] - 1, place[1]}[w.IntN(5)], bit)
		}
	case 8: // in place of a text in quotes
		if places := quotedText.FindAllIndex(file, -1); len(places) > 0 {
			place := places[w.IntN(len(places))]
			return slices.Replace(slices.Clone(file), place[0], place[1], []byte(bit)...)
		}
	case 9: // a missing part
		if len(file) > 0 {
			i := w.IntN(len(file))
			return slices.Delete(slices.Clone(file), i, min(len(file), i+1+w.IntN(3)))
		}
	case 10: // an early end
		return slices.Clone(file[:at()])
	case 11: // lines twice, elsewhere, indented, or not
		lines := strings.SplitAfter(string(file), "\n")
		i, j := w.IntN(len(lines)), w.IntN(len(lines))
		switch w.IntN(4) {
		case 0:
			lines = slices.Insert(lines, j, lines[i])
		case 1:
			lines[i], lines[j] = lines[j], lines[i]
		case 2:
			lines[i] = w.pick(" ", "  ", "    ", "\t") + lines[i]
		default:
			lines[i] = strings.TrimLeft(lines[i], " ")
		}
		return []byte(strings.Join(lines, ""))
	case 12: // one byte
		if len(file) > 0 {
			changed := slices.Clone(file)
			changed[w.IntN(len(changed))] = odd[w.IntN(len(odd))]
			return changed
		}
	case 13: // all of one kind
		from, to := w.pick("\n", " ", ":", "\"", "'", ": "), w.pick("\t", "\r", "\r\n", "  ", " ", "'", "\"", ":\t", " : ", ":")
		return []byte(strings.ReplaceAll(string(file), from, to))
	case 14: // long or deep
		return insert(at(), strings.Repeat(w.pick("[", "{a: ", "- ", "(", "a", "not ", "\n", " ", "{", "[]", "(role:a or "), 1+w.IntN(40)*w.IntN(40)))
	default: // part of another file
		other := w.file()
		i := w.IntN(len(other) + 1)
		return insert(at(), other[i:])
	}
	return insert(at(), bit)
}

// unusual matches constructs that users do not need in policies. It does not depend on the implementation of the reader.
var unusual = regexp.MustCompile(`(?m)` +
	`[\t\x00-\x08\x0b-\x1f\x7f\x{80}-\x{9f}\x{a0}\x{2028}\x{2029}\x{feff}\x{3000}]` + // invisible characters
	`|(^|: +|^ *- +|[\[{,] *)([^\pL_"'\[\]{}(|>#! \n-]|![^ \n]|-[^ ])` + // a value that begins with neither a word nor a quote
	`|---|\.\.\.|\\|[|>].*[0-9]|[^ \n]#|not not not`) // documents, escapes, indentation by number, comments without a blank before them

// usual reports whether a file is in the style of users. The further lines of a quoted text are indented then.
func usual(file []byte) bool {
	lines := strings.Split(string(file), "\n")
	for i, line := range lines[1:] {
		if strings.Count(lines[i], `"`)%2 == 1 && (line == "" || line[0] != ' ') {
			return false
		}
	}
	return !unusual.Match(file)
}

// shortly returns the first differences, each shortened.
func shortly(differences []string) string {
	var b strings.Builder
	for _, difference := range differences[:min(len(differences), 20)] {
		fmt.Fprintf(&b, "%.1500s\n", difference)
	}
	return b.String()
}

var _ = Describe("Files that are nearly policies", func() {
	It("are accepted only if oslo.policy loads them, and with the same meaning", func(_ SpecContext) {
		seed := uint64(GinkgoRandomSeed())
		w := writer{generator{rand.New(rand.NewPCG(seed, 1))}}
		override, err := os.ReadFile(filepath.Join("testdata", "domain-manager.yaml"))
		Expect(err).NotTo(HaveOccurred())
		files := make([][]byte, 0, mutated)
		for range mutated {
			file := []byte(w.file())
			switch w.IntN(60) {
			case 0:
				file = override
			case 1, 2, 3:
				file = []byte(w.generator.file(w.word()))
			case 4, 5:
				file = []byte(surprises[w.IntN(len(surprises))])
			}
			for range 1 + w.IntN(3)*w.IntN(2) {
				file = w.mutate(file)
			}
			files = append(files, file)
		}
		begin := time.Now()
		var differences []string
		count := map[string]int{}
		for i, theirs := range meanings(files) {
			admitted, text := difference(files[i], theirs)
			if text != "" {
				differences = append(differences, text)
			}
			usual := usual(files[i])
			for what, is := range map[string]bool{
				"loadable": theirs != nil, "admitted": admitted, "not loadable": theirs == nil,
				"loadable and usual": theirs != nil && usual, "loadable, usual and admitted": theirs != nil && usual && admitted,
			} {
				if is {
					count[what]++
				}
			}
		}
		text := fmt.Sprintf("seed %d, %d mutated files in %s: %v", seed, len(files), time.Since(begin).Round(time.Second), count)
		AddReportEntry("mutations", text)
		GinkgoWriter.Println(text)
		Expect(differences).To(BeEmpty(), func() string { return text + "\n" + shortly(differences) })
		Expect(count["not loadable"]).To(BeNumerically(">=", mutated/10), "too few files are broken, so the comparison proves nothing")
		Expect(count["admitted"]*2).To(BeNumerically(">=", count["loadable"]), "too many files that oslo.policy loads are rejected")
		Expect(count["loadable, usual and admitted"]*10).To(BeNumerically(">=", count["loadable and usual"]*9), "too many usual files are rejected")
	}, SpecTimeout(10*time.Minute))

	It("are all accepted if they are in the style of users", func(_ SpecContext) {
		seed := uint64(GinkgoRandomSeed())
		w := writer{generator{rand.New(rand.NewPCG(seed, 2))}}
		files := make([][]byte, 0, ordinary)
		for range ordinary {
			files = append(files, []byte(w.file()))
		}
		var wrong []string
		for i, theirs := range meanings(files) {
			admitted, text := difference(files[i], theirs)
			switch {
			case text != "":
				wrong = append(wrong, text)
			case theirs != nil && !admitted:
				_, err := oslopolicy.Read("policy.yaml", files[i])
				wrong = append(wrong, fmt.Sprintf("%q is rejected: %v", files[i], err))
			}
		}
		Expect(wrong).To(BeEmpty(), func() string { return fmt.Sprintf("seed %d\n%s", seed, shortly(wrong)) })
	}, SpecTimeout(specTimeout))
})
