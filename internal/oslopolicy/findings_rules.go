package oslopolicy

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"warrantgate.dev/internal/message"
)

// MaxFindings is the maximum number of findings of each severity. It limits the time for malicious files. Notes and warnings have limits of
// their own: a file with many of them must not hide an error.
const MaxFindings = 200

// linter lints files that Keystone loads together.
type linter struct {
	// sources are the files before parsing.
	sources []Source
	// rules are the rules of all files, in order, unnamed those whose name is no string.
	rules, unnamed []*rule
	options        LintOptions
	// table contains the rules that Keystone ships.
	table *shippedTable
	// policy is the policy with the files, before the policy without them, and own the rules that Keystone ships. limit is what the files may
	// grant: before, with Keystone's own rule in place of rules that raise an exception, by which Keystone denies.
	policy, before, limit, own *Policy
	// based are the names of the rules in the base, missed those that the base refers to and nobody has.
	based, missed map[string]bool
	// last contains the last rule of each name in the files.
	last map[string]*rule
	// users are the operations whose rule refers to a rule, directly or through others, by the name of the rule and in order.
	users map[string][]*shippedRule
	// extended are the rules of extensions, and those that they refer to, directly or through others.
	extended map[string]bool
	// explained are the rules and attributes with a finding, to avoid further findings with the same cause.
	explained map[[2]string]bool
	// dead are the alternatives of operations that can never match, by the name of the operation.
	dead map[string][]deadBranch
	// referred are the names of rules with references to them.
	referred map[string]bool
	// roles are the roles of Keystone's own rules, of the base and of the options, in lower case.
	roles []string
	// folded are the formulas of rules for an operation, or for any operation if it is nil. Each is a constant or an atom.
	folded map[*shippedRule]map[string]formula
	// circles are the names of rules that refer to themselves, directly or through others.
	circles  map[string]bool
	findings []Finding
	// counts are the numbers of findings that the linter has added, by severity.
	counts map[Severity]int
	// ended reports whether the caller has stopped waiting for the findings. Searches end then.
	ended func() bool
}

func newLinter(sources []Source, files []*File, options LintOptions) *linter {
	table := options.Release.table()
	l := &linter{
		sources: sources, options: options, counts: map[Severity]int{},
		policy: options.Release.Policy(slices.Concat(options.Base, files)...), before: options.Release.Policy(options.Base...),
		table: table, own: &Policy{rules: table.checks, table: table}, based: map[string]bool{}, missed: map[string]bool{}, last: map[string]*rule{},
		users: map[string][]*shippedRule{}, explained: map[[2]string]bool{}, dead: map[string][]deadBranch{}, extended: map[string]bool{},
		referred: map[string]bool{}, folded: map[*shippedRule]map[string]formula{},
	}
	l.circles = circular(l.policy)
	for _, role := range slices.Concat(ordinaryRoles, options.ManagerRoles, options.ManagedRoles) {
		l.roles = append(l.roles, lower(role))
	}
	for _, c := range l.policy.rules {
		for _, name := range references(c) {
			l.referred[name] = true
		}
	}
	for _, c := range l.before.rules {
		walk(c, func(c check, _ bool) {
			switch c := c.(type) {
			case ruleCheck:
				l.missed[c.name] = l.before.rules[c.name] == nil
			case roleCheck:
				l.roles = append(l.roles, lower(c.match.text))
			}
		})
	}
	for _, file := range options.Base {
		for _, r := range file.rules {
			l.based[r.name] = true
		}
	}
	l.limit = l.before
	circles := circular(l.before)
	for name, c := range l.before.rules {
		if !circles[name] && !hasException(c) {
			continue
		}
		if l.limit == l.before {
			l.limit = &Policy{table: table, rules: maps.Clone(l.before.rules)}
		}
		l.limit.rules[name] = cmp.Or(l.own.rules[name], check(constant(false)))
	}
	for _, file := range files {
		for i := range file.rules {
			l.rules = append(l.rules, &file.rules[i])
			l.last[file.rules[i].name] = &file.rules[i]
		}
		for i := range file.unnamed {
			l.unnamed = append(l.unnamed, &file.unnamed[i])
		}
	}
	return l
}

// hasException reports whether a part of a check raises an exception for every token. Keystone denies a request for which it evaluates that
// part, whatever the rest of the rule allows.
func hasException(c check) bool {
	raises := false
	walk(c, func(c check, _ bool) {
		pattern, _ := templateOf(c)
		generic, isGeneric := c.(genericCheck)
		_, alone := c.(raising)
		raises = raises || alone || isGeneric && generic.class == kindRaises || pattern.mistake() != ""
	})
	return raises
}

// steps returns the steps of the linter in order. Each step takes little time for every file.
func (l *linter) steps() []func() {
	var steps []func()
	for i := range l.table.list {
		if operation := &l.table.list[i]; operation.isOperation() {
			steps = append(steps, func() { l.follow(operation) })
		}
	}
	steps = append(steps, l.followExtensions, l.lintUnnamed, l.lintObsolete)
	for _, r := range l.rules {
		steps = append(steps, func() { l.lintRule(r) })
	}
	steps = append(steps, l.lintLines)
	// Permissions are checked last, because one finding about a helper may be the cause of many others.
	for _, r := range l.rules {
		steps = append(steps, func() { l.lintGifts(r) })
	}
	return steps
}

func (l *linter) lintUnnamed() {
	for _, r := range l.unnamed {
		l.add(r, SeverityError, CodeNameNotText, "YAML does not read this name as a text, so the rule has no effect",
			"put the name in quotes")
	}
}

func (l *linter) lintRule(r *rule) {
	if l.full() {
		return
	}
	if last := l.last[r.name]; last != r {
		where := fmt.Sprintf("line %d", last.line)
		if last.file != r.file {
			where = fmt.Sprintf("%s:%d", last.file, last.line)
		}
		l.add(r, SeverityError, CodeDuplicateRule, where+" has a rule of the same name, which silently replaces this one", "keep one of the two")
		return
	}
	before := len(l.findings)
	l.lintName(r)
	l.lintValue(r)
	walk(r.check, func(c check, negated bool) { l.lintCheck(r, c, negated) })
	l.lintCycle(r)
	l.lintLetters(r)
	l.lintAttributes(r)
	if !l.hasErrors(before) {
		l.lintOutcome(r)
	}
}

// lintGifts finds rules that grant too much or too little.
func (l *linter) lintGifts(r *rule) {
	if l.full() || l.last[r.name] != r {
		return
	}
	l.lintBranches(r)
	if !l.has(r, CodeAlwaysAllows) {
		l.lintDifferences(r)
	}
	l.lintEscalation(r)
}

// full reports whether there are MaxFindings errors, so that no further rule is checked.
func (l *linter) full() bool { return l.counts[SeverityError] >= MaxFindings }

func (l *linter) add(r *rule, severity Severity, code, message, suggestion string) {
	l.addWith(nil, r, severity, code, message, suggestion)
}

// addWith adds a finding with a witness, if there is one.
func (l *linter) addWith(witness *Witness, r *rule, severity Severity, code, message, suggestion string) {
	if l.counts[severity] >= MaxFindings {
		return
	}
	l.counts[severity]++
	l.findings = append(l.findings, Finding{
		File: r.file, Line: r.line, Rule: r.name, Severity: severity, Code: code, Message: message, Suggestion: suggestion, Witness: witness,
	})
}

// hasErrors reports whether there is an error among the findings from an index on.
func (l *linter) hasErrors(since int) bool {
	return slices.ContainsFunc(l.findings[since:], func(f Finding) bool { return f.Severity == SeverityError })
}

// has reports whether a rule has a finding with one of the codes.
func (l *linter) has(r *rule, codes ...string) bool {
	return slices.ContainsFunc(l.findings, func(f Finding) bool {
		return f.Rule == r.name && f.File == r.file && f.Line == r.line && slices.Contains(codes, f.Code)
	})
}

// hasOf reports whether a rule has a finding of a severity with one of the codes.
func (l *linter) hasOf(severity Severity, r *rule, codes ...string) bool {
	return slices.ContainsFunc(l.findings, func(f Finding) bool {
		return f.Severity == severity && f.Rule == r.name && f.File == r.file && f.Line == r.line && slices.Contains(codes, f.Code)
	})
}

func (l *linter) lintName(r *rule) {
	switch {
	case l.table.rules[r.name] != nil, l.isExtension(r.name):
	case strings.HasPrefix(r.name, prefix):
		l.add(r, SeverityError, CodeUnknownOperation, "Keystone has no such operation, so the rule has no effect",
			cmp.Or(didYouMean(message.Nearest(r.name, slices.Collect(maps.Keys(l.table.rules)))), "if an extension evaluates it, list it in keystonePolicy.knownRules (--known-rule)"))
	case r.name == defaultRule:
		if !l.isAlways(false, r.check, nil) {
			l.add(r, SeverityWarning, CodeOpenDefault, "it replaces every rule that does not exist: a misspelled reference may allow",
				`write "!" in quotes, or leave the rule out`)
		}
	case !l.referred[r.name]:
		l.add(r, SeverityNote, CodeUnusedRule, "no rule refers to it, and Keystone does not evaluate it", "")
	}
}

func didYouMean(names ...string) string {
	var quoted []string
	for _, name := range names {
		if name != "" {
			quoted = append(quoted, strconv.Quote(name))
		}
	}
	if len(quoted) == 0 {
		return ""
	}
	return "write " + strings.Join(quoted, " or ")
}

// lintValue finds values that are no rules, and values that allow every request but are not @.
func (l *linter) lintValue(r *rule) {
	const deny = `write "!" in quotes to deny, or "@" in quotes to allow everybody`
	own, known := l.table.checks[r.name]
	switch {
	case r.bareBang:
		l.add(r, SeverityError, CodeAlwaysAllows,
			"an exclamation mark without quotes is an empty tag to YAML: the rule is empty, and an empty rule allows everybody", deny)
	case falsy(r.value) && known && own == constant(true): // as Keystone ships it
	case falsy(r.value):
		l.add(r, SeverityError, CodeAlwaysAllows, fmt.Sprintf("%s as a rule allows everybody", describe(r.value)), deny)
	}
	switch value := r.value.(type) {
	case mapping:
		if len(value) > 0 {
			l.add(r, SeverityError, CodeMapping, "oslo.policy reads only the keys of a mapping, as alternatives", "write the rule as a text in quotes")
		}
	case []any:
		l.lintList(r, value)
	}
}

// lintList finds expressions in the list form, which supports single checks only.
func (l *linter) lintList(r *rule, list []any) {
	for _, element := range list {
		switch element := element.(type) {
		case []any:
			l.lintList(r, element)
		case string:
			if len(tokenize(element)) > 1 {
				l.add(r, SeverityError, CodeOperatorInList,
					fmt.Sprintf("%q is read as a single check: the list form knows no operators and no parentheses", element),
					"write the whole rule as a text")
			}
		}
	}
}

// lintCheck lints a single check.
func (l *linter) lintCheck(r *rule, c check, negated bool) {
	if l.full() {
		return
	}
	switch c := c.(type) {
	case unparsed:
		l.add(r, SeverityError, CodeSyntax, fmt.Sprintf("oslo.policy cannot parse the rule and silently denies: %s", c.why),
			"join checks with and, or, not and parentheses that match")
	case raising:
		l.add(r, SeverityError, CodeRaises, fmt.Sprintf("a rule that is only %q raises an exception: every request ends with 400 or 500", c.word),
			"write a check such as role:admin")
	case malformed:
		l.lintMalformed(r, c, negated)
	case ruleCheck:
		l.lintReference(r, c, negated)
	case roleCheck:
		l.lintRole(r, c)
	case remoteCheck:
		l.lintRemote(r, c)
	case genericCheck:
		l.lintGeneric(r, c)
	}
	pattern, ok := templateOf(c)
	if !ok {
		return
	}
	if mistake := pattern.mistake(); mistake != "" {
		l.add(r, SeverityError, CodeRaises, fmt.Sprintf("%q raises an exception: %s", pattern.text, mistake), "write attributes as %(name)s")
	}
	if len(pattern.text) >= 2 && strings.ContainsAny(pattern.text[:1], `'"`) && pattern.text[0] == pattern.text[len(pattern.text)-1] {
		l.add(r, SeverityError, CodeQuotedMatch, fmt.Sprintf("the quotes of %s are part of the value, so that it does not match", pattern.text),
			didYouMean(pattern.text[1:len(pattern.text)-1]))
	}
}

func (l *linter) lintMalformed(r *rule, c malformed, negated bool) {
	message := fmt.Sprintf("%q is not a check, because it has no colon, and counts as false", c.word)
	if negated {
		message += `; the "not" before it makes that true`
	}
	l.add(r, SeverityError, CodeMalformedCheck, message, didYouMean("role:"+c.word, "rule:"+c.word))
}

// lintRemote reports a check that sends the token and the target to another host. It is an error if an operation depends on it and the base
// does not have it: the author of the rule chooses the host.
func (l *linter) lintRemote(r *rule, c remoteCheck) {
	severity := SeverityNote
	if l.table.operation(r.name) != nil || len(l.users[r.name]) > 0 || l.extended[r.name] {
		severity = SeverityError
	}
	walk(l.before.rules[r.name], func(was check, _ bool) {
		if former, ok := was.(remoteCheck); ok && former.url.text == c.url.text {
			severity = SeverityNote
		}
	})
	l.add(r, severity, CodeRemoteCheck, fmt.Sprintf("%q sends the token and the target to another host, whose answer cannot be evaluated", c.url.text),
		"compare attributes, or have the check added to the base")
}

func (l *linter) lintReference(r *rule, c ruleCheck, negated bool) {
	if _, ok := l.policy.rules[c.name]; ok || len(tokenize(c.name)) > 1 { // lintList reports expressions
		return
	}
	text := fmt.Sprintf("there is no rule %q, which counts as false", c.name)
	if _, ok := l.policy.rules[defaultRule]; ok {
		text = fmt.Sprintf("there is no rule %q, and the rule %q is used instead", c.name, defaultRule)
	} else if negated {
		text += `; the "not" before it makes that true`
	}
	l.add(r, SeverityError, CodeUnknownRule, text, didYouMean(message.Nearest(c.name, slices.Collect(maps.Keys(l.policy.rules)))))
}

// lintRole finds a role whose name is nearly a known one. Other roles may be those of the cloud. Quotes and letters that are not ASCII have findings
// of their own.
func (l *linter) lintRole(r *rule, c roleCheck) {
	name := lower(c.match.text)
	if slices.Contains(l.roles, name) || strings.ContainsFunc(name, func(c rune) bool { return c > unicode.MaxASCII || c == '\'' || c == '"' }) {
		return
	}
	whose := "Keystone"
	if len(l.options.Base) > 0 {
		whose += " and of the base"
	}
	if meant := message.Nearest(name, l.roles); meant != "" {
		l.add(r, SeverityWarning, CodeUnknownRole, fmt.Sprintf("no rule of %s checks the role %q", whose, c.match.text),
			didYouMean("role:"+meant)+", unless the cloud has both roles")
	}
}

func (l *linter) lintGeneric(r *rule, c genericCheck) {
	switch c.class {
	case kindRaises:
		l.add(r, SeverityError, CodeRaises,
			fmt.Sprintf("%q before the colon is neither a name nor a literal of Python, and raises an exception", c.kind), "")
	case kindPath:
		if known, meant := knowsCredential(c.kind); !known {
			l.add(r, SeverityWarning, CodeUnknownCredential,
				fmt.Sprintf("Keystone's credentials have no %q, so that the check is false or raises an exception", c.kind), didYouMean(meant))
		}
	case kindLiteral:
	}
}

// lintCycle finds rules that refer to themselves.
func (l *linter) lintCycle(r *rule) {
	if l.circles[r.name] {
		l.add(r, SeverityError, CodeCycle, "the rule refers to itself, perhaps through others: asking it raises an exception and ends with 400",
			"remove one of the references")
	}
}

// lintLines finds characters that are not ASCII in all lines, including comments. It skips lines with such a finding.
func (l *linter) lintLines() {
	for _, s := range l.sources {
		if !utf8.Valid(s.Data) { // the whole file has a finding
			continue
		}
		number := 0
		for line := range bytes.Lines(bytes.TrimPrefix(s.Data, []byte(byteOrderMark))) {
			if l.full() {
				return
			}
			number++
			at := bytes.IndexFunc(line, func(c rune) bool { return c > unicode.MaxASCII })
			said := func(f Finding) bool {
				return f.File == s.Name && f.Line == number && (f.Code == CodeNonASCII || f.Code == CodeFile)
			}
			if at < 0 || slices.ContainsFunc(l.findings, said) {
				continue
			}
			letter, _ := utf8.DecodeRune(line[at:])
			l.add(&rule{file: s.Name, line: number}, SeverityError, CodeNonASCII, fmt.Sprintf("the line has the letter %U, which is not ASCII and may only look like another", letter),
				"type it again")
		}
	}
}

// lintLetters finds characters that are not ASCII in the name and the value of a rule.
func (l *linter) lintLetters(r *rule) {
	var look func(v any)
	look = func(v any) {
		switch v := v.(type) {
		case string:
			at := strings.IndexFunc(v, func(c rune) bool { return c > unicode.MaxASCII })
			if at < 0 {
				return
			}
			letter, _ := utf8.DecodeRuneInString(v[at:])
			l.add(r, SeverityError, CodeNonASCII, fmt.Sprintf("%q has the letter %U, which is not ASCII and may only look like another", v, letter),
				"type it again")
		case []any:
			for _, element := range v {
				look(element)
			}
		}
	}
	look(r.name)
	look(r.value)
}

// lintObsolete finds an override for managers, which Keystone has by default.
func (l *linter) lintObsolete() {
	if l.options.Release < managerRelease {
		return
	}
	for _, r := range l.rules {
		uses := false
		walk(r.check, func(c check, _ bool) {
			role, ok := c.(roleCheck)
			uses = uses || ok && slices.ContainsFunc(l.options.ManagerRoles, func(name string) bool { return lower(role.match.text) == lower(name) })
		})
		if uses {
			l.add(r, SeverityWarning, CodeOverrideObsolete,
				fmt.Sprintf("Keystone has a role for managers of a domain since %s; an override for managers conflicts with it", managerRelease),
				"remove the override, and compare the rest of it with Keystone's own rules")
			return
		}
	}
}
