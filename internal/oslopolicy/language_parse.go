package oslopolicy

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

const (
	// maxRuleBytes is the maximum size of a rule. The longest rule of Keystone has about 700 bytes.
	maxRuleBytes = 64 << 10
	// maxDepth is the maximum depth of parentheses and "not" within a rule, and of references between rules. The limit of Python's stack is
	// about twice as high.
	maxDepth = 200
)

// parseRule parses the value of a rule: a string, or the list form. An error means that oslo.policy cannot load the file because of this
// value, or that a limit is exceeded. A rule that oslo.policy loads but cannot parse is a check that denies.
func parseRule(v any) (check, error) {
	if falsy(v) {
		return constant(true), nil
	}
	switch v := v.(type) {
	case string:
		return parseText(v)
	case []any:
		return parseList(v)
	case mapping:
		return parseList(v)
	}
	return nil, fmt.Errorf("%s is neither a text nor a list", describe(v))
}

// parseList parses the list form: the outer list is "or", inner lists are "and". Their elements are single checks.
func parseList(list []any) (check, error) {
	var alternatives anyCheck
	for _, inner := range list {
		if falsy(inner) {
			continue
		}
		var elements []any
		switch inner := inner.(type) {
		case string:
			elements = []any{inner}
		case []any:
			elements = inner
		case mapping:
			elements = inner
		default:
			return nil, fmt.Errorf("%s in a list is neither a text nor a list", describe(inner))
		}
		var all allCheck
		for _, element := range elements {
			word, ok := element.(string)
			if !ok {
				all = append(all, malformed{word: describe(element)})
				continue
			}
			all = append(all, parseCheck(word))
		}
		if len(all) == 1 {
			alternatives = append(alternatives, all[0])
		} else {
			alternatives = append(alternatives, all)
		}
	}
	switch len(alternatives) {
	case 0:
		return unparsed{why: "its lists hold no check"}, nil
	case 1:
		return alternatives[0], nil
	}
	return alternatives, nil
}

// parseCheck parses a single check. Kinds are case-sensitive. Every unknown kind is a generic check.
func parseCheck(word string) check {
	switch word {
	case "!":
		return constant(false)
	case "@":
		return constant(true)
	}
	kind, match, ok := strings.Cut(word, ":")
	if !ok {
		return malformed{word: word}
	}
	switch kind {
	case "rule":
		return ruleCheck{name: match}
	case "role":
		return roleCheck{match: newTemplate(match)}
	case "http", "https":
		return remoteCheck{url: newTemplate(word)}
	}
	class, literal := classifyKind(kind)
	return genericCheck{kind: kind, match: newTemplate(match), class: class, literal: literal, path: strings.Split(kind, ".")}
}

// tokenKind is the kind of a token in the grammar.
type tokenKind int

const (
	tokenCheck tokenKind = iota
	tokenOpen
	tokenClose
	tokenAnd
	tokenOr
	tokenNot
	// tokenString is a word in quotes. No rule of the grammar accepts it.
	tokenString
)

type token struct {
	kind tokenKind
	// text is the token as written.
	text string
}

// isSpace reports whether a character is white space in Python's regular expressions: white space in Unicode, and four ASCII separators.
func isSpace(r rune) bool {
	return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f
}

// tokenize splits a text at white space. Parentheses are tokens only at the ends of a word, so those of %(name)s are not.
func tokenize(text string) []token {
	var tokens []token
	for _, word := range strings.FieldsFunc(text, isSpace) {
		rest := strings.TrimLeft(word, "(")
		for range len(word) - len(rest) {
			tokens = append(tokens, token{kind: tokenOpen, text: "("})
		}
		clean := strings.TrimRight(rest, ")")
		switch lowered := strings.ToLower(clean); {
		case clean == "":
		case lowered == "and":
			tokens = append(tokens, token{kind: tokenAnd, text: clean})
		case lowered == "or":
			tokens = append(tokens, token{kind: tokenOr, text: clean})
		case lowered == "not":
			tokens = append(tokens, token{kind: tokenNot, text: clean})
		case len(rest) >= 2 && (rest[0] == '"' || rest[0] == '\'') && rest[len(rest)-1] == rest[0]:
			tokens = append(tokens, token{kind: tokenString, text: rest})
		default:
			tokens = append(tokens, token{kind: tokenCheck, text: clean})
		}
		for range len(rest) - len(clean) {
			tokens = append(tokens, token{kind: tokenClose, text: ")"})
		}
	}
	return tokens
}

// errTooDeep means that a rule exceeds maxDepth.
var errTooDeep = fmt.Errorf("it is nested more than %d deep: %w", maxDepth, ErrLimit)

// parseText parses the string form. "not" has the highest precedence, then "and", then "or".
func parseText(text string) (check, error) {
	if len(text) > maxRuleBytes {
		return nil, fmt.Errorf("it has more than %d bytes: %w", maxRuleBytes, ErrLimit)
	}
	tokens := tokenize(text)
	if len(tokens) == 1 && tokens[0].kind != tokenCheck {
		return raising{word: tokens[0].text}, nil
	}
	// A thousand consecutive "not" exceed Python's stack, and the file is not loaded.
	negations := 0
	for _, t := range tokens {
		if t.kind != tokenNot {
			negations = 0
		} else if negations++; negations > maxDepth {
			return nil, errTooDeep
		}
	}
	p := parser{tokens: tokens}
	c, err := p.any(0)
	if err == nil && len(p.tokens) > 0 {
		err = fmt.Errorf("%q is unexpected here", p.tokens[0].text)
	}
	switch {
	case errors.Is(err, errTooDeep):
		return nil, err
	case err != nil:
		return unparsed{why: err.Error()}, nil //nolint:nilerr // oslo.policy loads such a rule, which denies
	}
	return c, nil
}

// parser is a recursive descent parser. tokens are the remaining tokens.
type parser struct{ tokens []token }

func (p *parser) take(kind tokenKind) bool {
	if len(p.tokens) == 0 || p.tokens[0].kind != kind {
		return false
	}
	p.tokens = p.tokens[1:]
	return true
}

func (p *parser) any(depth int) (check, error) {
	parts, err := p.operands(tokenOr, p.all, depth)
	if err != nil || len(parts) > 1 {
		return anyCheck(parts), err
	}
	return parts[0], nil
}

func (p *parser) all(depth int) (check, error) {
	parts, err := p.operands(tokenAnd, p.one, depth)
	if err != nil || len(parts) > 1 {
		return allCheck(parts), err
	}
	return parts[0], nil
}

// operands parses operands with an operator between them.
func (p *parser) operands(operator tokenKind, operand func(depth int) (check, error), depth int) ([]check, error) {
	var parts []check
	for {
		part, err := operand(depth)
		if err != nil {
			return nil, err
		}
		if parts = append(parts, part); !p.take(operator) {
			return parts, nil
		}
	}
}

func (p *parser) one(depth int) (check, error) {
	switch {
	case depth > maxDepth:
		return nil, errTooDeep
	case p.take(tokenNot):
		inner, err := p.one(depth + 1)
		if err != nil {
			return nil, err
		}
		return notCheck{inner: inner}, nil
	case p.take(tokenOpen):
		inner, err := p.any(depth + 1)
		if err != nil {
			return nil, err
		}
		if !p.take(tokenClose) {
			if len(p.tokens) > 0 {
				return nil, fmt.Errorf("%q is unexpected here", p.tokens[0].text)
			}
			return nil, errors.New("a parenthesis is not closed")
		}
		return inner, nil
	case len(p.tokens) == 0:
		return nil, errors.New("a check is missing at its end")
	}
	text := p.tokens[0].text
	if !p.take(tokenCheck) {
		return nil, fmt.Errorf("%q is not a check", text)
	}
	return parseCheck(text), nil
}
