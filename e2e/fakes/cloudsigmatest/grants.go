package cloudsigmatest

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// grantParameters are the parameters of each grant, and those that can occur more than once. A server of RFC 6749 ignores unknown
// parameters. Here they are violations, because a misspelled parameter would be ignored too.
var grantParameters = map[string]struct {
	operation        Operation
	parameters, many []string
}{
	string(oidc.GrantTypeClientCredentials): {ClientCredentials, []string{"client_id", "client_secret", "scope"}, nil},
	grantTypeUMATicket:                      {UMATicket, []string{"audience"}, nil},
	string(oidc.GrantTypeTokenExchange): {TokenExchange, []string{
		"client_id", "client_secret", "subject_token", "subject_token_type", "actor_token", "actor_token_type",
		"requested_token_type", "requested_subject", "scope",
	}, []string{"audience", "resource"}},
}

func (c *Cloud) routeProvider(r *http.Request, path string) (route, error) {
	if err := checkQuery(r); err != nil {
		return route{}, err
	}
	to := route{answer: c.provider.handler.ServeHTTP}
	switch path {
	case keysPath:
		to.operation = Keys
		return to, checkMethod(r, http.MethodGet)
	case discoveryPath:
		to.operation = Discovery
		return to, checkMethod(r, http.MethodGet)
	case tokenPath:
		return c.routeGrant(r, to)
	default:
		return route{}, unknown(http.StatusNotFound, "the identity provider has no such path")
	}
}

func (c *Cloud) routeGrant(r *http.Request, to route) (route, error) {
	if err := checkMethod(r, http.MethodPost); err != nil {
		return to, err
	}
	if err := checkContentType(r, "application/x-www-form-urlencoded"); err != nil {
		return to, err
	}
	if err := r.ParseForm(); err != nil {
		return to, unknown(http.StatusBadRequest, "the body is not a form")
	}
	known, ok := grantParameters[r.PostForm.Get("grant_type")]
	if !ok {
		return to, unknown(http.StatusBadRequest, fmt.Sprintf("there is no grant type %q", r.PostForm.Get("grant_type")))
	}
	to.operation = known.operation
	for name, values := range r.PostForm {
		once := name == "grant_type" || slices.Contains(known.parameters, name)
		if !once && !slices.Contains(known.many, name) || once && len(values) != 1 {
			return to, unknown(http.StatusBadRequest, fmt.Sprintf("parameter %s is unknown to the grant, or comes more than once", name))
		}
	}
	switch known.operation {
	case UMATicket:
		to.answer = c.answerTicket
		to.user = c.provider.whose(bearer(r)).user.Email
	default:
		client, _, _ := r.BasicAuth()
		client = cmp.Or(client, r.PostForm.Get("client_id"))
		to.user = cmp.Or(r.PostForm.Get("requested_subject"), "service-account-"+client)
	}
	return to, nil
}

// answerTicket implements the UMA grant of Keycloak. It exchanges the access token of a service account for a token (RPT) for the
// service provider API.
func (c *Cloud) answerTicket(w http.ResponseWriter, r *http.Request) {
	reject := func(status int, err *oidc.Error, description string) {
		op.WriteError(w, r, op.NewStatusError(err.WithDescription("%s", description), status), nil)
	}
	account, err := c.provider.verify(r.Context(), bearer(r), "")
	switch {
	case err != nil:
		reject(http.StatusUnauthorized, oidc.ErrInvalidGrant(), "Invalid bearer token")
		return
	case r.PostForm.Get("audience") != AudienceServiceProvider:
		reject(http.StatusBadRequest, oidc.ErrInvalidRequest(), "Audience not found")
		return
	case account.operation != ClientCredentials:
		reject(http.StatusForbidden, oidc.ErrAccessDenied(), "not_authorized")
		return
	}
	token, seconds, err := c.provider.mint(r.Context(), &grant{
		operation: UMATicket, client: account.client, user: c.orSpoiled(r.Context(), account.user),
		audience: []string{AudienceServiceProvider},
	})
	if err != nil {
		reject(http.StatusInternalServerError, oidc.ErrServerError(), err.Error())
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"upgraded": false, "access_token": token, "expires_in": seconds, "token_type": oidc.BearerToken,
		"refresh_token": c.random(), "refresh_expires_in": 1800, "not-before-policy": 0,
	})
}
