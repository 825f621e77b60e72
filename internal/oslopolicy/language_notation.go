package oslopolicy

import "strings"

// Checks returns the rules of a file by name, in the notation of oslo.policy, to compare files. It has no parentheses around an "and" in an
// "and", or an "or" in an "or". The last rule of a name replaces the others. Rules whose name is no string are omitted.
func (f *File) Checks() map[string]string {
	checks := make(map[string]string, len(f.rules))
	for _, r := range f.rules {
		checks[r.name] = notation(r.check)
	}
	return checks
}

func notation(c check) string {
	switch c := c.(type) {
	case constant:
		if c {
			return "@"
		}
	case notCheck:
		return "not " + notation(c.inner)
	case allCheck:
		return "(" + strings.Join(flat[allCheck](c), " and ") + ")"
	case anyCheck:
		return "(" + strings.Join(flat[anyCheck](c), " or ") + ")"
	case roleCheck, remoteCheck, genericCheck:
		return textOf(c)
	case ruleCheck:
		return "rule:" + c.name
	case raising: // oslo.policy keeps the word instead of a check
		if word := c.word; len(word) >= 2 && (word[0] == '"' || word[0] == '\'') {
			return word[1 : len(word)-1]
		}
		return c.word
	}
	return "!"
}

// flat returns the operands of an operator. It replaces operands with the same operator by their operands.
func flat[C ~[]check](checks C) []string {
	var texts []string
	for _, c := range checks {
		if same, ok := any(c).(C); ok {
			texts = append(texts, flat(same)...)
		} else {
			texts = append(texts, notation(c))
		}
	}
	return texts
}
