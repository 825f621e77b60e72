package oslopolicy

import (
	"bytes"
	"encoding/json"
	"regexp"
)

// surrogate finds escaped surrogates in JSON. Python keeps surrogates without a pair, which Go strings cannot contain.
var surrogate = regexp.MustCompile(`\\u[dD][89a-fA-F][0-9a-fA-F]{2}`)

// readJSON parses the rules in JSON. oslo.policy tries JSON before YAML.
func readJSON(data []byte, add func(entry)) {
	if at := surrogate.FindIndex(data); at != nil {
		failAt(lineAt(data, at[0]), `it contains surrogate pairs, such as \ud83d\ude00; write the characters themselves`)
	}
	j := &jsonReader{Decoder: json.NewDecoder(bytes.NewReader(data)), data: data, line: 1}
	first := j.next()
	if first != json.Delim('{') {
		if value := j.value(first, 0); !falsy(value) {
			failAt(1, "it is %s, not rules with their names", describe(value))
		}
		return
	}
	for j.More() {
		e := entry{key: j.next()}
		e.line = j.lineOfToken()
		e.value = j.value(j.next(), 0)
		add(e)
	}
}

// jsonReader reads the values of a document.
type jsonReader struct {
	*json.Decoder
	data []byte
	// line is the line of the offset at.
	line, at int
	nodes    int
}

// lineOfToken returns the line of the last token. It counts only the lines since its last call.
func (j *jsonReader) lineOfToken() int {
	to := int(j.InputOffset())
	j.line += bytes.Count(j.data[j.at:to], []byte("\n"))
	j.at = to
	return j.line
}

func (j *jsonReader) next() json.Token {
	token, err := j.Token()
	if err != nil { // such as a number that is too large
		failAt(j.lineOfToken(), "it is not valid JSON: %w", err)
	}
	return token
}

// value reads a value that begins with a token.
func (j *jsonReader) value(first json.Token, depth int) any {
	j.nodes++
	if depth > maxNesting || j.nodes > maxNodes {
		failAt(j.lineOfToken(), "%w", errTooNested)
	}
	switch first := first.(type) {
	case json.Delim:
		list, keys := []any{}, mapping{}
		for j.More() {
			value := j.value(j.next(), depth+1)
			list = append(list, value)
			if first == '{' {
				keys = append(keys, value)
				j.value(j.next(), depth+1)
			}
		}
		j.next() // the bracket that closes
		if first == '{' {
			return keys
		}
		return list
	case float64:
		if first != 0 {
			return opaque(pythonFloat(first))
		}
	}
	return first
}
