package webhooks

import (
	"fmt"
	"strconv"
	"strings"
)

// CELField returns the expression, in CEL, of the value at a path below an object of a match condition, such as
// "oldObject". It is the empty string where there is nothing, null, or no object on the way there, so that no object
// causes an evaluation error, which would count as a failure of the webhook (KEP-3716). The value may have any type.
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

// CELSetAnew returns the expression, in CEL, that is true of requests which give the field at a path another value than
// it had, and one at all.
func CELSetAnew(path ...string) string {
	after, before := CELField("object", path...), CELField("oldObject", path...)
	return fmt.Sprintf("(%s != '' && %s != %s)", after, after, before)
}
