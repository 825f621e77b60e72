package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// metric is a metric as the README describes it.
type metric struct {
	Type   string
	Labels []string
	Alerts []string
}

// code is the text that the README formats as code.
var code = regexp.MustCompile("`([^`]*)`")

// TestReadmeListsEveryMetric checks that the README's table lists exactly the metrics of the registry, and for each metric the alerts that
// use it.
func TestReadmeListsEveryMetric(t *testing.T) {
	readme := readFile(t, "README.md")
	got := map[string]metric{}
	for line := range strings.Lines(readme) {
		cells := strings.Split(line, "|")
		if !strings.HasPrefix(line, "| `warrantgate_") || len(cells) != 7 {
			continue
		}
		cells = cells[1:]
		described := metric{Type: strings.TrimSpace(cells[1])}
		labels := regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(cells[2], "") // their values
		for _, label := range code.FindAllStringSubmatch(labels, -1) {
			described.Labels = append(described.Labels, label[1])
		}
		for _, alert := range code.FindAllStringSubmatch(cells[4], -1) {
			described.Alerts = append(described.Alerts, alert[1])
		}
		slices.Sort(described.Labels)
		got[code.FindStringSubmatch(cells[0])[1]] = described
	}
	types := metricTypes(t)
	want := map[string]metric{}
	for name, labels := range registered(t) {
		if strings.HasPrefix(name, "warrantgate_") {
			want[name] = metric{Type: types[name], Labels: labels, Alerts: alertsAbout(t, name)}
			continue
		}
		family, _, _ := strings.Cut(name, "_")
		if !regexp.MustCompile("`" + family + "_([a-z]+_)*`").MatchString(readme) {
			t.Errorf("README.md does not name the component of %s", name)
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("metrics (-registry +README.md):\n%s", diff)
	}
}

// registered returns the labels of all metrics of the process, by name.
func registered(t *testing.T) map[string][]string {
	t.Helper()
	registry, ok := metrics.Registry.(prometheus.Collector)
	if !ok {
		t.Fatalf("%T does not describe its metrics", metrics.Registry)
	}
	descriptions := make(chan *prometheus.Desc, 1000)
	registry.Describe(descriptions)
	close(descriptions)
	// A prometheus.Desc shows its name and labels only as text.
	pattern := regexp.MustCompile(`fqName: "(\w+)".* constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)
	found := map[string][]string{}
	for description := range descriptions {
		parts := pattern.FindStringSubmatch(description.String())
		if parts == nil {
			t.Fatalf("no name and labels in %s", description)
		}
		labels := strings.FieldsFunc(parts[3], func(r rune) bool { return r == ',' })
		for _, label := range regexp.MustCompile(`(\w+)=`).FindAllStringSubmatch(parts[2], -1) {
			labels = append(labels, label[1])
		}
		slices.Sort(labels)
		found[parts[1]] = labels
	}
	return found
}

// metricTypes returns the types of the metrics in the sources. The registry reports only the types of metrics that already have a value.
func metricTypes(t *testing.T) map[string]string {
	t.Helper()
	types := map[string]string{}
	constructor := regexp.MustCompile(`^New(Counter|Gauge|Histogram|Summary)(Vec|Func)?$`)
	for _, dir := range []string{".", "../../internal", "../../initializers", "../../webhooks"} {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				if call, ok := node.(*ast.CallExpr); ok && len(call.Args) > 0 {
					if selector, ok := call.Fun.(*ast.SelectorExpr); ok && constructor.MatchString(selector.Sel.Name) {
						types[nameIn(call.Args[0])] = strings.ToLower(constructor.FindStringSubmatch(selector.Sel.Name)[1])
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return types
}

// nameIn returns the field Name of the options of a metric.
func nameIn(options ast.Expr) string {
	literal, ok := options.(*ast.CompositeLit)
	if !ok {
		return ""
	}
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, isKey := pair.Key.(*ast.Ident)
		value, isValue := pair.Value.(*ast.BasicLit)
		if isKey && isValue && key.Name == "Name" {
			name, _ := strconv.Unquote(value.Value)
			return name
		}
	}
	return ""
}

const (
	alertsFile    = "../../charts/warrantgate/files/alerts.yaml"
	dashboardFile = "../../charts/warrantgate/files/dashboard.json"
)

// metricName is the name of a metric, without the suffix of a histogram's series, in an expression.
var metricName = regexp.MustCompile(`\b((?:warrantgate|apiserver)_[a-z_]+?)(?:_bucket)?\b`)

// metricsIn returns the names of the metrics in a text with expressions.
func metricsIn(text string) map[string]bool {
	names := map[string]bool{}
	for _, found := range metricName.FindAllStringSubmatch(text, -1) {
		names[found[1]] = true
	}
	return names
}

// alertsAbout returns the alerts whose expression names a metric.
func alertsAbout(t *testing.T, name string) []string {
	t.Helper()
	var found []string
	for _, rule := range strings.Split(readFile(t, alertsFile), "- alert: ")[1:] {
		alert, rest, _ := strings.Cut(rule, "\n")
		if metricsIn(rest)[name] {
			found = append(found, alert)
		}
	}
	return found
}

// TestTheDashboardShowsEveryMetric checks that the dashboard shows all metrics of the registry and all that alerts are about, and that no
// alert uses a metric that does not exist.
func TestTheDashboardShowsEveryMetric(t *testing.T) {
	want := metricsIn(readFile(t, alertsFile))
	known := registered(t)
	for name := range want {
		if _, exists := known[name]; !exists && strings.HasPrefix(name, "warrantgate_") {
			t.Errorf("there is no metric %s", name)
		}
	}
	for name := range known {
		if strings.HasPrefix(name, "warrantgate_") {
			want[name] = true
		}
	}
	dashboard := readFile(t, dashboardFile)
	if !json.Valid([]byte(dashboard)) {
		t.Error("the dashboard is not valid JSON")
	}
	if diff := cmp.Diff(want, metricsIn(dashboard)); diff != "" {
		t.Errorf("metrics (-registry and alerts +dashboard):\n%s", diff)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
