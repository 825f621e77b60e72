package ownership_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"warrantgate.dev/internal/ownership"
)

func TestExplain(t *testing.T) {
	for cause, want := range map[ownership.Cause]string{
		ownership.CauseTimeout:          "the cloud or its identity provider did not answer in time; try again",
		ownership.CauseRateLimited:      "the cloud or its identity provider limits the rate of requests; try again later",
		ownership.CauseCloud:            "the cloud is unavailable or its response is invalid; try again",
		ownership.CauseIdentityProvider: "the identity provider is unavailable or its response is invalid; try again",
		ownership.CauseNotImpersonable: "the identity provider does not permit warrantgate to impersonate this user; allow it there, " +
			"or correct the user of the cluster",
		ownership.CauseWrongUser: "the cloud treats the token of this user as that of another user; the operator of warrantgate has to correct the URL " +
			"of the cloud",
		ownership.CauseCredentials: "the credentials of warrantgate are rejected; its operator has to renew them",
		ownership.CauseBusy:        "too many machines of others are being checked; try again",
		ownership.CauseTenantBusy: "too many machines of this namespace (on kcp: of this workspace) are being checked already; " +
			"send fewer at the same time, and try again in a few seconds",
		"an unknown cause": "the cloud is unavailable or its response is invalid; try again",
	} {
		if diff := cmp.Diff(want, cause.Explain()); diff != "" {
			t.Errorf("%q.Explain() (-want +got):\n%s", cause, diff)
		}
		if diff := cmp.Diff(want, (&ownership.UnknownError{Cause: cause, Err: errors.New("canary")}).Explain()); diff != "" {
			t.Errorf("Explain() of an error with cause %q (-want +got):\n%s", cause, diff)
		}
	}
	explained := &ownership.UnknownError{Cause: ownership.CauseWrongUser, Explanation: "the API at https://a treats it as another user"}
	if diff := cmp.Diff(explained.Explanation, explained.Explain()); diff != "" {
		t.Errorf("Explain() of an error with an explanation (-want +got):\n%s", diff)
	}
}

func TestErrors(t *testing.T) {
	cause := errors.New("connection refused")
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"no verdict":                      {&ownership.UnknownError{Cause: ownership.CauseCloud, Err: cause}, "CloudUnavailable: connection refused"},
		"an invalid region":               {&ownership.RegionError{Region: "Z/../x"}, `"Z/../x" is not a valid region: it must consist of 1 to 63 lower-case letters, digits and dashes, such as "zrh"`},
		"a region that is not allowed":    {&ownership.RegionError{Region: "zrh", Allowed: []string{"next", "wdc"}}, `region "zrh" is none of those configured (next, wdc)`},
		"a cluster without a region":      {&ownership.RegionError{}, `"" is not a valid region: it must consist of 1 to 63 lower-case letters, digits and dashes, such as "zrh"`},
		"no region, and some are allowed": {&ownership.RegionError{Allowed: []string{"next"}}, `region "" is none of those configured (next)`},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.err.Error()); diff != "" {
				t.Errorf("Error() (-want +got):\n%s", diff)
			}
			if strings.HasSuffix(tc.err.Error(), ".") {
				t.Error("the text ends with a full stop")
			}
		})
	}
	if !errors.Is(&ownership.UnknownError{Err: cause}, cause) {
		t.Error("an UnknownError does not wrap its cause")
	}
}

func TestAccountInMessages(t *testing.T) {
	type words struct{ Owner, Place string }
	for name, tc := range map[string]struct {
		account ownership.Account
		want    words
	}{
		"a user in a region": {
			account: ownership.Account{Cloud: "cloudsigma", User: "tenant@example.com", Region: "zrh"},
			want:    words{`user "tenant@example.com"`, `region "zrh"`},
		},
		"a user that a Secret of another namespace names": {
			account: ownership.Account{
				Cloud: "cloudsigma", User: "tenant@example.com", UserSecret: types.NamespacedName{Namespace: "team-b", Name: "s"}, Region: "zrh",
			},
			want: words{`the user that Secret "s" of namespace "team-b" names`, `region "zrh"`},
		},
		"a shared account, with a Secret that names no user": {
			account: ownership.Account{Cloud: "cloudsigma", UserSecret: types.NamespacedName{Namespace: "team-b", Name: "s"}, Region: "next"},
			want:    words{"the shared account (legacy credentials)", `region "next"`},
		},
		"credentials of the cluster": {
			account: ownership.Account{Cloud: "openstack", Identity: ownership.Identity{Namespace: "team-a", Secret: "s", Entry: "e"}},
			want:    words{`the project of cloud "e" of Secret "s"`, "the region of its credentials"},
		},
		"credentials that all clusters share": {
			account: ownership.Account{Cloud: "cloudsigma", Region: "next"},
			want:    words{"the shared account (legacy credentials)", `region "next"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := words{tc.account.Owner(), tc.account.Place()}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("in words (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCausesOfAnOutage(t *testing.T) {
	for cause, want := range map[ownership.Cause]bool{
		ownership.CauseTimeout: true, ownership.CauseRateLimited: true, ownership.CauseCloud: true, ownership.CauseIdentityProvider: true,
		ownership.CauseCredentials: true, ownership.CauseNotImpersonable: false, ownership.CauseWrongUser: false, ownership.CauseBusy: false, ownership.CauseTenantBusy: false,
		ownership.CauseRegion: false, ownership.CauseIdentity: false, "": false,
	} {
		if got := cause.IsAway(); got != want {
			t.Errorf("%q: IsAway() = %t, want %t", cause, got, want)
		}
	}
}
