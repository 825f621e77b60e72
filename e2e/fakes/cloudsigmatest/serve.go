package cloudsigmatest

import (
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"
)

const (
	apiPath             = "api/2.0/"
	serviceProviderPath = "service_provider/api/v1/"
	// directPrefix is the prefix of a region in the name of its direct host.
	directPrefix = "direct."
)

// route is the operation, region, user and handler of a request.
type route struct {
	operation    Operation
	region, user string
	answer       http.HandlerFunc
}

// violation is the reason why a request is unknown.
type violation struct {
	status int
	what   string
}

func (v *violation) Error() string { return v.what }

func unknown(status int, what string) error { return &violation{status: status, what: what} }

// serve handles every request: it records, decodes and counts the request, and responds, unless a fault applies.
func (c *Cloud) serve(w http.ResponseWriter, r *http.Request) {
	request := c.recorder.Begin(r)
	answer := c.recorder.Answer(w, request)
	answer.Header().Set("X-Request-Id", request.RequestID)
	r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)

	to, err := c.route(r)
	c.rememberPresented(r)
	c.recorder.Change(request, func(request *Request) {
		request.Operation, request.Region, request.User = to.operation, to.region, to.user
	})
	if err != nil {
		c.reject(answer, request, err)
		return
	}
	if !c.Delay(r.Context(), to.operation) {
		panic(http.ErrAbortHandler) // without it, a client that is connected when the cloud stops gets an empty response
	}
	if failure := c.Take(to.operation); failure != nil {
		failure.Answer(answer, r, to.answer)
		return
	}
	to.answer(answer, r)
}

// reject denies an unknown request and records the violation.
func (c *Cloud) reject(w http.ResponseWriter, request *Request, err error) {
	status := http.StatusBadRequest
	if unknown := (*violation)(nil); errors.As(err, &unknown) {
		status = unknown.status
	}
	c.recorder.Violated(request, err.Error())
	if strings.HasPrefix(request.Path, realmPath) {
		writeJSON(w, status, map[string]string{"error": "invalid_request", "error_description": err.Error()})
		return
	}
	kind := "validation"
	if status == http.StatusNotFound {
		kind = "notexist"
	}
	c.writeError(w, status, kind, err.Error())
}

// route decodes a request. With an error, it returns the part that it could decode.
func (c *Cloud) route(r *http.Request) (route, error) {
	if r.URL.RawPath != "" {
		return route{}, unknown(http.StatusNotFound, "the path is escaped where it need not be")
	}
	if path, ok := strings.CutPrefix(r.URL.Path, realmPath); ok {
		return c.routeProvider(r, path)
	}
	host, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	region, direct := strings.CutPrefix(host, directPrefix)
	if !c.hasRegion(region) {
		return route{}, unknown(http.StatusNotFound, "there is no such region")
	}
	var to route
	err := unknown(http.StatusNotFound, "there is no such path")
	if resource, ok := strings.CutPrefix(path, apiPath); ok {
		to, err = c.routeAPI(r, region, direct, resource)
	} else if resource, ok := strings.CutPrefix(path, serviceProviderPath); ok && direct {
		to, err = c.routeServiceProvider(r, resource)
	}
	to.region = region
	return to, err
}

// checkMethod rejects methods that a resource does not have.
func checkMethod(r *http.Request, methods ...string) error {
	if !slices.Contains(methods, r.Method) {
		return unknown(http.StatusMethodNotAllowed, "the resource has no such method")
	}
	return nil
}

// checkQuery rejects parameters that a resource does not have, and repeated parameters.
func checkQuery(r *http.Request, allowed ...string) error {
	for name, values := range r.URL.Query() {
		if !slices.Contains(allowed, name) || len(values) != 1 {
			return unknown(http.StatusBadRequest, "parameter "+name+" is unknown, or comes more than once")
		}
	}
	if r.Method != http.MethodPost && r.ContentLength != 0 {
		return unknown(http.StatusBadRequest, "the method has no body")
	}
	return nil
}

func checkContentType(r *http.Request, want string) error {
	if got, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || got != want {
		return unknown(http.StatusBadRequest, "the content type is not "+want)
	}
	return nil
}
