package keystone

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/oslopolicy"
)

const (
	// maxMessage is the longest message, in bytes, that is not cut in a denial, a warning or an Event. It leaves room for the prefix of
	// the handler.
	maxMessage = 1024 - 80
	// maxProblem is the longest text about one problem, in bytes.
	maxProblem = 400
	// maxCauses is how many problems become status causes.
	maxCauses = 20
	// seeAll ends each message about problems.
	seeAll = `; "warrantgate lint keystone-policy" lists all problems of the file`
)

func bySeverity(problems []problem, severity oslopolicy.Severity) []problem {
	return slices.DeleteFunc(slices.Clone(problems), func(f problem) bool { return f.Severity != severity })
}

// summary lists the errors or, if there are none, the warnings: as many as fit into room bytes, at least one. It leaves out notes,
// which are no reason to change a policy that was just written.
func summary(broken, doubtful []problem, room int) string {
	shown := broken
	if len(shown) == 0 {
		shown = doubtful
	}
	text := counted(broken, doubtful) + ": " + shown[0].String()
	room -= len(seeAll) + len("; and 9999 more")
	for i, f := range shown[1:] {
		next := "; " + f.String()
		if len(text)+len(next) > room {
			text += fmt.Sprintf("; and %d more", len(shown)-1-i)
			break
		}
		text += next
	}
	return text + seeAll
}

// counted returns the number of problems, such as "2 errors and 1 warning".
func counted(broken, doubtful []problem) string {
	var counts []string
	count := func(n int, word string) {
		if n > 1 {
			word += "s"
		}
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, word))
		}
	}
	count(len(broken), "error")
	count(len(doubtful), "warning")
	return strings.Join(counts, " and ")
}

// String returns the place of the problem, its meaning, and what to write instead.
func (f problem) String() string {
	text := message.Value(f.File)
	if f.Line > 0 {
		text += fmt.Sprintf(":%d", f.Line)
	}
	if f.Rule != "" {
		text += fmt.Sprintf(", rule %q", message.Value(f.Rule))
	}
	text += ": " + f.Message
	if f.Suggestion != "" {
		text += " (" + f.Suggestion + ")"
	}
	if f.Witness != nil {
		text += "; for example " + f.Witness.String()
	}
	return message.Clip(printable(text), maxProblem)
}

// causes returns status causes with the codes of the problems, for programs.
func causes(problems []problem) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for _, f := range problems[:min(len(problems), maxCauses)] {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseType(f.Code), Message: f.String(), Field: f.field})
	}
	return causes
}

// missing says that a selected object holds no policy.
func missing(o object, keys []string, named bool) string {
	why, instead := "its labels say", "remove the labels"
	if named {
		why, instead = "keystonePolicy.objects of warrantgate's configuration says", "ask the operator to remove it there"
	}
	if len(keys) == 0 {
		return why + " that it holds a policy for Keystone, but it holds nothing; write the policy, or " + instead
	}
	return message.Clip(fmt.Sprintf("%s that it holds a policy for Keystone, but it has no key %s, so that nothing was checked; name the key so, or %s",
		why, quotedNames(keys), instead), maxMessage-len(o.String()+": "))
}

// deselected says that the labels cannot be removed while the object holds policies.
func deselected(o object, policies []policy) string {
	keys := make([]string, 0, len(policies))
	for _, p := range policies[:min(len(policies), maxPolicies)] {
		keys = append(keys, p.key)
	}
	const instead = "; delete the object, or remove these keys in the same write, or ask the operator to add the object to keystonePolicy.objects of warrantgate's configuration"
	return message.Clip("the write removes the labels by which warrantgate checks this policy for Keystone, while the object still has it under "+
		quotedNames(keys), maxMessage-len(o.String()+": "+instead)) + instead
}

func quotedNames(names []string) string {
	quoted := make([]string, 0, len(names))
	for _, name := range names {
		quoted = append(quoted, fmt.Sprintf("%q", message.Value(name)))
	}
	return strings.Join(quoted, " or ")
}

// printable replaces control characters, which a terminal would interpret or an API server would reject.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
