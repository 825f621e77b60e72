package cloudsigma_test

import (
	"errors"
	"testing"

	"warrantgate.dev/internal/ownership"
)

func TestAPI(t *testing.T) {
	api := newAPI(t, nil)
	cloud := api.cloud(&fakeTokens{})
	if got, err := cloud.API(t.Context(), account()); err != nil || got != api.server.URL+"/api/"+account().Region+"/" {
		t.Errorf("API() = %q, %v, want the URL of the region", got, err)
	}
	var region *ownership.RegionError
	if got, err := cloud.API(t.Context(), ownership.Account{User: userEmail, Region: "@evil"}); got != "" || !errors.As(err, &region) {
		t.Errorf("API() = %q, %v, want a RegionError", got, err)
	}
	api.expect() // no request
}
