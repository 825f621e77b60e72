package cloudsigma

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

const (
	// profileLife is the TTL of a cached profile. The UUID of a user never changes, but an email may get another user.
	profileLife = 5 * time.Minute
	// maxProfiles limits the memory of cached profiles. A profile takes about 300 bytes.
	maxProfiles = 10_000
)

// profileKey identifies the profile of a user in a region. Users with tokens and the legacy account are at two hosts.
type profileKey struct {
	user, region string
	legacy       bool
}

// profile contains the identity of a user.
type profile struct {
	id, email string
	// requestID is the ID of the request that returned the profile.
	requestID string
}

// profile returns the profile of the credentials' user at the API, and checks that this is the claimed user: the same token is that of the
// service account at another host, and each answer there is about this account. Concurrent lookups for the same profile send one request.
func (l *lookup) profile(ctx context.Context) (profile, error) {
	p, err := l.cloud.profiles.Get(ctx, l.key, otter.LoaderFunc[profileKey, profile](l.loadProfile))
	var u *ownership.UnknownError
	switch {
	case errors.As(err, &u):
		return profile{}, u
	case err != nil: // ctx ended while another lookup loaded the profile
		return profile{}, cloudhttp.Unknown(ownership.CauseTimeout, "", "%s request: no answer in time", opProfile)
	case l.user != "" && !sameEmail(p.email, l.user):
		l.cloud.profiles.Invalidate(l.key) // the next token may belong to the claimed user
		return profile{}, l.wrongUser(fmt.Sprintf("%.100q (%s)", p.email, p.id), p.requestID)
	}
	return p, nil
}

// wrongUser is the error if the API treats the token of the claimed user as another user. The error is for the operator and names that user.
// Tenants read the explanation, which does not: the user is normally the service account's, but it is another tenant's if the API confuses
// tokens. It does not name the claimed user either, because the messages around it name this user, or hide it if a Secret of another namespace
// names it.
func (l *lookup) wrongUser(treatedAs, requestID string) *ownership.UnknownError {
	const remedy = "set cloudSigma.api to the URL at which the token acts as its user"
	err := cloudhttp.Unknown(ownership.CauseWrongUser, requestID, "the API at %s treats the token of user %q as user %s; %s", l.api, l.user, treatedAs, remedy)
	err.Explanation = fmt.Sprintf("the API at %s treats the token of this user as that of another user; the operator of warrantgate has to %s", l.api, remedy)
	return err
}

// Identity is the user that the API treats the credentials for an account as.
type Identity struct {
	// API is the URL of the API.
	API string
	// Legacy is true for the legacy credentials, and false for a token of the account's user.
	Legacy bool
	// UserID and Email are those of the user.
	UserID, Email string
	// RequestID is the ID of the request for the support of the cloud.
	RequestID string
	// Claimed is true if the user is that of the account. For an account without a user, every user is.
	Claimed bool
}

// Identify asks the API which user it treats the credentials for an account as. It uses no cached profile. The fields API and Legacy are set
// also with an error of the request. Besides an *ownership.UnknownError, the error may be an *ownership.RegionError.
func (c *Cloud) Identify(ctx context.Context, account ownership.Account) (Identity, error) {
	l, err := c.newLookup(account)
	if err != nil {
		return Identity{}, err
	}
	identity := Identity{API: l.api.String(), Legacy: l.legacy != nil}
	p, err := l.loadProfile(ctx, l.key)
	if err != nil {
		return identity, err
	}
	identity.UserID, identity.Email, identity.RequestID = p.id, p.email, p.requestID
	identity.Claimed = account.User == "" || sameEmail(p.email, account.User)
	return identity, nil
}

func (l *lookup) loadProfile(ctx context.Context, _ profileKey) (profile, error) {
	var answer struct {
		UUID  string `json:"uuid"`
		Email string `json:"email"`
	}
	x, err := l.get(ctx, request{operation: opProfile, path: []string{"profile"}, limit: cloudhttp.MaxBytes}, &answer)
	if err != nil {
		return profile{}, err
	}
	id, err := ownership.ParseInstanceID(answer.UUID)
	if err != nil || answer.Email == "" {
		return profile{}, cloudhttp.Unknown(ownership.CauseCloud, x.RequestID(), "%s request: the answer lacks the UUID or the email", opProfile)
	}
	return profile{id: id, email: answer.Email, requestID: x.RequestID()}, nil
}
