package openstacktest

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Operation is a kind of request.
type Operation string

// Operations of Nova.
const (
	GetServer   Operation = "get server"
	ListServers Operation = "list servers"
)

// Request is a request that Nova has had.
type Request struct {
	// Operation is "" if there is no such path.
	Operation Operation
	// Method, Path and Query are of the request's first line.
	Method, Path, Query string
	// ProjectID is whose token came with it, "" where nobody could tell.
	ProjectID string
	// RequestID is the header X-Openstack-Request-Id of the answer.
	RequestID string
	// Time is when the request came.
	Time time.Time
	// Status is the code of the answer, 0 as long as there is none.
	Status int
}

// journal is what has happened.
type journal struct {
	mu         sync.Mutex
	requests   []*Request
	violations []string
}

// Requests returns all requests in the order in which they came.
func (j *journal) Requests() []Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	requests := make([]Request, len(j.requests))
	for i, request := range j.requests {
		requests[i] = *request
	}
	return requests
}

// Count returns how many requests of an operation have come, those that met a failure included.
func (j *journal) Count(operation Operation) int {
	n := 0
	for _, request := range j.Requests() {
		if request.Operation == operation {
			n++
		}
	}
	return n
}

// Violations returns what clients have sent that Nova does not know: paths, methods, parameters, headers. They hold no token. A
// suite asserts that there are none.
func (j *journal) Violations() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.violations)
}

// begin records a request and gives it its ID: a UUID that counts.
func (j *journal) begin(r *http.Request) *Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	request := &Request{
		Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Time: time.Now(),
		RequestID: fmt.Sprintf("req-00000000-0000-4000-8000-%012d", len(j.requests)+1),
	}
	j.requests = append(j.requests, request)
	return request
}

// change notes something about a request.
func (j *journal) change(request *Request, change func(*Request)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(request)
}

// violated keeps a violation.
func (j *journal) violated(request *Request, what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.violations = append(j.violations, fmt.Sprintf("%s %s: %s", request.Method, request.Path, what))
}
