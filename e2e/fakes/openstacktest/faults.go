package openstacktest

import (
	"fmt"
	"io"
	"net/http"

	"warrantgate.dev/e2e/fakes/faults"
)

// Fault responds to a request instead of Keystone or Nova.
type Fault = faults.Fault

// Status responds with a status code, such as 500. The body repeats the token and the body of the request, as careless servers do, so that a
// client that logs the body leaks a secret.
func Status(code int) Fault {
	return func(w http.ResponseWriter, r *http.Request, _ <-chan struct{}, _ http.HandlerFunc) {
		body, _ := io.ReadAll(r.Body) // the client may have disconnected
		writeError(w, code, "computeFault", fmt.Sprintf("failed to handle %q: %s", r.Header.Get(tokenHeader), body))
	}
}

// Hang blocks a request until the failure is released, then the server responds. It does not respond if the client disconnects before.
func Hang() Fault { return faults.Hang() }
