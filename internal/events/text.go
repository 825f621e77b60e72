package events

import "strings"

// shorten cuts a message to what the API server takes, at a whole character.
func shorten(message string) string {
	if len(message) <= maxMessageBytes {
		return message
	}
	const mark = "…"
	return strings.ToValidUTF8(message[:maxMessageBytes-len(mark)], "") + mark
}
