package oslopolicy

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReleases(t *testing.T) {
	want := []Release{"2022.2", "2023.1", "2023.2", "2024.1", "2024.2", "2025.1", "2025.2", "2026.1", "2026.2"}
	if diff := cmp.Diff(want, Releases()); diff != "" {
		t.Errorf("releases (-want +got):\n%s", diff)
	}
	for _, release := range want {
		if releaseNames[release] == "" {
			t.Errorf("%s has no name", release)
		}
		table := release.table()
		if len(table.list) < 190 || table.operation("identity:create_user") == nil || table.rules["admin_required"] == nil {
			t.Errorf("%s has %d rules", release, len(table.list))
		}
		for name, c := range table.checks {
			walk(c, func(c check, _ bool) {
				switch c := c.(type) {
				case unparsed, malformed, raising:
					t.Errorf("%s: %s is not read: %v", release, name, c)
				case ruleCheck:
					if table.rules[c.name] == nil {
						t.Errorf("%s: %s refers to %s, which does not exist", release, name, c.name)
					}
				}
			})
		}
	}
}

func TestParseRelease(t *testing.T) {
	for text, want := range map[string]Release{
		"": DefaultRelease, "2023.1": "2023.1", "2024.1": "2024.1", "2026.2": "2026.2", "zed": DefaultRelease, "Caracal": "2024.1", "hibiscus": "2026.2",
	} {
		if got, err := ParseRelease(text); err != nil || got != want {
			t.Errorf("ParseRelease(%q) = %s, %v", text, got, err)
		}
	}
	_, err := ParseRelease("2021.1")
	if want := `the rules of Keystone in release "2021.1" are not known; known are those of 2022.2 (zed), 2023.1 (antelope), ` +
		"2023.2 (bobcat), 2024.1 (caracal), 2024.2 (dalmatian), 2025.1 (epoxy), 2025.2 (flamingo), 2026.1 (gazpacho), 2026.2 (hibiscus)"; err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
}

// TestManagersOfReleases: a manager creates users in its domain by Keystone's own rules since 2024.2.
func TestManagersOfReleases(t *testing.T) {
	credentials := Caller{User: "u", UserDomain: "d", Domain: "d", Roles: []string{"manager"}}.Credentials()
	for _, release := range Releases() {
		passed, err := release.Policy().Enforce("identity:create_user", map[string]any{"target.user.domain_id": "d"}, credentials)
		if want := release >= "2024.2"; err != nil || passed != want {
			t.Errorf("%s: %t, %v", release, passed, err)
		}
	}
}

// TestTrustsOfReleases: a user creates trusts of its own by Keystone's own rules in all releases.
func TestTrustsOfReleases(t *testing.T) {
	credentials := Caller{User: "u", UserDomain: "d", Project: "p", Roles: []string{"member"}}.Credentials()
	for _, release := range Releases() {
		for trustor, want := range map[string]bool{"u": true, "other": false} {
			passed, err := release.Policy().Enforce("identity:create_trust", map[string]any{"target.trust.trustor_user_id": trustor}, credentials)
			if err != nil || passed != want {
				t.Errorf("%s, trustor %s: %t, %v", release, trustor, passed, err)
			}
		}
	}
}

// TestDomainsOfReleases: a reader lists the domain of its token by Keystone's own rules since 2023.1, and an override can compare it.
func TestDomainsOfReleases(t *testing.T) {
	for _, release := range Releases() {
		got := strings.Join(found("identity:list_domains: role:admin or role:manager and domain_id:%(target.domain.id)s", LintOptions{Release: release}), "\n")
		if want := release < "2023.1"; strings.Contains(got, CodeUnknownAttribute) != want {
			t.Errorf("%s: %s", release, got)
		}
		got = strings.Join(found("identity:list_domains: role:admin or role:manager", LintOptions{Release: release}), "\n")
		if strings.Contains(got, CodeBroaderThanDefault) {
			t.Errorf("%s: %s", release, got)
		}
	}
}

// TestTreesOfReleases: an override can compare the domain of the project whose assignments are listed since 2024.1. It is null if the project is a
// domain, which Keystone's own rule checks in the last release.
func TestTreesOfReleases(t *testing.T) {
	const tree = "identity:list_role_assignments_for_tree"
	for _, release := range Releases() {
		rule := tree + ": rule:admin_required or (role:reader and domain_id:%(target.domain_id)s and not None:%(target.domain_id)s)"
		var want []string
		if release < "2024.1" {
			want = []string{"error unknown-attribute " + tree}
		}
		if diff := cmp.Diff(want, severe(t, rule, LintOptions{Release: release})); diff != "" {
			t.Errorf("%s: findings (-want +got):\n%s", release, diff)
		}
	}
	want := []string{"warning broader-than-default " + tree}
	if diff := cmp.Diff(want, severe(t, tree+": role:reader and domain_id:%(target.domain_id)s", LintOptions{Release: "2026.2"})); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// TestFormerRulesOfReleases: the oslo.policy of 2024.2 (4.4.0) is the first that ignores deprecated rules by default.
func TestFormerRulesOfReleases(t *testing.T) {
	for _, release := range Releases() {
		former := slices.ContainsFunc(release.table().list, func(r shippedRule) bool { return r.former != "" })
		if want := release < "2024.2"; former != want {
			t.Errorf("%s has former rules: %t", release, former)
		}
	}
}

func TestObsoleteOverrides(t *testing.T) {
	const (
		managers = "is_domain_manager: role:manager\nidentity:create_user: rule:is_domain_manager and token.domain.id:%(target.user.domain_id)s or rule:admin_required\n"
		others   = "identity:create_user: rule:admin_required or role:admin\n"
		obsolete = "1 warning override-obsolete is_domain_manager: Keystone has a role for managers of a domain since 2024.2; an override for managers " +
			"conflicts with it; remove the override, and compare the rest of it with Keystone's own rules"
	)
	for _, release := range Releases() {
		var want []string
		if release >= "2024.2" {
			want = []string{obsolete}
		}
		if diff := cmp.Diff(want, found(managers, LintOptions{Release: release})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", release, diff)
		}
		for _, line := range found(others, LintOptions{Release: release}) {
			if strings.Contains(line, CodeOverrideObsolete) {
				t.Errorf("%s: %s", release, line)
			}
		}
	}
}
