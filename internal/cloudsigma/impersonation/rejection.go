package impersonation

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

// errorCodes are the codes of RFC 6749 sections 5.2 and 4.1.2.1, RFC 6750, RFC 8693, RFC 8628 and UMA 2.0. No other text of a
// response is passed on.
var errorCodes = []string{
	"access_denied", "insufficient_scope", "invalid_client", "invalid_grant", "invalid_request", "invalid_scope",
	"invalid_target", "invalid_token", "need_info", "request_denied", "server_error", "slow_down",
	"temporarily_unavailable", "unauthorized_client", "unsupported_grant_type", "unsupported_token_type",
}

// codeOf returns the error code in the body of an error response, "" or one of errorCodes.
func codeOf(_ int, body []byte) string {
	var rejection struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &rejection) == nil && slices.Contains(errorCodes, rejection.Error) {
		return rejection.Error
	}
	return ""
}

// failed returns the rejection of a request, or the error if the server did not decide it.
func failed(x *cloudhttp.Exchange, failure error) (issued, *ownership.UnknownError) {
	if x.Status < http.StatusBadRequest || x.Status >= http.StatusInternalServerError || x.Status == http.StatusTooManyRequests {
		return issued{}, x.Unknown(ownership.CauseIdentityProvider, failure)
	}
	return rejected(x.Unknown(causeOf(x), failure), stale(x)), nil
}

// rejected returns a rejection, which is cached for a moment.
func rejected(why *ownership.UnknownError, stale bool) issued {
	now := time.Now()
	until := now.Add(rejectionLife)
	return issued{rejection: why, stale: stale, obtained: now, refresh: until, expires: until}
}

// forUser reports whether the request was for the token of a user.
func forUser(x *cloudhttp.Exchange) bool {
	return x.Operation == stepImpersonate || x.Operation == stepExchange
}

func causeOf(x *cloudhttp.Exchange) ownership.Cause {
	denied := x.Kind == "access_denied" || x.Status == http.StatusForbidden
	switch {
	case x.Kind == "invalid_client" || x.Kind == "unauthorized_client" || x.Status == http.StatusUnauthorized:
		return ownership.CauseCredentials
	case forUser(x) && (denied || x.Status == http.StatusNotFound):
		return ownership.CauseNotImpersonable
	case denied: // the service account lacks a permission
		return ownership.CauseCredentials
	}
	return ownership.CauseIdentityProvider
}

// stale reports whether a token in the request may have expired or been revoked. RFC 8693 section 2.2.2 defines invalid_request for
// an invalid subject token. Other servers use the codes of RFC 6749 and RFC 6750.
func stale(x *cloudhttp.Exchange) bool {
	return forUser(x) && (x.Status == http.StatusUnauthorized || x.Kind == "invalid_grant" || x.Kind == "invalid_token" ||
		x.Operation == stepExchange && x.Kind == "invalid_request")
}
