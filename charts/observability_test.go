package charts_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/charts/charttest"
)

// TestTheAlertsAreTheReadmes holds that what fires is what the README says what to do about.
func TestTheAlertsAreTheReadmes(t *testing.T) {
	_, alerts, found := strings.Cut(readFile(t, "../README.md"), "```yaml\ngroups:")
	alerts, _, closed := strings.Cut(alerts, "```")
	if !found || !closed {
		t.Fatal("README.md shows no alerts")
	}
	if diff := cmp.Diff("groups:"+alerts, readFile(t, "warrantgate/files/alerts.yaml")); diff != "" {
		t.Errorf("alerts (-README.md +chart):\n%s", diff)
	}
	rule, err := charttest.Find(template(t, certificate+keystoneOnly+"prometheusRule: {enabled: true, labels: {release: prometheus}}").Objects, "PrometheusRule")
	if err != nil {
		t.Fatal(err)
	}
	var want any
	if err := yaml.Unmarshal([]byte("groups:"+alerts), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, rule.Object["spec"]); diff != "" {
		t.Errorf("rendered alerts (-want +got):\n%s", diff)
	}
	if rule.GetLabels()["release"] != "prometheus" {
		t.Errorf("labels = %v", rule.GetLabels())
	}
}

// TestTheDashboardShowsMetricsThatThereAre compares it with the README's table.
func TestTheDashboardShowsMetricsThatThereAre(t *testing.T) {
	dashboard := readFile(t, "warrantgate/files/dashboard.json")
	if !json.Valid([]byte(dashboard)) {
		t.Fatal("the dashboard is no JSON")
	}
	readme := readFile(t, "../README.md")
	names := regexp.MustCompile(`warrantgate_[a-z_]+`).FindAllString(dashboard, -1)
	if len(names) < 8 {
		t.Fatalf("only %q are shown", names)
	}
	for _, name := range names {
		if !strings.Contains(readme, "| `"+strings.TrimSuffix(name, "_bucket")+"` |") {
			t.Errorf("README.md knows no metric %s", name)
		}
	}
}
