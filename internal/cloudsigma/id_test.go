package cloudsigma_test

import (
	"strings"
	"testing"

	"warrantgate.dev/internal/cloudsigma"
)

// TestParseProviderID tests what precedes the UUID. Package ownership tests the rest.
func TestParseProviderID(t *testing.T) {
	const words = `is not a provider ID of CloudSigma: it has to be "cloudsigma://" and the UUID of a server, such as "cloudsigma://`
	for in, want := range map[string]string{ // "" for an error
		"cloudsigma://" + otherID:                  otherID,
		"cloudsigma:///" + otherID:                 otherID,
		" cloudsigma://" + otherID + "/\r\n":       otherID,
		strings.ToUpper("cloudsigma://" + otherID): otherID,
		otherID:                                "",
		"cloudsigma://":                        "",
		"":                                     "",
		"openstack:///" + otherID:              "",
		"cloudsixma://" + otherID:              "",
		"cloudsigma:/" + otherID:               "",
		"cloudsigma:////" + otherID:            "",
		"cloudsigma://zrh/" + otherID:          "",
		"cloudsigma:// " + otherID:             "",
		"cloudsigma://urn:uuid:" + otherID:     "",
		"cloudsigma://cloudsigma://" + otherID: "",
		"cloudsigma://00000000-0000-0000-0000-000000000000":    "",
		"cloudsigma://{" + otherID + "}":                       "",
		"cloudsigma://" + strings.ReplaceAll(otherID, "-", ""): "",
		"cloudsigma://" + otherID + "?do=stop":                 "",
		"cloudſigma://" + otherID:                              "", // a letter that folds to an ASCII letter
	} {
		got, err := cloudsigma.ProviderIDs.Parse(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("Parse(%q) = %q, %v, want %q", in, got, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), words) {
			t.Errorf("Parse(%q) error = %q, want it to contain the format of a provider ID", in, err)
		}
	}
}
