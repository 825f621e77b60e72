package controllermanager

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/ownership"
)

// reasonArgument: the meaning of an argument is unknown.
const reasonArgument = "ArgumentUnchecked"

// Placeholders for values that are unknown here. No argument contains them, because the kernel ends arguments at the first NUL.
const (
	// unknown stands for the value of a variable.
	unknown = "\x00"
	// reference encloses the name of a variable from the Secret.
	reference = "\x00\x00"
)

// flag is a flag with a required value.
type flag struct {
	// reason is the reason of a problem. said describes a wrong value, and rule the required value.
	reason, said, rule string
	// isSwitch is true for a flag without a required value.
	isSwitch bool
	// right reports whether a value agrees with the identity.
	right func(value string) bool
	// shown is true if a message may contain a wrong value.
	shown bool
}

// flags returns the checked flags of a controller manager, by the names that flagName returns.
func (p Pod) flags(identity Identity) map[string]flag {
	secret := p.Secret
	switchedTo := func(on bool) func(string) bool {
		return func(value string) bool {
			is, err := strconv.ParseBool(value) // the same as in packages flag and pflag
			return err == nil && is == on
		}
	}
	fromSecret := func(variable, key string) flag {
		return flag{
			reason: reasonSecretReference, rule: fmt.Sprintf("may only be $(%s), which comes from the key %s of Secret %q", variable, key, secret),
			right: func(value string) bool { return value == reference+variable+reference },
		}
	}
	clientSecret := fromSecret(cloudsigma.EnvClientSecret, keyClientSecret)
	clientSecret.reason = ReasonClientSecretByValue
	clientSecret.said = "was sent as a plain value, which audit logs, the annotation of kubectl apply and the history of manifests may keep"
	global := flag{
		reason: reasonGlobalCredentials, said: "is set", rule: "is of the global credentials, with which the cloud does not show the servers of the cluster's user",
		right: func(string) bool { return false },
	}
	legacy := global
	legacy.isSwitch, legacy.right = true, switchedTo(false)
	csiToken := flag{reason: reasonCSIToken, said: "is set", rule: csiTokenRule, isSwitch: true, right: switchedTo(false)}
	if p.AllowCSIToken {
		csiToken.right = func(string) bool { return true }
	}
	return map[string]flag{
		"impersonation-enabled": {reason: reasonNotEnabled, rule: "has to be true", isSwitch: true, right: switchedTo(true)},
		"oauth-url":             fromSecret(cloudsigma.EnvOAuthURL, keyOAuthURL),
		"client-id":             fromSecret(cloudsigma.EnvClientID, keyClientID),
		"client-secret":         clientSecret,
		"client-secret-file": {
			reason: reasonSecretReference, said: "is set", right: func(string) bool { return false },
			rule: fmt.Sprintf("takes the client secret from elsewhere than the key %s of Secret %q", keyClientSecret, secret),
		},
		"user-email": {
			reason: reasonUserEmail, shown: true, right: func(value string) bool { return ownership.LowerEmail(value) == identity.Account.User },
			rule: fmt.Sprintf("has to be %q, the user of CloudSigmaCluster %q", identity.Account.User, identity.Cluster),
		},
		"region": {
			reason: reasonRegion, shown: true, right: func(value string) bool { return value == identity.Account.Region },
			rule: fmt.Sprintf("has to be %q, the region of CloudSigmaCluster %q", identity.Account.Region, identity.Cluster),
		},
		"enable-legacy-credentials": legacy,
		"username":                  global,
		"password":                  global,
		"password-file":             global,
		csiTokenFlag:                csiToken,
	}
}

// flagName normalizes the name of a flag. Kubernetes programs treat an underscore as a dash. Whether this program is
// case-insensitive, or accepts the prefix of its environment variables, is unknown, so all variants count as the same flag.
func flagName(name string) string {
	return strings.TrimPrefix(strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name)), "cloudsigma-")
}

// argument is one word of a command line, with its field path.
type argument struct {
	at   *field.Path
	text string
}

// arguments finds flags of the command and args that contradict the identity.
func (p Pod) arguments(identity Identity) []Problem {
	variables, room := p.variables(identity), maxExpanded
	var words []argument
	add := func(list string, i int, text string) {
		text, room = variables.expand(text, room)
		words = append(words, argument{p.managerField().Child(list).Index(i), text})
	}
	for i, text := range p.manager().Command {
		if i > 0 { // the first word is the program
			add("command", i, text)
		}
	}
	for i, text := range p.manager().Args {
		add("args", i, text)
	}
	if room < 0 {
		return []Problem{{Reason: reasonArgument, Field: p.managerField().String(), Message: fmt.Sprintf(
			"with the values of their variables, the arguments have more than %d MiB, and are not checked; shorten them", maxExpanded>>20)}}
	}
	return p.contradicting(identity, words)
}

// handlerArguments is arguments for exec handlers. The kubelet replaces variables in probes by other rules than in args, and in lifecycle
// events not at all, so an argument with a dollar is not evaluated.
func (p Pod) handlerArguments(identity Identity) []Problem {
	var problems []Problem
	for _, h := range p.handlers() {
		var words []argument
		for i, text := range h.command {
			at := h.Index(i)
			switch {
			case i == 0: // the program
			case strings.Contains(text, "$"):
				problems = append(problems, Problem{Reason: reasonArgument, Field: at.String(), Message: "an argument of an exec handler contains a " +
					"dollar, so that it could be any flag; write it without variables"})
			default:
				words = append(words, argument{at, text})
			}
		}
		problems = append(problems, p.contradicting(identity, words)...)
	}
	return problems
}

// contradicting finds flags that contradict the identity. Flags take precedence over the environment. It is unknown whether the program
// accepts one dash or two, and whether it parses flags after positional arguments or "--". So each word with a dash counts as a
// flag, and each occurrence must be valid.
func (p Pod) contradicting(identity Identity, words []argument) []Problem {
	known := p.flags(identity)
	var problems []Problem
	for i := 0; i < len(words); i++ {
		word := words[i]
		if !strings.HasPrefix(word.text, "-") && !strings.HasPrefix(word.text, unknown) {
			continue // not a flag
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(word.text, "-"), "=")
		if strings.Contains(name, unknown) {
			problems = append(problems, Problem{Reason: reasonArgument, Field: word.at.String(), Message: "an argument begins with a variable " +
				"from another source, so that it could be any flag; write it as --flag=$(VARIABLE), or give the variable a plain value"})
			continue
		}
		want, found := known[flagName(name)]
		if !found {
			continue
		}
		switch {
		case hasValue:
		case want.isSwitch:
			value = "true"
		case i+1 < len(words):
			i++
			value = words[i].text
		}
		if !want.right(value) {
			problems = append(problems, want.wrong(name, value, word.at.String()))
		}
	}
	return problems
}

// wrong returns the problem of a flag. Names and values come from the requester, and a value can be secret.
func (f flag) wrong(name, value, at string) Problem {
	said := cmp.Or(f.said, "has another value")
	switch {
	case f.shown && strings.Contains(value, unknown):
		said = "comes from another source, which cannot be checked"
	case f.shown:
		said = fmt.Sprintf("is %.100q", value)
	}
	message := fmt.Sprintf("the flag --%.100s %s; it %s: remove the flag", name, said, f.rule)
	if f.reason == ReasonClientSecretByValue {
		message += ", and create a new client secret"
	}
	return Problem{Reason: f.reason, Field: at, Message: message}
}

// variables contains the variables that arguments can refer to.
type variables struct {
	values map[string]string
	// open is true if there may be other variables.
	open bool
}

// variables returns the variables of the container. The variables of the identity get their required values: another value is a
// separate problem.
func (p Pod) variables(identity Identity) variables {
	container := p.manager()
	v := variables{values: map[string]string{}, open: len(container.EnvFrom) > 0}
	for _, variable := range container.Env {
		value := variable.Value
		if variable.ValueFrom != nil || strings.Contains(value, "$") { // it may refer to other variables
			value = unknown
		}
		if earlier, again := v.values[variable.Name]; again && earlier != value {
			value = unknown
		}
		v.values[variable.Name] = value
	}
	for _, variable := range wanted(p.Secret, identity) {
		if variable.ValueFrom != nil {
			v.values[variable.Name] = reference + variable.Name + reference
			continue
		}
		v.values[variable.Name] = strings.ReplaceAll(variable.Value, "$$", "$")
	}
	return v
}

// expand replaces references to variables in an argument as the kubelet does: $(NAME), and $$ for a dollar. It keeps unresolved
// references. It returns how much of the room remains. Without enough room, this is negative and the text is incomplete.
func (v variables) expand(text string, room int) (string, int) {
	var expanded strings.Builder
	for closes := true; expanded.Len() <= room; {
		before, after, found := strings.Cut(text, "$")
		expanded.WriteString(before)
		if !found {
			break
		}
		if closes && strings.HasPrefix(after, "(") {
			var name, rest string
			if name, rest, closes = strings.Cut(after[1:], ")"); closes { // otherwise no later one is closed
				expanded.WriteString(v.value(name))
				text = rest
				continue
			}
		}
		expanded.WriteString("$")
		text = strings.TrimPrefix(after, "$")
	}
	return expanded.String(), room - expanded.Len()
}

// value returns what replaces the reference to a variable.
func (v variables) value(name string) string {
	switch value, isSet := v.values[name]; {
	case isSet:
		return value
	case v.open:
		return unknown
	}
	return "$(" + name + ")"
}
