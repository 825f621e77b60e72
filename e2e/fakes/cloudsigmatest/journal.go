package cloudsigmatest

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Operation is a kind of request.
type Operation string

// Operations of the identity provider and of CloudSigma.
const (
	ClientCredentials Operation = "client_credentials"
	UMATicket         Operation = "uma-ticket"
	TokenExchange     Operation = "token-exchange"
	Keys              Operation = "keys"
	Discovery         Operation = "discovery"

	Impersonate  Operation = "impersonate"
	GetProfile   Operation = "get profile"
	GetServer    Operation = "get server"
	ListServers  Operation = "list servers"
	CreateServer Operation = "create servers"
	DeleteServer Operation = "delete server"
)

// Request is a request that the cloud has had.
type Request struct {
	// Operation is "" if there is no such path. A violation may have an operation, if only something in it is not known.
	Operation Operation
	// Method and Path are of the request's first line; queries are left out.
	Method, Path string
	// User is whom the request was made as or, where a token was asked for, made for: the e-mail, or whatever a client
	// put in its place. A client's own token is made for the user "service-account-<client ID>". It is "" where nobody
	// could tell. It is what the client claims: the request may have been refused.
	User string
	// Region is the region of the API, "" at the identity provider.
	Region string
	// RequestID is the header X-REQUEST-ID of the answer.
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

// Count returns how many requests of an operation have come, those that met a failure included. With users, by their
// e-mails, only theirs count.
func (j *journal) Count(operation Operation, users ...string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for _, request := range j.requests {
		if request.Operation == operation && (len(users) == 0 || slices.Contains(users, request.User)) {
			n++
		}
	}
	return n
}

// Violations returns what clients have sent that neither CloudSigma nor its identity provider knows: paths, methods,
// parameters, bodies. They hold no values of parameters. A suite asserts that there are none.
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
		Method: r.Method, Path: r.URL.Path, Time: time.Now(),
		RequestID: fmt.Sprintf("00000000-0000-4000-8000-%012d", len(j.requests)+1),
	}
	j.requests = append(j.requests, request)
	return request
}

// known notes what a request is.
func (j *journal) known(request *Request, to route) {
	j.mu.Lock()
	defer j.mu.Unlock()
	request.Operation, request.Region, request.User = to.operation, to.region, to.user
}

// end notes how a request was answered.
func (j *journal) end(request *Request, status int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	request.Status = status
}

// violated keeps a violation.
func (j *journal) violated(request *Request, what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.violations = append(j.violations, fmt.Sprintf("%s %s: %s", request.Method, request.Path, what))
}
