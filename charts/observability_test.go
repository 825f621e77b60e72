package charts_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/charts/charttest"
)

// alerting is a file of rules for Prometheus.
type alerting struct {
	Groups []struct {
		Rules []struct {
			Alert       string            `json:"alert"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"rules"`
	} `json:"groups"`
}

// TestTheRuleHasTheAlerts checks that the PrometheusRule has the alerts of the file that the README describes.
func TestTheRuleHasTheAlerts(t *testing.T) {
	rule, err := charttest.Find(template(t, certificate+keystoneOnly+"prometheusRule: {enabled: true, labels: {release: prometheus}}").Objects, "PrometheusRule")
	if err != nil {
		t.Fatal(err)
	}
	var want any
	if err := yaml.Unmarshal([]byte(readFile(t, "warrantgate/files/alerts.yaml")), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, rule.Object["spec"]); diff != "" {
		t.Errorf("rendered alerts (-want +got):\n%s", diff)
	}
	if rule.GetLabels()["release"] != "prometheus" {
		t.Errorf("labels = %v", rule.GetLabels())
	}
}

// TestEveryAlertHasARunbook checks that RUNBOOKS.md has a section for each alert, and for no other, with its meaning for users, the checks
// and the fix, and that the alert has a severity and the URL of its section.
func TestEveryAlertHasARunbook(t *testing.T) {
	var file alerting
	if err := yaml.Unmarshal([]byte(readFile(t, "warrantgate/files/alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			want = append(want, rule.Alert)
			const page = "https://github.com/warrantgate/warrantgate/blob/main/charts/warrantgate/RUNBOOKS.md#"
			if got, link := rule.Annotations["runbook_url"], page+strings.ToLower(rule.Alert); got != link {
				t.Errorf("the runbook of %s is %q, want %q", rule.Alert, got, link)
			}
			if severity := rule.Labels["severity"]; severity != "critical" && severity != "warning" {
				t.Errorf("the severity of %s is %q", rule.Alert, severity)
			}
			if rule.Annotations["summary"] == "" {
				t.Errorf("%s has no summary", rule.Alert)
			}
		}
	}
	if len(want) < 4 {
		t.Fatalf("only %q are alerts", want)
	}
	var got []string
	for _, paragraph := range runbooks(t) {
		name, text, _ := strings.Cut(paragraph, "\n")
		got = append(got, name)
		at := -1
		for _, part := range []string{"\n*For users*: ", "\n*Check*: ", "\n*It stops* "} {
			next := strings.Index(text, part)
			if next <= at {
				t.Errorf("the runbook of %s does not go on with %q", name, part)
			}
			at = next
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runbooks in RUNBOOKS.md (-alerts +runbooks):\n%s", diff)
	}
}

// runbooks are the sections of RUNBOOKS.md, each from its title on.
func runbooks(t *testing.T) []string {
	t.Helper()
	return strings.Split(readFile(t, "warrantgate/RUNBOOKS.md"), "\n## ")[1:]
}

// TestClientsAndProfiles checks the results of these values: the CA is a file beside the configuration, and none of it exists by
// default.
func TestClientsAndProfiles(t *testing.T) {
	const caBundle = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
	for name, tc := range map[string]struct {
		values    string
		wantArgs  []string
		wantItems []corev1.KeyToPath
		wantData  string
	}{
		"by default": {
			wantItems: []corev1.KeyToPath{{Key: "config.yaml", Path: "config.yaml"}},
		},
		"all of it": {
			values: "pprof: {port: 6060}\nclients:\n  names: [kube-apiserver, kcp]\n  caBundle: |\n    " + strings.ReplaceAll(caBundle, "\n", "\n    "),
			wantArgs: []string{
				"--client-ca-file=/etc/warrantgate/config/clients.crt", "--client-names=kube-apiserver,kcp", "--pprof-address=6060",
			},
			wantItems: []corev1.KeyToPath{{Key: "config.yaml", Path: "config.yaml"}, {Key: "clients.crt", Path: "clients.crt"}},
			wantData:  caBundle,
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := template(t, certificate+keystoneOnly+tc.values).Objects
			deployment, _ := find[appsv1.Deployment](t, objects, "Deployment")
			file, _ := find[corev1.ConfigMap](t, objects, "ConfigMap")
			var args []string
			for _, arg := range deployment.Spec.Template.Spec.Containers[0].Args {
				if strings.HasPrefix(arg, "--client-") || strings.HasPrefix(arg, "--pprof-") {
					args = append(args, arg)
				}
			}
			if diff := cmp.Diff(tc.wantArgs, args); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			for _, volume := range deployment.Spec.Template.Spec.Volumes {
				if volume.Name != "config" {
					continue
				}
				if diff := cmp.Diff(tc.wantItems, volume.ConfigMap.Items); diff != "" {
					t.Errorf("files (-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff(strings.TrimSpace(tc.wantData), strings.TrimSpace(file.Data["clients.crt"])); diff != "" {
				t.Errorf("CA (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPictureIsCurrent checks that the picture in the README shows the first panels of the dashboard. "make pictures" draws it.
func TestPictureIsCurrent(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			Title   string
			GridPos struct{ Y int }
		}
	}
	if err := json.Unmarshal([]byte(readFile(t, "warrantgate/files/dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	picture := readFile(t, "dashboard.svg")
	const rows = 28 // what e2e/suites/stories draws
	for _, panel := range dashboard.Panels {
		if panel.GridPos.Y < rows && !strings.Contains(picture, ">"+panel.Title+"<") {
			t.Errorf("dashboard.svg does not show the panel %q: run make pictures", panel.Title)
		}
	}
}
