package cloudsigma

import (
	"context"

	"warrantgate.dev/internal/ownership"
)

// API returns the URL of the API that requests about an account are sent to. It sends none. The error is an *ownership.RegionError or an
// *ownership.UnknownError.
func (c *Cloud) API(_ context.Context, account ownership.Account) (string, error) {
	l, err := c.newLookup(account)
	if err != nil {
		return "", err
	}
	return l.api.String(), nil
}
