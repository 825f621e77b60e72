// Package alerts_test checks that Prometheus can load the alerts of the chart.
package alerts_test

import (
	"os"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

func TestPrometheusLoadsTheAlerts(t *testing.T) {
	content, err := os.ReadFile("../../charts/warrantgate/files/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	parsed := 0
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(rule.Expr); err != nil {
				t.Errorf("%s: %v", rule.Alert, err)
			}
			parsed++
		}
	}
	if parsed == 0 {
		t.Error("there are no alerts")
	}
}
