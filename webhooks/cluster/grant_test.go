package cluster_test

import (
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// TestCommandsThatGrantThePermission checks commands that users paste: a shell treats values from an object or a user's name as values
// only.
func TestCommandsThatGrantThePermission(t *testing.T) {
	const role = "kubectl create clusterrole warrantgate:impersonate:tenant@example.com --verb=impersonate --resource=users " +
		"--resource-name=tenant@example.com; kubectl create clusterrolebinding "
	const binding = "warrantgate:impersonate:tenant@example.com:"
	const to = " --clusterrole=warrantgate:impersonate:tenant@example.com "
	const inWords = "verb impersonate on resource users, by the name of this user in lower case"

	for name, tc := range map[string]struct {
		username, email string
		want            string
	}{
		"a user":                         {username: "alice", email: "tenant@example.com", want: role + binding + "alice" + to + "--user=alice"},
		"an email in capitals":           {username: "alice", email: "TENANT@EXAMPLE.COM", want: role + binding + "alice" + to + "--user=alice"},
		"a service account":              {username: "system:serviceaccount:capi:manager", email: "tenant@example.com", want: role + binding + "system:serviceaccount:capi:manager" + to + "--serviceaccount=capi:manager"},
		"a user of an identity provider": {username: "https://idp.example.com/realms/a#alice", email: "tenant@example.com", want: role + "'" + binding + "https:--idp.example.com-realms-a#alice'" + to + "--user='https://idp.example.com/realms/a#alice'"},
		"a name with a percent sign":     {username: "a%2Fb", email: "tenant@example.com", want: role + binding + "a-2Fb" + to + "--user=a%2Fb"},
		"a name with a blank":            {username: "Alice Doe", email: "tenant@example.com", want: role + "'" + binding + "Alice Doe'" + to + "--user='Alice Doe'"},
		"a name with two blanks":         {username: "Alice  Doe", email: "tenant@example.com", want: inWords},
		"a name with a quote":            {username: "o'brien", email: "tenant@example.com", want: role + `'` + binding + `o'\''brien'` + to + `--user='o'\''brien'`},
		"a name that is not ASCII":       {username: "алиса", email: "tenant@example.com", want: role + `'` + binding + `алиса'` + to + `--user='алиса'`},
		"a name with a control":          {username: "alice\x1b[2J", email: "tenant@example.com", want: inWords},
		"no name":                        {username: "", email: "tenant@example.com", want: inWords},
		"an email with a quote": {username: "alice", email: "o'brien@example.com", want: `kubectl create clusterrole 'warrantgate:impersonate:o'\''brien@example.com' ` +
			`--verb=impersonate --resource=users --resource-name='o'\''brien@example.com'; kubectl create clusterrolebinding ` +
			`'warrantgate:impersonate:o'\''brien@example.com:alice' --clusterrole='warrantgate:impersonate:o'\''brien@example.com' --user=alice`},
		"an email that is not ASCII": {username: "alice", email: "Jürgen@example.com", want: `kubectl create clusterrole 'warrantgate:impersonate:jürgen@example.com' ` +
			`--verb=impersonate --resource=users --resource-name='jürgen@example.com'; kubectl create clusterrolebinding ` +
			`'warrantgate:impersonate:jürgen@example.com:alice' --clusterrole='warrantgate:impersonate:jürgen@example.com' --user=alice`},
		"an email with a line break":           {username: "alice", email: "tenant@example.com\nreboot", want: inWords},
		"an email that is shown backwards":     {username: "alice", email: "a\u202eb@example.com", want: inWords},
		"an email with a blank":                {username: "alice", email: "a b@example.com", want: inWords},
		"an email with a slash":                {username: "alice", email: "a/b@example.com", want: inWords},
		"names that are too long for commands": {username: strings.Repeat("a", 200), email: strings.Repeat("b", 100) + "@example.com", want: inWords},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, "cloudsigmaclusters", nil, clusterWith(object{"userEmail": tc.email}))
			r.UserInfo = authenticationv1.UserInfo{Username: tc.username}
			message := newGate(enforced, reviewerThatAllows(), &fakeUsers{}, nil).Review(t.Context(), r).Message
			_, got, found := strings.Cut(message, "or have it granted: ")
			if !found || got != tc.want {
				t.Errorf("grant in %q\n     = %q\n want %q", message, got, tc.want)
			}
			if len(message) > 1024-80 || strings.ContainsAny(message, "\n\x1b") {
				t.Errorf("%d bytes, or not one line: %q", len(message), message)
			}
		})
	}
}

// TestCommandsAreCompleteOrLeftOut: a message contains the commands if it does not exceed its limit with them. A long name of a user is
// truncated, but not in the commands.
func TestCommandsAreCompleteOrLeftOut(t *testing.T) {
	const most, longestName = 1024 - 80 + len(": "), 100 // the admission policy has the same limit
	filled := false
	for length := 1; length < 250; length++ {
		for domain := range 6 {
			username, email := strings.Repeat("u", length), "tenant@"+strings.Repeat("d", domain)+".example.com"
			shown := username
			if length > longestName {
				shown = username[:longestName] + "…"
			}
			begin := "spec.userEmail" + ofCluster + fmt.Sprintf("user %q may not impersonate %q", shown, email)
			role := "warrantgate:impersonate:" + email
			want := begin + remedy + fmt.Sprintf("kubectl create clusterrole %[1]s --verb=impersonate --resource=users --resource-name=%[2]s; "+
				"kubectl create clusterrolebinding %[1]s:%[3]s --clusterrole=%[1]s --user=%[3]s", role, email, username)
			filled = filled || len(want) == most
			if len(want) > most {
				want = begin + byName
			}
			r := request(t, "cloudsigmaclusters", nil, clusterWith(object{"userEmail": email}))
			r.UserInfo = authenticationv1.UserInfo{Username: username}
			if got := newGate(enforced, reviewerThatAllows(), &fakeUsers{}, nil).Review(t.Context(), r).Message; got != want {
				t.Fatalf("message of %d bytes: %s\nwant %d bytes: %s", len(got), got, len(want), want)
			}
		}
	}
	if !filled {
		t.Error("no message has the maximum length")
	}
}
