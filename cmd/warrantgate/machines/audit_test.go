package machines

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"warrantgate.dev/internal/audit"
)

// TestTheTableIsForATerminal: instances and messages contain texts of tenants, which must not control the terminal or add rows.
func TestTheTableIsForATerminal(t *testing.T) {
	var out bytes.Buffer
	if err := printAudited(&out, "table", []audit.Finding{{
		Reason:   "ForeignMachine",
		Object:   corev1.ObjectReference{Kind: "OpenStackMachine", Namespace: "team-a", Name: "prod-0"},
		Instance: "\x1b[2J",
		Message:  "its server is of \u009b31mbob\nteam-b  OpenStackMachine/prod-1",
	}}); err != nil {
		t.Fatal(err)
	}
	want := "NAMESPACE   OBJECT                    REASON           INSTANCE   MESSAGE\n" +
		`team-a      OpenStackMachine/prod-0   ForeignMachine   \x1b[2J    its server is of \u009b31mbob\nteam-b  OpenStackMachine/prod-1` + "\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
