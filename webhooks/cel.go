package webhooks

import (
	"fmt"
	"strconv"
	"strings"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/message"
)

// CELField returns the CEL expression for the value at a path of an object of a match condition, such as "oldObject". The value is
// the empty string if the field or one of its parents is missing, null, or of the wrong type, because an evaluation error would
// count as a failure of the webhook (KEP-3716). The value may have any type.
//
// The chart has a copy, "warrantgate.celField".
func CELField(object string, path ...string) string {
	var conditions []string
	at := object
	for _, name := range path {
		key := strconv.Quote(name)
		conditions = append(conditions, fmt.Sprintf("type(%s) == map && %s in %s", at, key, at))
		at += "[" + key + "]"
	}
	conditions = append(conditions, at+" != null")
	return fmt.Sprintf("(%s ? %s : '')", strings.Join(conditions, " && "), at)
}

// CELReadable returns the CEL expression that is true if the field at a path is a string, null or missing, and each of its parents is an
// object, null or missing: if the field can be decoded.
//
// The chart has a copy, "warrantgate.celReadable".
func CELReadable(object string, path ...string) string {
	at, expression := object, fmt.Sprintf("(type(%s) == map", object)
	for i, name := range path {
		key, kind := strconv.Quote(name), "map"
		if i == len(path)-1 {
			kind = "string"
		}
		field := at + "[" + key + "]"
		expression += fmt.Sprintf(" && (!(%[1]s in %[2]s) || %[3]s == null || type(%[3]s) == %[4]s", key, at, field, kind)
		at = field
	}
	return expression + strings.Repeat(")", len(path)+1)
}

// CELSet returns the CEL expression that is true for requests that set the field at a path to another value. It is false for
// requests that clear the field.
func CELSet(path ...string) string {
	after, before := CELField("object", path...), CELField("oldObject", path...)
	return fmt.Sprintf("(%s != '' && %s != %s)", after, after, before)
}

// CELChanged returns the CEL expression that is true for requests that set, change or remove the field at a path.
func CELChanged(path ...string) string {
	return fmt.Sprintf("%s != %s", CELField("object", path...), CELField("oldObject", path...))
}

// CELString returns a string literal of CEL.
func CELString(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}

// CELNamed returns the CEL expression that is true for requests for one of the objects. name is the expression of the name of the object,
// because a request has none if the API server generates it. A name contains no slash.
//
// The chart has a copy, "warrantgate.celObjectNames".
func CELNamed(name string, objects []v1beta1.NamedObject) string {
	quoted := make([]string, 0, len(objects))
	for _, object := range objects {
		quoted = append(quoted, strconv.Quote(object.Namespace+"/"+object.Name))
	}
	return fmt.Sprintf("request.namespace + '/' + %s in [%s]", name, strings.Join(quoted, ", "))
}

// CELValue returns the CEL expression that cuts a string as message.Value does, if it is ASCII.
func CELValue(value string) string {
	return fmt.Sprintf("(size(bytes(%[1]s)) > %[2]d ? %[1]s.substring(0, [%[2]d, size(%[1]s)].min()) + '…' : %[1]s)", value, message.MaxValue)
}

// CELQuoted returns the CEL expression that quotes a string as %q does, if it is printable ASCII. Other characters that are not printable
// are replaced.
func CELQuoted(value string) string {
	return fmt.Sprintf(`'"' + %s.split('').map(c, c in ['"', '\\'] ? '\\' + c : c != ' ' && c.matches(r'[\pC\pZ]') ? '\ufffd' : c).join('') + '"'`, value)
}
