package gates

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/internal/config/v1beta1"
)

// TestEveryWebhookIsInTheTableOfOutages compares the table "When warrantgate is down" of SECURITY.md with the webhooks that install registers. Tests of
// the chart check that it has the same.
func TestEveryWebhookIsInTheTableOfOutages(t *testing.T) {
	const file = "../../../../SECURITY.md"
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(content), "\n## When warrantgate is down\n")
	if !found {
		t.Fatalf("%s has no section about outages", file)
	}
	got := map[string]admissionregistrationv1.FailurePolicyType{}
	name := regexp.MustCompile("`([^`]+)`")
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\| (Fail|Ignore) \\| .+ \\|$").FindAllStringSubmatch(section, -1) {
		for _, webhook := range name.FindAllStringSubmatch(row[1], -1) {
			if _, again := got[webhook[1]]; again {
				t.Errorf("there are two rows for %s", webhook[1])
			}
			got[webhook[1]] = admissionregistrationv1.FailurePolicyType(row[2])
		}
	}

	config := v1beta1.Default()
	// The webhooks of configured kinds are named after their resource. The table has one row for all resources of a gate.
	config.Machine.Kinds = []v1beta1.MachineKind{{Resource: "RESOURCE"}}
	config.Cluster.Impersonation.Kinds = []v1beta1.UserKind{{Resource: "RESOURCE", EmailPath: "spec.email"}}
	config.Cluster.Delegation.Kinds = []v1beta1.CredentialKind{{Resource: "RESOURCE"}}
	config.OpenStack.AuthURLs = []string{"https://keystone.example.com/v3"}
	config.ControllerManager.Mode, config.KeystonePolicy.Mode = v1beta1.Enforce, v1beta1.Enforce
	config.ControllerManager.Selector, config.KeystonePolicy.Selector = &metav1.LabelSelector{}, &metav1.LabelSelector{}
	config.ControllerManager.Objects = make([]v1beta1.NamedObject, 1)
	config.KeystonePolicy.Objects = make([]v1beta1.NamedObject, 1)
	want := map[string]admissionregistrationv1.FailurePolicyType{}
	resource := regexp.MustCompile("(cloudsigma|openstack|kdc)(machines|clusters)|secrets")
	for webhook, policy := range registeredHooks(t, config) {
		want[resource.ReplaceAllString(strings.TrimSuffix(webhook, ".warrantgate.dev"), "RESOURCE")] = policy
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("webhooks and their failure policies (-registered +%s):\n%s", file, diff)
	}
}
