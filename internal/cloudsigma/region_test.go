package cloudsigma_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/cloudhttp/cloudhttptest"
	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/ownership"
)

func TestInvalidRegionSendsNoRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		regions  []string
		region   string
		wantText string
	}{
		"not in the configuration": {
			regions: []string{"zrh", "next"}, region: "fra", wantText: `region "fra" is none of those configured (next, zrh)`,
		},
		"empty":                 {region: "", wantText: `"" is not a valid region: it must consist of 1 to 63 lower-case letters, digits and dashes, such as "zrh"`},
		"empty, with a list":    {regions: []string{"zrh"}, region: ""},
		"another host":          {region: "evil.example/"},
		"several DNS labels":    {region: "a.b"},
		"a user":                {region: "user@evil"},
		"a port":                {region: "zrh:1"},
		"a path to a parent":    {region: ".."},
		"escaped":               {region: "zrh%2f"},
		"upper case":            {region: "ZRH"},
		"a trailing line break": {region: "zrh\n"},
		"the placeholder":       {region: "{region}"},
		"too long":              {region: strings.Repeat("a", 64)},
		"much too long":         {region: strings.Repeat("a", 1<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t, cloudhttptest.Serve(t, nil), &fakeTokens{}, func(o *cloudsigma.Options) { o.Regions = tc.regions })
			account := ownership.Account{Cloud: "cloudsigma", User: userEmail, Region: tc.region}
			_, askErr := cloud.Ask(t.Context(), ownership.Claim{Account: account, ID: serverID})
			_, requests, listErr := cloud.Instances(t.Context(), account)
			api, apiErr := cloud.API(t.Context(), account)
			for _, err := range []error{askErr, listErr, apiErr} {
				var got *ownership.RegionError
				if !errors.As(err, &got) || got.Region != tc.region {
					t.Fatalf("error = %v, want a RegionError about %.40q", err, tc.region)
				}
				if tc.wantText != "" {
					if diff := cmp.Diff(tc.wantText, err.Error()); diff != "" {
						t.Errorf("error (-want +got):\n%s", diff)
					}
				}
				if len(err.Error()) > 400 {
					t.Errorf("the error has %d bytes, want 400 at most", len(err.Error()))
				}
			}
			if requests != 0 || api != "" {
				t.Errorf("Instances() requests = %d, API() = %.40q, want neither", requests, api)
			}
		})
	}
}
