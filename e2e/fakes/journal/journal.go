// Package journal records the requests that a fake cloud receives. A fake rejects each request that the real server does not know,
// and records it as a violation. Each suite asserts that there are no violations.
package journal

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Request is a request that a fake received. O is the type of the fake's operations.
type Request[O comparable] struct {
	// Operation is the zero value if the path is unknown. A violation can have an operation, if only a part of it is unknown.
	Operation O
	// Method, Path and Query are those of the request line.
	Method, Path, Query string
	// User is the user that the request claims to act as, "" if there is none. The fake may have denied the request.
	User string
	// Region is the region of the API, "" if the API has no regions.
	Region string
	// RequestID is the ID that the fake returns in a header of the response.
	RequestID string
	// Time is the time of the request.
	Time time.Time
	// Status is the status code of the response, 0 until there is one.
	Status int
}

// Journal is the record of a fake. The zero value is an empty journal.
type Journal[O comparable] struct {
	mu         sync.Mutex
	requests   []*Request[O]
	violations []string
}

// Requests returns all requests, oldest first.
func (j *Journal[O]) Requests() []Request[O] {
	j.mu.Lock()
	defer j.mu.Unlock()
	requests := make([]Request[O], len(j.requests))
	for i, request := range j.requests {
		requests[i] = *request
	}
	return requests
}

// Count returns the number of requests of an operation, including those that an injected fault answered. If there are users, it
// counts only their requests.
func (j *Journal[O]) Count(operation O, users ...string) int {
	n := 0
	for _, request := range j.Requests() {
		if request.Operation == operation && (len(users) == 0 || slices.Contains(users, request.User)) {
			n++
		}
	}
	return n
}

// Violations returns the requests that the real server does not know: an unknown path, method, parameter, header or body. It
// contains no tokens and no values of parameters.
func (j *Journal[O]) Violations() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.violations)
}

// Recorder writes a Journal. Only the fake has it.
type Recorder[O comparable] struct{ *Journal[O] }

// NewRecorder returns a recorder of an empty journal.
func NewRecorder[O comparable]() Recorder[O] { return Recorder[O]{&Journal[O]{}} }

// Begin records a request. Its ID is a UUID that is a counter.
func (r Recorder[O]) Begin(received *http.Request) *Request[O] {
	r.mu.Lock()
	defer r.mu.Unlock()
	request := &Request[O]{
		Method: received.Method, Path: received.URL.Path, Query: received.URL.RawQuery, Time: time.Now(),
		RequestID: fmt.Sprintf("00000000-0000-4000-8000-%012d", len(r.requests)+1),
	}
	r.requests = append(r.requests, request)
	return request
}

// Change changes a recorded request.
func (r Recorder[O]) Change(request *Request[O], change func(*Request[O])) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(request)
}

// Violated records a request as a violation.
func (r Recorder[O]) Violated(request *Request[O], what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.violations = append(r.violations, fmt.Sprintf("%s %s: %s", request.Method, request.Path, what))
}

// Answer returns the writer of the response to a recorded request. It records the status code.
func (r Recorder[O]) Answer(w http.ResponseWriter, request *Request[O]) http.ResponseWriter {
	return &answer[O]{ResponseWriter: w, recorder: r, request: request}
}

type answer[O comparable] struct {
	http.ResponseWriter
	recorder Recorder[O]
	request  *Request[O]
}

// WriteHeader implements http.ResponseWriter. Only the first status code of a response is sent.
func (a *answer[O]) WriteHeader(status int) {
	a.recorder.Change(a.request, func(request *Request[O]) { request.Status = cmp.Or(request.Status, status) })
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer[O]) Write(data []byte) (int, error) {
	a.recorder.Change(a.request, func(request *Request[O]) { request.Status = cmp.Or(request.Status, http.StatusOK) })
	return a.ResponseWriter.Write(data)
}
