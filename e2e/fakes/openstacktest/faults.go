package openstacktest

import (
	"fmt"
	"net/http"

	"warrantgate.dev/e2e/fakes/faults"
)

// Fault answers a request in place of Nova.
type Fault = faults.Fault

// Status answers with a status code, such as 500. The body repeats the token of the request, as careless servers do: whoever
// logs it has told a secret.
func Status(code int) Fault {
	return func(w http.ResponseWriter, r *http.Request, _ <-chan struct{}, _ http.HandlerFunc) {
		writeError(w, code, "computeFault", fmt.Sprintf("failed to handle %q", r.Header.Get(tokenHeader)))
	}
}

// Hang answers once the failure is released, and not at all if the client goes before.
func Hang() Fault { return faults.Hang() }
