package cloudsigmatest

import "net/http"

// impersonation is the body of a request for a user's token.
type impersonation struct {
	UserEmail    string `json:"user_email"`
	SubjectToken string `json:"subject_token"`
}

func (c *Cloud) routeServiceProvider(r *http.Request, resource string) (route, error) {
	if resource != "user/impersonate" {
		return route{}, unknown(http.StatusNotFound, "the service provider API has no such path")
	}
	to := route{operation: Impersonate}
	if err := checkMethod(r, http.MethodPost); err != nil {
		return to, err
	}
	if err := checkQuery(r); err != nil {
		return to, err
	}
	var wanted impersonation
	if err := decodeJSON(r, &wanted); err != nil {
		return to, err
	}
	if wanted.UserEmail == "" || wanted.SubjectToken == "" {
		return to, unknown(http.StatusBadRequest, "the body needs user_email and subject_token")
	}
	c.remember(wanted.SubjectToken)
	to.user = wanted.UserEmail
	to.answer = func(w http.ResponseWriter, r *http.Request) { c.answerImpersonate(w, r, wanted) }
	return to, nil
}

// answerImpersonate issues a token of a user to a service provider. The bearer token must be for this API, the subject token must be
// that of the service account, and the client must be allowed to impersonate the user.
func (c *Cloud) answerImpersonate(w http.ResponseWriter, r *http.Request, wanted impersonation) {
	ticket, err := c.provider.verify(r.Context(), bearer(r), AudienceServiceProvider)
	if err != nil {
		c.writeError(w, http.StatusUnauthorized, "permission", "Authentication failed: "+err.Error())
		return
	}
	subject, err := c.provider.verify(r.Context(), wanted.SubjectToken, "")
	if err != nil || subject.operation != ClientCredentials || subject.client != ticket.client {
		c.writeError(w, http.StatusUnauthorized, "permission", "Authentication failed: the subject token does not hold")
		return
	}
	user, ok := c.impersonated(ticket.client, wanted.UserEmail)
	if !ok || user.Email != wanted.UserEmail {
		c.denied(w, ticket.user, "IMPERSONATE", wanted.UserEmail)
		return
	}
	token, seconds, err := c.provider.mint(r.Context(), &grant{
		operation: Impersonate, client: ticket.client, user: c.orSpoiled(r.Context(), user), audience: []string{AudienceAPI},
	})
	if err != nil {
		c.writeError(w, http.StatusInternalServerError, "backend", err.Error())
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"access_token": token, "expires_in": seconds})
}
