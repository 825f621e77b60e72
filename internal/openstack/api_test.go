package openstack_test

import (
	"errors"
	"testing"

	"warrantgate.dev/internal/ownership"
)

func TestAPI(t *testing.T) {
	api := newAPI(t, answers{})
	cloud := api.cloud(api.secret())
	if got, err := cloud.API(t.Context(), account()); err != nil || got != api.server.URL+"/compute/v2.1/" {
		t.Errorf("API() = %q, %v, want the Nova of the catalog", got, err)
	}
	api.expect(authenticate)
	var identity *ownership.IdentityError
	if got, err := cloud.API(t.Context(), ownership.Account{Cloud: "openstack"}); got != "" || !errors.As(err, &identity) {
		t.Errorf("API() = %q, %v, want an IdentityError", got, err)
	}
}
