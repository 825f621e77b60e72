package cloudsigma

import (
	"context"
	"errors"
	"time"

	"github.com/maypok86/otter/v2"

	"warrantgate.dev/internal/ownership"
)

const (
	// profileLife is how long a profile is kept. The UUID of a user never changes, but an email may go to another one.
	profileLife = 5 * time.Minute
	// maxProfiles bounds the memory that profiles take: one is about 300 bytes.
	maxProfiles = 10_000
)

// profileKey is whose profile it is, and where.
type profileKey struct{ user, region string }

// profile is what is known of a user.
type profile struct {
	id, email string
	// requestID is the id of the request that it came with.
	requestID string
}

func newProfiles() (*otter.Cache[profileKey, profile], error) {
	return otter.New(&otter.Options[profileKey, profile]{
		MaximumSize:      maxProfiles,
		ExpiryCalculator: otter.ExpiryWriting[profileKey, profile](profileLife),
	})
}

// profile returns the profile of the user that the credentials belong to, and makes sure that it is the one who is
// claimed. Questions that need the same profile at the same time send one request.
func (q *question) profile(ctx context.Context) (profile, error) {
	p, err := q.cloud.profiles.Get(ctx, q.key, otter.LoaderFunc[profileKey, profile](q.loadProfile))
	var u *ownership.UnknownError
	switch {
	case errors.As(err, &u):
		return profile{}, u
	case err != nil: // the end of ctx, while another question was loading it
		return profile{}, unknown(ownership.CauseTimeout, "", "%s request: no answer in time", opProfile)
	case q.user != "" && !sameEmail(p.email, q.user):
		q.cloud.profiles.Invalidate(q.key) // the next token may be the right one
		return profile{}, unknown(ownership.CauseNotImpersonable, p.requestID,
			"the credentials are those of somebody else than the user who is claimed")
	}
	return p, nil
}

func (q *question) loadProfile(ctx context.Context, _ profileKey) (profile, error) {
	var answer struct {
		UUID  string `json:"uuid"`
		Email string `json:"email"`
	}
	x, err := q.get(ctx, request{operation: opProfile, path: []string{"profile"}, limit: maxBytes}, &answer)
	if err != nil {
		return profile{}, err
	}
	id, ok := ownership.PlainUUID(answer.UUID)
	if !ok || answer.Email == "" {
		return profile{}, unknown(ownership.CauseCloud, x.RequestID(), "%s request: the answer lacks the UUID or the email", opProfile)
	}
	return profile{id: id, email: answer.Email, requestID: x.RequestID()}, nil
}
