package oslopolicy

import (
	"bytes"
	"encoding/json"
	"regexp"
)

// surrogate finds escaped surrogates in JSON. Python keeps surrogates without a pair, which Go strings cannot contain.
var surrogate = regexp.MustCompile(`\\u[dD][89a-fA-F][0-9a-fA-F]{2}`)

// readJSON parses JSON. oslo.policy tries JSON before YAML.
func (r *reader) readJSON() error {
	if at := surrogate.FindIndex(r.data); at != nil {
		return r.fail(r.lineAt(at[0]), `it contains surrogate pairs, such as \ud83d\ude00; write the characters themselves`)
	}
	decoder := json.NewDecoder(bytes.NewReader(r.data))
	first, err := decoder.Token()
	if err != nil {
		return r.invalid(decoder, err)
	}
	if first != json.Delim('{') {
		value, err := r.jsonValue(decoder, first, 0)
		if err == nil && !falsy(value) {
			err = r.fail(1, "it is %s, not rules with their names", describe(value))
		}
		return err
	}
	lines := lineCounter{data: r.data, line: 1}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return r.invalid(decoder, err)
		}
		line := lines.at(decoder.InputOffset())
		value, err := r.jsonNext(decoder, 0)
		if err != nil {
			return err
		}
		if err := r.add(line, key, value, false); err != nil {
			return err
		}
	}
	return nil
}

// invalid returns the error for a token that cannot be decoded, such as a number that is too large.
func (r *reader) invalid(decoder *json.Decoder, err error) error {
	return r.fail(r.lineAt(int(decoder.InputOffset())), "it is not valid JSON: %w", err)
}

// lineCounter returns the line numbers of increasing offsets.
type lineCounter struct {
	data       []byte
	from, line int
}

func (l *lineCounter) at(offset int64) int {
	to := int(offset)
	l.line += bytes.Count(l.data[l.from:to], []byte("\n"))
	l.from = to
	return l.line
}

func (r *reader) jsonNext(decoder *json.Decoder, depth int) (any, error) {
	next, err := decoder.Token()
	if err != nil {
		return nil, r.invalid(decoder, err)
	}
	return r.jsonValue(decoder, next, depth)
}

func (r *reader) jsonValue(decoder *json.Decoder, first json.Token, depth int) (any, error) {
	r.nodes++
	if depth > maxNesting || r.nodes > maxNodes {
		return nil, r.fail(r.lineAt(int(decoder.InputOffset())), "%w", errTooNested)
	}
	switch first := first.(type) {
	case json.Delim:
		list, keys := []any{}, mapping{}
		for decoder.More() {
			value, err := r.jsonNext(decoder, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
			if first != '{' {
				continue
			}
			keys = append(keys, value)
			if _, err := r.jsonNext(decoder, depth+1); err != nil {
				return nil, err
			}
		}
		if _, err := decoder.Token(); err != nil { // the bracket that closes
			return nil, r.invalid(decoder, err)
		}
		if first == '{' {
			return keys, nil
		}
		return list, nil
	case float64:
		if first != 0 {
			return opaque(pythonFloat(first)), nil
		}
	}
	return first, nil
}
