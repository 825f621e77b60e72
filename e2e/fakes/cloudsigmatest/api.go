package cloudsigmatest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/google/uuid"
)

// apiError is an error of CloudSigma's API. A response contains a list of them.
type apiError struct {
	Type    string  `json:"error_type"`
	Message string  `json:"error_message"`
	Point   *string `json:"error_point"`
}

func (*Cloud) writeError(w http.ResponseWriter, status int, kind, message string) {
	writeJSON(w, status, []apiError{{Type: kind, Message: message}})
}

// denied responds that a user has no permission.
func (c *Cloud) denied(w http.ResponseWriter, user User, permission, resource string) {
	c.writeError(w, http.StatusForbidden, "permission", fmt.Sprintf(
		"User %s does not have all of the permissions [%s] in order to complete the operation on resources [%s]",
		user.UUID, permission, resource))
}

// userHandler responds to an authenticated user.
type userHandler func(w http.ResponseWriter, r *http.Request, user User)

func (c *Cloud) routeAPI(r *http.Request, region string, direct bool, resource string) (route, error) {
	to := route{user: c.claimed(r, direct)}
	if _, _, ok := r.BasicAuth(); ok && direct {
		return to, unknown(http.StatusUnauthorized, "a password belongs to the other host of the region")
	}
	var handle userHandler
	var methods, parameters []string
	switch id, isServer := serverID(resource); {
	case resource == "profile/":
		to.operation, handle, methods = GetProfile, c.answerProfile, []string{http.MethodGet}
	case resource == "servers/" && r.Method == http.MethodPost:
		to.operation, methods = CreateServer, []string{http.MethodPost}
		wanted, err := decodeServers(r)
		if err != nil {
			return to, err
		}
		handle = func(w http.ResponseWriter, _ *http.Request, user User) { c.answerCreate(w, user, region, wanted) }
	case resource == "servers/" || resource == "servers/detail/":
		to.operation, methods = ListServers, []string{http.MethodGet}
		parameters = []string{"name", "limit", "offset"}
		limit, offset, err := page(r)
		if err != nil {
			return to, err
		}
		detail := resource != "servers/"
		handle = func(w http.ResponseWriter, r *http.Request, user User) {
			c.answerList(w, user, region, r.URL.Query().Get("name"), detail, limit, offset)
		}
	case isServer && r.Method == http.MethodDelete:
		to.operation, methods = DeleteServer, []string{http.MethodDelete}
		handle = func(w http.ResponseWriter, _ *http.Request, user User) { c.answerDelete(w, user, region, id) }
	case isServer:
		to.operation, methods = GetServer, []string{http.MethodGet}
		handle = func(w http.ResponseWriter, _ *http.Request, user User) { c.answerServer(w, user, region, id) }
	default:
		return to, unknown(http.StatusNotFound, "the API has no such path, or the UUID is not written in the usual way")
	}
	to.answer = c.authenticated(direct, handle)
	if err := checkMethod(r, methods...); err != nil {
		return to, err
	}
	return to, checkQuery(r, parameters...)
}

// serverID returns the UUID in the path of a server. It accepts only the canonical form: 36 lower-case characters.
func serverID(resource string) (string, bool) {
	const prefix, length = "servers/", 36
	if len(resource) != len(prefix)+length+1 || resource[:len(prefix)] != prefix || resource[len(resource)-1] != '/' {
		return "", false
	}
	id := resource[len(prefix) : len(prefix)+length]
	parsed, err := uuid.Parse(id)
	return id, err == nil && parsed.String() == id
}

// claimed returns the email address of the user that a request claims to act as.
func (c *Cloud) claimed(r *http.Request, direct bool) string {
	if email, _, ok := r.BasicAuth(); ok {
		return email
	}
	return c.actsAs(c.provider.whose(bearer(r)), direct).Email
}

// actsAs returns the user that a token acts as: its own user at the direct host, and the user of the service account at the other one.
func (c *Cloud) actsAs(g grant, direct bool) User {
	if direct || g.client == "" {
		return g.user
	}
	return c.serviceAccount(g.client)
}

// authenticated authenticates a user by a token for the API or, if it is enabled, a password.
func (c *Cloud) authenticated(direct bool, handle userHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		user, err := c.authenticateUser(r, direct)
		if err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			c.writeError(w, http.StatusUnauthorized, "permission", "Authentication failed: "+err.Error())
			return
		}
		handle(w, r, user)
	}
}

func (c *Cloud) authenticateUser(r *http.Request, direct bool) (User, error) {
	if email, password, ok := r.BasicAuth(); ok {
		user, ok := c.withPassword(email, password)
		if !ok {
			return User{}, errors.New("the password is wrong, or passwords are off for this user")
		}
		return user, nil
	}
	g, err := c.provider.verify(r.Context(), bearer(r), AudienceAPI)
	if err != nil {
		return User{}, err
	}
	user, ok := c.user(c.actsAs(g, direct).UUID)
	if !ok {
		return User{}, errors.New("the token's user does not exist")
	}
	return user, nil
}

func (c *Cloud) answerProfile(w http.ResponseWriter, _ *http.Request, user User) {
	writeJSON(w, http.StatusOK, map[string]any{
		"uuid": user.UUID, "email": user.Email, "state": "regular", "meta": map[string]any{},
	})
}

// page reads the parameters limit and offset. A limit of 0 means all, none means 20.
func page(r *http.Request) (limit, offset int, err error) {
	limit = 20
	for name, value := range map[string]*int{"limit": &limit, "offset": &offset} {
		if !r.URL.Query().Has(name) {
			continue
		}
		if *value, err = strconv.Atoi(r.URL.Query().Get(name)); err != nil || *value < 0 {
			return 0, 0, unknown(http.StatusBadRequest, "parameter "+name+" is not a number from 0")
		}
	}
	return limit, offset, nil
}

// decodeJSON decodes one JSON object from the body of a request. It rejects any further content.
func decodeJSON(r *http.Request, into any) error {
	if err := checkContentType(r, "application/json"); err != nil {
		return err
	}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return unknown(http.StatusBadRequest, "the body is not the JSON that is documented")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return unknown(http.StatusBadRequest, "the body is more than one JSON object")
	}
	return nil
}
