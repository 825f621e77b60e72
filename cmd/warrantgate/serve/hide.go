package serve

import (
	"io"
	"sync/atomic"

	"warrantgate.dev/internal/webhookserver"
)

// tokenHider writes a log without the tokens of the webhook path. Errors of API servers contain the URL of a webhook that they could not
// call.
type tokenHider struct {
	out    io.Writer
	tokens atomic.Pointer[webhookserver.Tokens] // may be nil
}

// Write implements io.Writer for whole lines.
func (h *tokenHider) Write(line []byte) (int, error) {
	if tokens := h.tokens.Load(); tokens != nil {
		if _, err := h.out.Write(tokens.Hide(line)); err != nil {
			return 0, err
		}
		return len(line), nil
	}
	return h.out.Write(line)
}
