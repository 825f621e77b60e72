package cloudsigma_test

import (
	"regexp"
	"strings"
	"testing"

	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/ownership"
)

func TestParseRejection(t *testing.T) {
	denied := func(message string) string {
		return `[{"error_type":"permission","error_message":"` + message + `","error_point":null}]`
	}
	for name, tc := range map[string]struct{ body, wantKind, wantUserID string }{
		"a list, as documented": {
			body: denied("User " + userID + " does not have all of the permissions [LIST]"), wantKind: "permission", wantUserID: userID,
		},
		"a single object": {
			body:     `{"error_type":"permission","error_message":"User ` + strings.ToUpper(userID) + ` does not have all of the permissions [LIST]"}`,
			wantKind: "permission", wantUserID: userID,
		},
		"several errors": {
			body: `[{"error_message":"first"},{"error_type":"notexist"},{"error_type":"permission"}]`, wantKind: "notexist",
		},
		"a message with a user in another place": {body: denied("Owner is User " + userID + " does not have "), wantKind: "permission"},
		"a message without a UUID":               {body: denied("User " + userID[:35] + "x does not have all"), wantKind: "permission"},
		"36 characters that are not a UUID":      {body: denied("User " + strings.Replace(userID, "-", "0", 1) + " does not have all"), wantKind: "permission"},
		"a message that is not a string":         {body: `[{"error_type":"validation","error_message":{"name":["too long"]}}]`, wantKind: "validation"},
		"a type that is not a string":            {body: `[{"error_type":7}]`},
		"a type that is a sentence":              {body: `[{"error_type":"the token abc is wrong"}]`},
		"a type that is too long":                {body: `[{"error_type":"` + strings.Repeat("a", 41) + `"}]`},
		"an empty list":                          {body: `[]`},
		"null":                                   {body: `null`},
		"a list of something else":               {body: `["permission"]`},
		"an incomplete list":                     {body: `[{"error_type":"permission"}`},
		"an HTML page":                           {body: `<html>permission</html>`},
		"empty":                                  {body: ``},
	} {
		t.Run(name, func(t *testing.T) {
			kind, userID := cloudsigma.ParseRejection([]byte(tc.body))
			if kind != tc.wantKind || userID != tc.wantUserID {
				t.Errorf("ParseRejection() = %q, %q, want %q, %q", kind, userID, tc.wantKind, tc.wantUserID)
			}
		})
	}
}

// FuzzRejection checks that parseRejection returns only a word and a UUID of a body.
func FuzzRejection(f *testing.F) {
	for _, seed := range []string{
		`[{"error_type":"permission","error_message":"User 2f6b80d3-1c4e-4d7a-b5f9-3a8e6c0d7b12 does not have all of the permissions [LIST]","error_point":null}]`,
		`{"error_type":"permission","error_message":"User 2f6b80d3-1c4e-4d7a-b5f9-3a8e6c0d7b12 does not have all"}`,
		`[{"error_type":"notexist","error_message":"gone"},{"error_type":"permission"}]`,
		`[{"error_type":null,"error_message":[]}]`, `{}`, `[]`, `null`, ``, `[[[[`, "\xff", `{"ERROR_TYPE":"a b"}`,
	} {
		f.Add([]byte(seed))
	}
	word := regexp.MustCompile(`^[a-z_]{0,40}$`)
	f.Fuzz(func(t *testing.T, body []byte) {
		kind, userID := cloudsigma.ParseRejection(body)
		if !word.MatchString(kind) {
			t.Errorf("kind = %q, want a word", kind)
		}
		if userID == "" {
			return
		}
		if id, err := ownership.ParseInstanceID(userID); err != nil || id != userID || kind == "" {
			t.Errorf("user ID = %q with kind %q, want a UUID in lower case of an error with a type", userID, kind)
		}
	})
}
