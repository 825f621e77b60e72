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
	// tokensPath, serversPath and detailPath are the resources that the fronts accept.
	tokensPath  = keystoneVersion + "/auth/tokens"
	serversPath = novaVersion + "/servers/"
	detailPath  = serversPath + "detail"
)

// serve handles every request: it records and decodes the request, and forwards it, unless a fault applies.
func (f *Front) serve(w http.ResponseWriter, r *http.Request) {
	operation := f.operationOf(r)
	request := f.recorder.Begin(r)
	f.recorder.Change(request, func(request *Request) { request.Operation = operation })
	answer := f.recorder.Answer(w, request)
	if what := violation(r, operation); what != "" {
		f.recorder.Violated(request, what)
		writeError(answer, http.StatusBadRequest, "badRequest", what)
		return
	}
	if !f.Delay(r.Context(), operation) {
		return
	}
	if failure := f.Take(operation); failure != nil {
		failure.Answer(answer, r, f.proxy.ServeHTTP)
		return
	}
	f.proxy.ServeHTTP(answer, r)
}

// operationOf decodes a request. Keystone and Nova have more paths. warrantgate needs only these.
func (f *Front) operationOf(r *http.Request) Operation {
	switch {
	case !strings.HasPrefix(r.URL.Path, f.version):
		return ""
	case r.URL.Path == tokensPath:
		return Authenticate
	case r.URL.Path == detailPath:
		return ListServers
	}
	id, found := strings.CutPrefix(r.URL.Path, serversPath)
	if parsed, err := uuid.Parse(id); !found || err != nil || parsed.String() != id {
		return ""
	}
	return GetServer
}

// parameters are the parameters of each operation.
var parameters = map[Operation][]string{ListServers: {"limit", "marker", "name"}}

// violation returns the reason why a request is unknown, "" if it is known.
func violation(r *http.Request, operation Operation) string {
	switch {
	case operation == "":
		return "there is no such path, or the UUID is not written in the usual way"
	case (r.Method == http.MethodPost) != (operation == Authenticate), r.Method != http.MethodPost && r.Method != http.MethodGet:
		return "the resource has no such method"
	case r.Method == http.MethodGet && r.ContentLength != 0:
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

// writeError writes an error in the format of Nova.
func writeError(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{kind: map[string]any{"code": status, "message": message}}) // the client may have disconnected
}
