package oslopolicy

import "strings"

// flow parses a flow list or a flow mapping.
func (y *yamlReader) flow(depth int) any {
	if y.peek() == '{' {
		keys := mapping{}
		for _, e := range y.flowMapping(depth) {
			keys = append(keys, e.key)
		}
		return keys
	}
	list := []any{}
	y.brackets(']', func() { list = append(list, y.flowNode(depth+1)) })
	return list
}

// flowMapping parses a flow mapping.
func (y *yamlReader) flowMapping(depth int) []entry {
	var entries []entry
	y.brackets('}', func() {
		e, begin := entry{line: y.line}, y.at
		quoted := y.peek() == '"' || y.peek() == '\''
		if quoted {
			e.key = y.quoted(false)
		} else {
			e.key = y.flowPlain()
		}
		y.take(" ")
		if y.peek() != ':' || !quoted && !blank(y.peekAt(1)) {
			y.noTab()
			y.fail("a name is followed by %s, not by a colon and a space", y.next())
		}
		if y.at-begin > maxKeyBytes {
			y.fail("a name is longer than %d bytes", maxKeyBytes)
		}
		y.at++
		y.skip()
		e.value = y.flowNode(depth + 1)
		entries = append(entries, e)
	})
	return entries
}

// brackets parses elements with commas between them, up to the closing bracket.
func (y *yamlReader) brackets(closing byte, element func()) {
	from := y.line
	for y.at++; ; y.at++ {
		if y.skip(); y.peek() == closing {
			break
		}
		element()
		if y.skip(); y.peek() == closing {
			break
		}
		if y.ended() {
			failAt(from, "a bracket is not closed")
		}
		if y.peek() != ',' {
			y.fail("%s is unexpected between brackets; put texts in quotes, and commas between them", y.next())
		}
	}
	y.at++
}

func (y *yamlReader) flowNode(depth int) any {
	y.count(depth)
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
func (y *yamlReader) flowPlain() any {
	y.plainStart()
	begin := y.at
	for b := y.peek(); b != 0 && (b >= 0x80 || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || strings.IndexByte("_ .:%()/'@!+$-", b) >= 0); b = y.peek() {
		if b == ':' && (blank(y.peekAt(1)) || strings.IndexByte(",[]{}\t", y.peekAt(1)) >= 0) {
			break
		}
		y.at++
	}
	return resolve(y.line, strings.TrimRight(y.text[begin:y.at], " "))
}
