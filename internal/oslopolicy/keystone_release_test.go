package oslopolicy

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReleases(t *testing.T) {
	want := []Release{"2022.2", "2023.1", "2023.2", "2024.1", "2024.2", "2025.1", "2025.2", "2026.1", "2026.2"}
	if diff := cmp.Diff(want, Releases()); diff != "" {
		t.Errorf("releases (-want +got):\n%s", diff)
	}
	decoder := json.NewDecoder(bytes.NewReader(operationsFile))
	decoder.DisallowUnknownFields()
	var operations []operation
	if err := decoder.Decode(&operations); err != nil {
		t.Errorf("operations.json: %v", err)
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

// TestRulesOfReleases: by Keystone's own rules, a manager creates users in its domain since 2024.2, and users create trusts of their own. The
// oslo.policy of 2024.2 (4.4.0) is the first that ignores deprecated rules by default.
func TestRulesOfReleases(t *testing.T) {
	manager := Caller{User: "u", UserDomain: "d", Domain: "d", Roles: []string{"manager"}}.Credentials()
	member := Caller{User: "u", UserDomain: "d", Project: "p", Roles: []string{"member"}}.Credentials()
	for _, release := range Releases() {
		isNew := release >= "2024.2"
		for _, tc := range []struct {
			operation, attribute, value string
			credentials                 map[string]any
			want                        bool
		}{
			{"identity:create_user", "target.user.domain_id", "d", manager, isNew},
			{"identity:create_trust", "target.trust.trustor_user_id", "u", member, true},
			{"identity:create_trust", "target.trust.trustor_user_id", "other", member, false},
		} {
			passed, err := release.Policy().Enforce(tc.operation, map[string]any{tc.attribute: tc.value}, tc.credentials)
			if err != nil || passed != tc.want {
				t.Errorf("%s, %s with %s: %t, %v", release, tc.operation, tc.value, passed, err)
			}
		}
		if former := slices.ContainsFunc(release.table().list, func(r shippedRule) bool { return r.former != "" }); former == isNew {
			t.Errorf("%s has former rules: %t", release, former)
		}
	}
}

// TestFindingsOfReleases: an override can compare the domain of the token in the list of domains since 2023.1, and since 2024.1 the domain of the
// project whose assignments are listed. It is null if the project is a domain, which Keystone's own rule checks in the last release. An override
// for managers is obsolete since 2024.2.
func TestFindingsOfReleases(t *testing.T) {
	const (
		domains  = "identity:list_domains: role:admin or role:manager"
		tree     = "identity:list_role_assignments_for_tree"
		managers = "is_domain_manager: role:manager\nidentity:create_user: rule:is_domain_manager and token.domain.id:%(target.user.domain_id)s or rule:admin_required\n"
		obsolete = "1 warning override-obsolete is_domain_manager: Keystone has a role for managers of a domain since 2024.2; an override for managers " +
			"conflicts with it; remove the override, and compare the rest of it with Keystone's own rules"
	)
	for _, tc := range []struct {
		file         string
		since, until Release
		want         string
	}{
		{domains, "2024.2", "3000.1", "warning override-obsolete identity:list_domains"},
		{domains, "", "", "error broader-than-default identity:list_domains"},
		{domains + " and domain_id:%(target.domain.id)s", "", "2023.1", "error unknown-attribute identity:list_domains"},
		{tree + ": rule:admin_required or (role:reader and domain_id:%(target.domain_id)s and not None:%(target.domain_id)s)", "", "2024.1", "error unknown-attribute " + tree},
		{managers, "2024.2", "3000.1", "warning override-obsolete is_domain_manager"},
		{"identity:create_user: rule:admin_required or role:admin\n", "", "", "warning override-obsolete identity:create_user"},
	} {
		for _, release := range Releases() {
			got := linted{file: tc.file, options: LintOptions{Release: release}}.lines(t, severe)
			if want := tc.since <= release && release < tc.until; slices.Contains(got, tc.want) != want {
				t.Errorf("%s, %s: findings %q, want %s: %t", release, tc.file, got, tc.want, want)
			}
		}
	}
	last := LintOptions{Release: "2026.2"}
	null := linted{file: tree + ": role:reader and domain_id:%(target.domain_id)s", options: last, want: []string{"warning broader-than-default " + tree}}
	expect(t, map[string]linted{"null": null}, severe)
	expect(t, map[string]linted{"managers": {file: managers, options: last, want: []string{obsolete}}}, inFull)
}
