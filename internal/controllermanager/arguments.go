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

// reasonArgument: what an argument means cannot be told.
const reasonArgument = "ArgumentUnchecked"

// Characters that no argument has (the kernel ends them at the first NUL) stand for values that are not known here.
const (
	// unknown stands for what a variable holds.
	unknown = "\x00"
	// reference stands before and after the name of a variable that comes from the Secret.
	reference = "\x00\x00"
)

// flag is what a flag has to say.
type flag struct {
	// reason is that of a problem. said and rule tell in words what is wrong with another value, and what it has to be.
	reason, said, rule string
	// isSwitch is true of a flag that needs no value.
	isSwitch bool
	// right is true of a value that says the same as the identity.
	right func(value string) bool
	// shown is true where a wrong value may be repeated.
	shown bool
}

// flags returns what the flags of a controller manager have to say, by their names as flagName has them.
func flags(secret string, identity Identity) map[string]flag {
	switchedTo := func(on bool) func(string) bool {
		return func(value string) bool {
			is, err := strconv.ParseBool(value) // as packages flag and pflag do
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
			rule: fmt.Sprintf("has to be %q, as whom CloudSigmaCluster %q acts", identity.Account.User, identity.Cluster),
		},
		"region": {
			reason: reasonRegion, shown: true, right: func(value string) bool { return value == identity.Account.Region },
			rule: fmt.Sprintf("has to be %q, where CloudSigmaCluster %q is", identity.Account.Region, identity.Cluster),
		},
		"enable-legacy-credentials": legacy,
		"username":                  global,
		"password":                  global,
		"password-file":             global,
	}
}

// flagName returns the name of a flag as flags has it. Kubernetes' own programs take an underscore for a dash; whether this one
// takes a name in other letters or with the prefix of its environment is not known, so it is taken for the same.
func flagName(name string) string {
	return strings.TrimPrefix(strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name)), "cloudsigma-")
}

// argument is one word of a command line and where it is.
type argument struct {
	at   *field.Path
	text string
}

// arguments finds flags that say something else than the identity. Flags win over the environment. Whether the program takes
// one dash or two, and goes on after what is no flag or after "--", is not known: each word with a dash counts, and each
// occurrence of a flag has to be right.
func (p Pod) arguments(identity Identity) []Problem {
	known := flags(p.Secret, identity)
	variables := p.variables(identity)
	var words []argument
	for i, text := range p.manager().Command {
		if i > 0 { // the first is the program
			words = append(words, argument{p.managerField().Child("command").Index(i), variables.expand(text)})
		}
	}
	for i, text := range p.manager().Args {
		words = append(words, argument{p.managerField().Child("args").Index(i), variables.expand(text)})
	}
	var problems []Problem
	for i := 0; i < len(words); i++ {
		word := words[i]
		if !strings.HasPrefix(word.text, "-") && !strings.HasPrefix(word.text, unknown) {
			continue // no flag
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(word.text, "-"), "=")
		if strings.Contains(name, unknown) {
			problems = append(problems, Problem{Reason: reasonArgument, Field: word.at.String(), Message: "an argument begins with a variable " +
				"that comes from elsewhere, so that it could be any flag; write it as --flag=$(VARIABLE), or give the variable a plain value"})
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

// wrong says what is wrong with a flag. Names and values are of the requester, and a value can be secret.
func (f flag) wrong(name, value, at string) Problem {
	said := cmp.Or(f.said, "says something else")
	switch {
	case f.shown && strings.Contains(value, unknown):
		said = "comes from elsewhere, where it cannot be checked"
	case f.shown:
		said = fmt.Sprintf("is %.100q", value)
	}
	message := fmt.Sprintf("the flag --%.100s %s; it %s: remove the flag", name, said, f.rule)
	if f.reason == ReasonClientSecretByValue {
		message += ", and have a new client secret made"
	}
	return Problem{Reason: f.reason, Field: at, Message: message}
}

// variables are the variables that arguments can refer to.
type variables struct {
	values map[string]string
	// open is true where there may be others.
	open bool
}

// variables returns the variables of the container. Those of the identity have the values that they have to have: another value
// is a problem of its own.
func (p Pod) variables(identity Identity) variables {
	container := p.manager()
	v := variables{values: map[string]string{}, open: len(container.EnvFrom) > 0}
	for _, variable := range container.Env {
		value := variable.Value
		if variable.ValueFrom != nil || strings.Contains(value, "$") { // it may refer to others
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

// expand replaces references to variables in an argument as the kubelet does: $(NAME), and $$ for a dollar. What refers to
// nothing stays as it is.
func (v variables) expand(text string) string {
	var expanded strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		expanded.WriteString(before)
		if !found {
			return expanded.String()
		}
		name, rest, closed := strings.Cut(strings.TrimPrefix(after, "("), ")")
		value, isSet := v.values[name]
		switch {
		case strings.HasPrefix(after, "$"):
			expanded.WriteString("$")
			text = after[1:]
		case !strings.HasPrefix(after, "(") || !closed:
			expanded.WriteString("$")
			text = after
		case isSet:
			expanded.WriteString(value)
			text = rest
		case v.open:
			expanded.WriteString(unknown)
			text = rest
		default:
			expanded.WriteString("$(" + name + ")")
			text = rest
		}
	}
}
