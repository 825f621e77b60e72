package webhooks

import (
	"fmt"
	"strconv"
	"strings"
)

// CELField returns the CEL expression for the value at a path of an object of a match condition, such as "oldObject". The value is
// the empty string if the field or one of its parents is missing, null, or of the wrong type, because an evaluation error would
// count as a failure of the webhook (KEP-3716). The value may have any type.
//
// The chart has a copy, "warrantgate.celField", for paths that its values name.
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
