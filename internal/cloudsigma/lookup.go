package cloudsigma

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdk "github.com/cloudsigma/cloudsigma-sdk-go/cloudsigma"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

// regionPlaceholder is replaced with the region in the URL templates.
const regionPlaceholder = "{region}"

// lookup is a check for one user in one region. It may need several requests.
type lookup struct {
	cloud *Cloud
	// key identifies the profile of the user, or of the legacy account.
	key profileKey
	// user is the claimed user, or "" for the user of the legacy account.
	user string
	api  *url.URL
	// legacy contains the credentials of the legacy account, or nil if tokens are used.
	legacy sdk.CredentialsProvider
	// requests is the number of sent requests.
	requests int
}

// newLookup starts a lookup. It returns an *ownership.RegionError or an *ownership.UnknownError.
func (c *Cloud) newLookup(account ownership.Account) (*lookup, error) {
	// As the provider does: without impersonation, the legacy account is used for every user.
	shared := c.options.Legacy != nil && (account.User == "" || c.options.Tokens == nil)
	template := c.options.API
	if shared {
		template = c.options.LegacyAPI
	}
	if err := ownership.CheckRegion(account.Region, c.options.Regions); err != nil {
		return nil, err
	}
	api, err := url.Parse(strings.ReplaceAll(template, regionPlaceholder, account.Region))
	switch {
	case err != nil: // impossible: the template is valid for every region
		return nil, cloudhttp.Unknown(ownership.CauseCloud, "", "the region is not valid in the URL of the API")
	case shared:
		return c.newSharedLookup(api, account.Region)
	case account.User == "":
		return nil, cloudhttp.Unknown(ownership.CauseNotImpersonable, "", "the claim names no user to impersonate")
	}
	return &lookup{cloud: c, api: api.JoinPath("/"), user: account.User, key: profileKey{user: account.User, region: account.Region}}, nil
}

// newSharedLookup starts a lookup with the legacy account.
func (c *Cloud) newSharedLookup(api *url.URL, region string) (*lookup, error) {
	credentials, err := c.options.Legacy()
	if err != nil {
		return nil, &ownership.UnknownError{
			Cause: ownership.CauseCredentials, Err: fmt.Errorf("credentials of the legacy account: %w", err),
		}
	}
	return &lookup{
		cloud: c, api: api.JoinPath("/"), key: profileKey{user: credentials.Username, region: region, legacy: true},
		legacy: sdk.NewUsernamePasswordCredentialsProvider(credentials.Username, credentials.Password),
	}, nil
}

// request is a GET request.
type request struct {
	operation cloudhttp.Operation
	path      []string
	query     url.Values
	// limit is the maximum size of the response, in bytes.
	limit int64
}

// url returns the URL of the request. Paths of the API end with a slash.
func (r request) url(api *url.URL) string {
	u := api.JoinPath(append(r.path, "/")...)
	u.RawQuery = r.query.Encode()
	return u.String()
}

// get sends a request and decodes the response into the value that into points to. If the cloud rejects the token, get drops it and
// repeats the request once with another token. Every error is an *ownership.UnknownError. The exchange contains details; it is nil
// if no request was sent.
func (l *lookup) get(ctx context.Context, r request, into any) (*exchange, error) {
	x, sentAt, err := l.send(ctx, r, into)
	if x == nil || x.Status != http.StatusUnauthorized || l.legacy != nil {
		return x, err
	}
	l.cloud.options.Tokens.Drop(l.key.user, l.key.region, sentAt)
	x, _, err = l.send(ctx, r, into)
	return x, err
}

// send sends a request once, at sentAt.
func (l *lookup) send(ctx context.Context, r request, into any) (x *exchange, sentAt time.Time, err error) {
	credentials := l.legacy
	if credentials == nil {
		token, err := l.cloud.options.Tokens.Token(ctx, l.key.user, l.key.region)
		if err != nil {
			return nil, time.Time{}, err
		}
		credentials = sdk.NewTokenCredentialsProvider(token)
	}
	x = newExchange(l.cloud.transport, r)
	client := sdk.NewClient(credentials, sdk.WithHTTPClient(cloudhttp.NewClient(x)), sdk.WithUserAgent(l.cloud.options.UserAgent))
	// The SDK resolves the URL relative to the default URL of a region. An absolute URL remains unchanged.
	httpRequest, err := client.NewRequest(http.MethodGet, r.url(l.api), nil)
	if err != nil { // the SDK has no token, user name or password
		return nil, time.Time{}, &ownership.UnknownError{Cause: ownership.CauseCredentials, Err: err}
	}
	l.requests++
	sentAt = time.Now()
	_, err = client.Do(ctx, httpRequest, into)
	requests.Observe(r.operation, x.Status, err == nil, time.Since(sentAt))
	if err != nil {
		err = x.unknown(err)
	}
	return x, sentAt, err
}

// sameEmail compares emails case-insensitively. Two letters outside of ASCII fold to ASCII letters (the Kelvin sign and the long
// s), and an identity provider may treat them as equal. The comparison of the lengths in bytes rejects them.
func sameEmail(a, b string) bool {
	return len(a) == len(b) && strings.EqualFold(a, b)
}
