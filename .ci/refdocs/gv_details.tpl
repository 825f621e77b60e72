{{- define "gvDetails" -}}
{{- $gv := . -}}

# Configuration file of {{ $gv.GroupVersionString }}

`serve` and `install` read the same file (`--config=FILE`); the chart writes it from the value `config`. `warrantgate check config FILE` prints all mistakes
with their lines, and notes on valid files. Everything else is a flag of `warrantgate serve`.

- [defaults.yaml](../defaults.yaml) has all defaults. A field without a type is a string; one without a default is empty or false.
- To test a gate, set `mode: Warn`: [it denies nothing](#mode), and its webhooks have `failurePolicy: Ignore`.
- After a change, restart `serve`, and run `warrantgate install` again.
{{ range $gv.SortedTypes }}{{ if .GVK }}
{{ template "type" . }}
{{ end }}{{ end }}
{{- range $gv.SortedTypes }}{{ if not .GVK }}
{{ template "type" . }}
{{ end }}{{ end }}

{{- end -}}
