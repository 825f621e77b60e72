package openstacktest

import (
	"fmt"
	"net/http"

	"warrantgate.dev/e2e/fakes/faults"
)

// Fault responds to a request instead of Nova.
type Fault = faults.Fault

// Status responds with a status code, such as 500. The body repeats the token of the request, as careless servers do, so that a
// client that logs the body leaks a secret.
func Status(code int) Fault {
	return func(w http.ResponseWriter, r *http.Request, _ <-chan struct{}, _ http.HandlerFunc) {
		writeError(w, code, "computeFault", fmt.Sprintf("failed to handle %q", r.Header.Get(tokenHeader)))
	}
}

// Hang blocks a request until the failure is released, then Nova responds. It does not respond if the client disconnects before.
func Hang() Fault { return faults.Hang() }
