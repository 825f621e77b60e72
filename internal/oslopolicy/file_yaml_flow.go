package oslopolicy

import (
	"errors"
	"strings"
)

// flow parses a flow list or a flow mapping.
func (y *yamlReader) flow(depth int) (any, error) {
	if y.peek() == '{' {
		entries, err := y.flowMapping(depth)
		if err != nil {
			return nil, err
		}
		keys := mapping{}
		for _, e := range entries {
			keys = append(keys, e.key)
		}
		return keys, nil
	}
	list := []any{}
	err := y.brackets(']', func() error {
		element, err := y.flowNode(depth + 1)
		list = append(list, element)
		return err
	})
	return list, err
}

// flowMapping parses a flow mapping.
func (y *yamlReader) flowMapping(depth int) ([]yamlEntry, error) {
	var entries []yamlEntry
	err := y.brackets('}', func() error {
		e, begin := yamlEntry{line: y.line}, y.at
		quoted := y.peek() == '"' || y.peek() == '\''
		var err error
		if quoted {
			e.key, err = y.quoted(false)
		} else {
			e.key, err = y.flowPlain()
		}
		if err != nil {
			return err
		}
		y.take(" ")
		if y.peek() != ':' || !quoted && !blank(y.peekAt(1)) {
			if err := y.noTab(); err != nil {
				return err
			}
			return y.fail("a name is followed by %s, not by a colon and a space", y.next())
		}
		if y.at-begin > maxKeyBytes {
			return y.fail("a name is longer than %d bytes", maxKeyBytes)
		}
		y.at++
		if err := y.skip(); err != nil {
			return err
		}
		e.value, err = y.flowNode(depth + 1)
		entries = append(entries, e)
		return err
	})
	return entries, err
}

// brackets parses elements with commas between them, up to the closing bracket.
func (y *yamlReader) brackets(closing byte, element func() error) error {
	from := y.line
	for y.at++; ; y.at++ {
		if err := y.skip(); err != nil {
			return err
		}
		if y.peek() == closing {
			break
		}
		if err := element(); err != nil {
			return err
		}
		if err := y.skip(); err != nil {
			return err
		}
		if y.peek() == closing {
			break
		}
		if y.ended() {
			return &yamlError{line: from, err: errors.New("a bracket is not closed")}
		}
		if y.peek() != ',' {
			return y.fail("%s is unexpected between brackets; put texts in quotes, and commas between them", y.next())
		}
	}
	y.at++
	return nil
}

func (y *yamlReader) flowNode(depth int) (any, error) {
	if err := y.count(depth); err != nil {
		return nil, err
	}
	switch y.peek() {
	case '"', '\'':
		return y.quoted(true)
	case '[', '{':
		return y.flow(depth)
	}
	return y.flowPlain()
}

// flowPlain parses a plain scalar between brackets. It must be on one line, and few characters are allowed, because many have a special
// meaning there.
func (y *yamlReader) flowPlain() (any, error) {
	if err := y.plainStart(); err != nil {
		return nil, err
	}
	begin := y.at
	for b := y.peek(); b != 0 && (b >= 0x80 || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || strings.IndexByte("_ .:%()/'@!+$-", b) >= 0); b = y.peek() {
		if b == ':' && (blank(y.peekAt(1)) || strings.IndexByte(",[]{}\t", y.peekAt(1)) >= 0) {
			break
		}
		y.at++
	}
	return resolve(y.line, strings.TrimRight(y.text[begin:y.at], " "))
}
