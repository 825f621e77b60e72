package cloudsigma

import (
	"encoding/json"
	"net/http"
	"regexp"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

// cloudName is the label value of this cloud in metrics.
const cloudName = "cloudsigma"

// Operations of requests.
const (
	opServer  cloudhttp.Operation = "server"
	opProfile cloudhttp.Operation = "profile"
	opList    cloudhttp.Operation = "list"
)

var requests = cloudhttp.NewRequests(cloudName, opServer, opProfile, opList)

// requestIDHeader is the response header with the ID of a request.
const requestIDHeader = "X-Request-Id"

// exchange is the transport of one request, and its response. The SDK includes the whole body of an error response in its error.
type exchange struct {
	cloudhttp.Exchange
	// userID is the user that the response denies access to, or "".
	userID string
}

func newExchange(next http.RoundTripper, r request) *exchange {
	x := &exchange{}
	x.Exchange = cloudhttp.Exchange{
		Next: next, Operation: r.operation, Limit: r.limit, RequestIDHeader: requestIDHeader,
		KindOf: func(_ int, body []byte) (kind string) {
			kind, x.userID = parseRejection(body)
			return kind
		},
	}
	return x
}

// unknown returns the error of a request without a verdict. failure is the error of the SDK.
func (x *exchange) unknown(failure error) *ownership.UnknownError {
	if x.Status == http.StatusUnauthorized {
		return x.Unknown(ownership.CauseCredentials, failure)
	}
	return x.Unknown(ownership.CauseCloud, failure)
}

// kindPermission is the error type of a response that denies the user access to an existing object.
const kindPermission = "permission"

var (
	kindPattern = regexp.MustCompile(`^[a-z_]{1,40}$`)
	// userPattern matches the user in "User <uuid> does not have all of the permissions […]".
	userPattern = regexp.MustCompile(`^User ([0-9A-Fa-f-]{36}) does not have `)
)

// parseRejection returns the parts of the body of an error response that may be shown: the type of the error, such as "permission" or
// "notexist", and the UUID of the user that was denied. Each is "" if it is missing or invalid. The rest may name other users and their objects.
//
// The body is a list of objects according to the documentation of the API, but some responses contain a single object. Of several errors it
// returns the first with a type.
func parseRejection(body []byte) (kind, userID string) {
	type entry struct {
		// Both are strings according to the documentation. A message of another JSON type must not hide the error type.
		Kind    any `json:"error_type"`
		Message any `json:"error_message"`
	}
	var entries []entry
	if json.Unmarshal(body, &entries) != nil {
		entries = make([]entry, 1)
		if json.Unmarshal(body, &entries[0]) != nil {
			return "", ""
		}
	}
	for _, e := range entries {
		kind, _ := e.Kind.(string)
		if !kindPattern.MatchString(kind) {
			continue
		}
		message, _ := e.Message.(string)
		if found := userPattern.FindStringSubmatch(message); found != nil {
			userID, _ = ownership.ParseInstanceID(found[1])
		}
		return kind, userID
	}
	return "", ""
}
