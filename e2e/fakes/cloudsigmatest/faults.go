package cloudsigmatest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"warrantgate.dev/e2e/fakes/faults"
)

// Fault responds to a request instead of the cloud.
type Fault = faults.Fault

// Failure is a fault for a number of requests.
type Failure = faults.Failure[Operation]

// TooManyRequests responds with 429. If retryAfter is not 0, it sets the header Retry-After in whole seconds.
func TooManyRequests(retryAfter time.Duration) Fault {
	return func(w http.ResponseWriter, r *http.Request, _ <-chan struct{}, _ http.HandlerFunc) {
		if retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
		}
		writeFault(w, r, http.StatusTooManyRequests)
	}
}

// Status responds with a status code, such as 500. The body repeats the credentials of the request, as careless servers do, so that
// a client that logs the body leaks a secret.
func Status(code int) Fault {
	return func(w http.ResponseWriter, r *http.Request, _ <-chan struct{}, _ http.HandlerFunc) {
		writeFault(w, r, code)
	}
}

// Hang blocks a request until the failure is released, then the cloud responds. It does not respond if the client disconnects
// before.
func Hang() Fault { return faults.Hang() }

// Cut closes the connection without a response.
func Cut() Fault {
	return func(http.ResponseWriter, *http.Request, <-chan struct{}, http.HandlerFunc) {
		panic(http.ErrAbortHandler)
	}
}

// TokenOf responds with a token of a user other than the requested one.
func TokenOf(email string) Fault {
	return func(w http.ResponseWriter, r *http.Request, _ <-chan struct{}, answer http.HandlerFunc) {
		answer(w, r.WithContext(context.WithValue(r.Context(), spoiledKey{}, email)))
	}
}

// spoiledKey is the key, in a context, of the user whose token is issued in place of the requested one.
type spoiledKey struct{}

// orSpoiled returns the user for which a token is issued: the requested one, unless a fault replaces it.
func (d *directory) orSpoiled(ctx context.Context, user User) User {
	if email, spoiled := ctx.Value(spoiledKey{}).(string); spoiled {
		return d.AddUser(email)
	}
	return user
}

// writeFault writes an error of the identity provider or of the API.
func writeFault(w http.ResponseWriter, r *http.Request, status int) {
	text := fmt.Sprintf("failed to handle %q %q", r.Header.Get("Authorization"), r.PostForm.Encode())
	if strings.HasPrefix(r.URL.Path, realmPath) {
		writeJSON(w, status, map[string]string{"error": "server_error", "error_description": text})
		return
	}
	writeJSON(w, status, []apiError{{Type: "backend", Message: text}})
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client may have disconnected
}
