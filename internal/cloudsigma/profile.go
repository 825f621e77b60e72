package cloudsigma

import (
	"context"
	"errors"
	"time"

	"github.com/maypok86/otter/v2"

	"warrantgate.dev/internal/ownership"
)

const (
	// profileLife is the TTL of a cached profile. The UUID of a user never changes, but an email may get another user.
	profileLife = 5 * time.Minute
	// maxProfiles limits the memory of cached profiles. A profile takes about 300 bytes.
	maxProfiles = 10_000
)

// profileKey identifies the profile of a user in a region.
type profileKey struct{ user, region string }

// profile contains the identity of a user.
type profile struct {
	id, email string
	// requestID is the ID of the request that returned the profile.
	requestID string
}

func newProfiles() (*otter.Cache[profileKey, profile], error) {
	return otter.New(&otter.Options[profileKey, profile]{
		MaximumSize:      maxProfiles,
		ExpiryCalculator: otter.ExpiryWriting[profileKey, profile](profileLife),
	})
}

// profile returns the profile of the credentials' user, and checks that this is the claimed user. Concurrent lookups for the same
// profile send one request.
func (l *lookup) profile(ctx context.Context) (profile, error) {
	p, err := l.cloud.profiles.Get(ctx, l.key, otter.LoaderFunc[profileKey, profile](l.loadProfile))
	var u *ownership.UnknownError
	switch {
	case errors.As(err, &u):
		return profile{}, u
	case err != nil: // ctx ended while another lookup loaded the profile
		return profile{}, unknown(ownership.CauseTimeout, "", "%s request: no answer in time", opProfile)
	case l.user != "" && !sameEmail(p.email, l.user):
		l.cloud.profiles.Invalidate(l.key) // the next token may belong to the claimed user
		return profile{}, unknown(ownership.CauseNotImpersonable, p.requestID,
			"the credentials belong to another user than the claimed one")
	}
	return p, nil
}

func (l *lookup) loadProfile(ctx context.Context, _ profileKey) (profile, error) {
	var answer struct {
		UUID  string `json:"uuid"`
		Email string `json:"email"`
	}
	x, err := l.get(ctx, request{operation: opProfile, path: []string{"profile"}, limit: maxBytes}, &answer)
	if err != nil {
		return profile{}, err
	}
	id, ok := ownership.PlainUUID(answer.UUID)
	if !ok || answer.Email == "" {
		return profile{}, unknown(ownership.CauseCloud, x.RequestID(), "%s request: the answer lacks the UUID or the email", opProfile)
	}
	return profile{id: id, email: answer.Email, requestID: x.RequestID()}, nil
}
