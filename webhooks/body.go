package webhooks

import (
	"errors"
	"io"
	"net/http"
)

var errNoObject = errors.New("the body is not a JSON object")

// onlyJSON lets nothing but a JSON object come to be decoded. The decoder would take YAML too, and a few megabytes of
// that, which anybody may send, cost seconds and most of a gigabyte.
func onlyJSON(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = &jsonObject{ReadCloser: r.Body}
		next.ServeHTTP(w, r)
	})
}

// jsonObject is a body that fails unless it begins like a JSON object, as all that API servers send does.
type jsonObject struct {
	io.ReadCloser
	begun bool
}

func (b *jsonObject) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if !b.begun && (n > 0 || errors.Is(err, io.EOF)) {
		b.begun = true
		if n == 0 || p[0] != '{' {
			return 0, errNoObject
		}
	}
	return n, err
}
