package openstacktest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"
)

const (
	tokenHeader = "X-Auth-Token"
	// serversPath and detailPath are the two resources that the front accepts.
	serversPath = version + "/servers/"
	detailPath  = serversPath + "detail"
)

// handler answers a request whose token is known to be of a project.
type handler func(w http.ResponseWriter, r *http.Request, projectID string)

// serve is the handler of everything: a request is recorded, understood, and answered unless it meets a failure.
func (n *Nova) serve(w http.ResponseWriter, r *http.Request) {
	request := n.begin(r)
	answer := &answer{ResponseWriter: w, done: func(status int) {
		n.change(request, func(request *Request) { request.Status = status })
	}}
	answer.Header().Set("X-Openstack-Request-Id", request.RequestID)
	answer.Header().Set("X-Compute-Request-Id", request.RequestID)
	operation, handle := n.route(r)
	n.change(request, func(request *Request) { request.Operation = operation })
	if what := violation(r, operation); what != "" {
		n.violated(request, what)
		writeError(answer, http.StatusBadRequest, "badRequest", what)
		return
	}
	respond := func(w http.ResponseWriter, r *http.Request) { n.authenticated(w, r, request, handle) }
	if !n.Delay(r.Context(), operation) {
		return
	}
	if failure := n.Take(operation); failure != nil {
		failure.Answer(answer, r, respond)
		return
	}
	respond(answer, r)
}

// route understands a request. Nova has far more paths; these are the ones that are needed.
func (n *Nova) route(r *http.Request) (Operation, handler) {
	if r.URL.Path == detailPath {
		return ListServers, n.answerList
	}
	id, found := strings.CutPrefix(r.URL.Path, serversPath)
	if parsed, err := uuid.Parse(id); !found || err != nil || parsed.String() != id {
		return "", nil
	}
	return GetServer, func(w http.ResponseWriter, _ *http.Request, projectID string) { n.answerServer(w, projectID, id) }
}

// parameters are the parameters of each operation.
var parameters = map[Operation][]string{ListServers: {"limit", "marker", "name"}}

// violation returns the reason why a request is unknown, "" if it is known.
func violation(r *http.Request, operation Operation) string {
	switch {
	case operation == "":
		return "there is no such path, or the UUID is not written in the usual way"
	case r.Method != http.MethodGet:
		return "the resource has no such method"
	case r.ContentLength != 0:
		return "the method has no body"
	case r.Header.Get("Openstack-Api-Version")+r.Header.Get("X-Openstack-Nova-Api-Version") != "":
		return "a microversion is asked for, and none is needed"
	case len(r.Header.Values(tokenHeader)) > 1:
		return "there are several tokens"
	}
	for name, values := range r.URL.Query() {
		if !slices.Contains(parameters[operation], name) || len(values) != 1 {
			return "parameter " + name + " is unknown, or comes more than once"
		}
	}
	return ""
}

// authenticated lets requests pass whose token Keystone knows. The answers to others are those of keystonemiddleware.
func (n *Nova) authenticated(w http.ResponseWriter, r *http.Request, request *Request, handle handler) {
	token := r.Header.Get(tokenHeader)
	projectID, ok := "", false
	if token != "" {
		var err error
		if projectID, ok, err = n.validate(r.Context(), token); err != nil {
			http.Error(w, "The server is currently unavailable. Please try again at a later time.", http.StatusServiceUnavailable)
			return
		}
	}
	n.change(request, func(request *Request) { request.ProjectID = projectID })
	switch {
	case !ok:
		w.Header().Set("WWW-Authenticate", "Keystone")
		writeJSON(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{
			"code": http.StatusUnauthorized, "title": "Unauthorized", "message": "The request you have made requires authentication.",
		}})
	case projectID == "":
		writeError(w, http.StatusForbidden, "forbidden", "Policy doesn't allow os_compute_api:servers to be performed.")
	default:
		handle(w, r, projectID)
	}
}

// writeError answers in the words of Nova.
func writeError(w http.ResponseWriter, status int, kind, message string) {
	writeJSON(w, status, map[string]any{kind: map[string]any{"code": status, "message": message}})
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client may have gone
}

// answer reports the status code of a response once.
type answer struct {
	http.ResponseWriter
	done  func(status int)
	wrote bool
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if !a.wrote {
		a.wrote = true
		a.done(status)
	}
	a.ResponseWriter.WriteHeader(status)
}
