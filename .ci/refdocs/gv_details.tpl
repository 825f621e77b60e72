{{- define "gvDetails" -}}
{{- $gv := . -}}

# {{ $gv.GroupVersionString }}

The fields of the configuration file, whose defaults [defaults.yaml](../defaults.yaml) has together. A field without a type is a string; one without a
default is empty.
{{ range $gv.SortedTypes }}{{ if .GVK }}
{{ template "type" . }}
{{ end }}{{ end }}
{{- range $gv.SortedTypes }}{{ if not .GVK }}
{{ template "type" . }}
{{ end }}{{ end }}

{{- end -}}
