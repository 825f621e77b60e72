package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/config/v1beta1"
)

// TestEachSettingAddsABlock generates a list of two items that depend on settings in all ways.
func TestEachSettingAddsABlock(t *testing.T) {
	settings := []setting{
		{`{{- if .machines }}`, func(c *v1beta1.GateConfiguration) { c.Machine.Mode = v1beta1.Off }},
		{`{{- if .exempt }}`, func(c *v1beta1.GateConfiguration) { c.Cluster.ExemptNamespaces = nil }},
		{`{{ range rest .exempt }}`, func(c *v1beta1.GateConfiguration) { c.Cluster.ExemptNamespaces = c.Cluster.ExemptNamespaces[:1] }},
		{`{{- if .openStack }}`, func(c *v1beta1.GateConfiguration) { c.OpenStack.AuthURLs = nil }},
		{`{{- range .kinds }}`, func(c *v1beta1.GateConfiguration) { c.Machine.Kinds = nil }},
	}
	got, err := list(settings, func(config v1beta1.GateConfiguration) ([]item, error) {
		items := []item{{key: "always", text: "- name: always\n  scope: '*'\n"}}
		if names := config.Cluster.ExemptNamespaces; len(names) > 0 {
			items[0].text = "- name: always\n  exempt: [\"" + strings.Join(names, "\", \"") + "\"]\n  scope: '*'\n"
		}
		if config.Machine.Mode != v1beta1.Off {
			var kinds []string
			for _, kind := range config.MachineKinds() {
				kinds = append(kinds, "'"+kind.Resource+"'")
			}
			items = append(items, item{key: "machines", text: "- name: machines\n  kinds: [" + strings.Join(kinds, ", ") + "]\n"})
		}
		return items, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `- name: always
{{- if .exempt }}
  exempt: [{{ quote (first $exempt) }}{{ range rest .exempt }}, {{ quote . }}{{ end }}]
{{- end }}
  scope: '*'
{{- if .machines }}
- name: machines
  kinds: ['cloudsigmamachines'{{ if .openStack }}, 'openstackmachines'{{ end }}{{ range .kinds }}, {{ quote $kind.resource }}{{ end }}]
{{- end }}
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("template (-want +got):\n%s", diff)
	}
}

func TestWhatNoTemplateCanSayIsAnError(t *testing.T) {
	warn := setting{"{{ if .warns }}", func(c *v1beta1.GateConfiguration) { c.Machine.Mode = v1beta1.Warn }}
	for name, tc := range map[string]struct {
		text func(v1beta1.GateConfiguration) string
		want string
	}{
		"a setting that changes a text instead of adding to it": {
			func(config v1beta1.GateConfiguration) string { return "mode " + string(config.Machine.Mode) },
			"the setting changes more than one place",
		},
		"an action in a text": {
			func(v1beta1.GateConfiguration) string { return "{{ .Values }}" }, "contains an action",
		},
		"a placeholder without an action": {
			func(v1beta1.GateConfiguration) string { return "a {forgotten} one" }, "the placeholder {forgotten} is not replaced",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := list([]setting{warn}, func(config v1beta1.GateConfiguration) ([]item, error) {
				return []item{{key: "item", text: tc.text(config)}}, nil
			})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want one with %q", err, tc.want)
			}
		})
	}
}
