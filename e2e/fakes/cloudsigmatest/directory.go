package cloudsigmatest

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/google/uuid"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// User is a user of CloudSigma. The UUID is the same in all regions.
type User struct {
	UUID, Email string
}

// Client is a client of the identity provider and its secret.
type Client struct {
	ID, Secret string
}

// directory contains the users and clients of the identity provider.
type directory struct {
	secrets *secrets

	mu        sync.Mutex
	users     map[string]User   // by email address
	emails    map[string]string // by UUID
	passwords map[string]string
	clients   map[string]*account
}

// account is a client and the users that it can impersonate.
type account struct {
	secret      string
	user        User
	impersonate map[string]bool
}

func newDirectory(secrets *secrets) *directory {
	return &directory{
		secrets: secrets, users: map[string]User{}, emails: map[string]string{},
		passwords: map[string]string{}, clients: map[string]*account{},
	}
}

// AddUser adds a user, or returns the existing one with this email address.
func (d *directory) AddUser(email string) User {
	return d.addUser(User{UUID: uuid.NewString(), Email: email})
}

func (d *directory) addUser(user User) User {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.users[user.Email]; ok {
		return known
	}
	d.users[user.Email], d.emails[user.UUID] = user, user.Email
	return user
}

// AllowPassword allows a user to authenticate with a password. This is the legacy way and off by default.
func (d *directory) AllowPassword(email, password string) {
	d.secrets.remember(password, basicAuth(email, password))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.passwords[email] = password
}

// AddClient adds a client with a service account that may not impersonate any user, or returns the existing one with this ID.
func (d *directory) AddClient(id string) Client {
	user := d.AddUser("service-account-" + id)
	secret := d.secrets.random()
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.clients[id]; !ok {
		d.clients[id] = &account{secret: secret, user: user, impersonate: map[string]bool{}}
	}
	return Client{ID: id, Secret: d.clients[id].secret}
}

// RotateSecret gives a client a new secret and invalidates the old one. Existing tokens stay valid.
func (d *directory) RotateSecret(clientID string) (Client, error) {
	secret := d.secrets.random()
	err := d.change(clientID, func(a *account) { a.secret = secret })
	return Client{ID: clientID, Secret: secret}, err
}

// AllowImpersonation allows a client to impersonate users, by their email addresses. The users need not exist yet.
func (d *directory) AllowImpersonation(clientID string, emails ...string) error {
	return d.setImpersonation(clientID, true, emails)
}

// DenyImpersonation reverts AllowImpersonation. Existing tokens stay valid; see RevokeTokens.
func (d *directory) DenyImpersonation(clientID string, emails ...string) error {
	return d.setImpersonation(clientID, false, emails)
}

func (d *directory) setImpersonation(clientID string, allowed bool, emails []string) error {
	return d.change(clientID, func(a *account) {
		for _, email := range emails {
			a.impersonate[email] = allowed
		}
	})
}

func (d *directory) change(clientID string, change func(*account)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, ok := d.clients[clientID]
	if !ok {
		return fmt.Errorf("there is no client %q: add it first", clientID)
	}
	change(a)
	return nil
}

// impersonated returns the user that a client requests, by email address or UUID. As in Keycloak, the error is the same whether the
// user does not exist or the client has no permission.
func (d *directory) impersonated(clientID, user string) (User, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, ok := d.users[user]
	if !ok {
		found, ok = d.byUUID(user)
	}
	a := d.clients[clientID]
	return found, ok && a != nil && a.impersonate[found.Email]
}

// user returns the user with a UUID.
func (d *directory) user(id string) (User, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byUUID(id)
}

func (d *directory) byUUID(id string) (User, bool) {
	user, ok := d.users[d.emails[id]]
	return user, ok && user.UUID == id // a new user with the email address of a removed one is another user
}

// withPassword returns the user with a name and a password.
func (d *directory) withPassword(email, password string) (User, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	want, ok := d.passwords[email]
	user, known := d.users[email]
	return user, ok && known && password == want
}

// serviceAccount returns the user of the client's own service account.
func (d *directory) serviceAccount(clientID string) User {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clients[clientID].user
}

// authenticate checks a client's secret. The errors are those of Keycloak.
func (d *directory) authenticate(clientID, secret string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, ok := d.clients[clientID]
	rejection := oidc.ErrInvalidClient()
	switch {
	case ok && a.secret == secret:
		return nil
	case ok:
		rejection = oidc.ErrUnauthorizedClient()
	}
	return op.NewStatusError(rejection.WithDescription("Invalid client or Invalid client credentials"), http.StatusUnauthorized)
}
