{{- define "gvDetails" -}}
{{- $gv := . -}}

# {{ $gv.GroupVersionString }}

The fields of the configuration file. [The README of the folder above](../README.md) shows a file with the defaults. A field
without a default is empty unless it is set.
{{ range $gv.SortedTypes }}
{{ template "type" . }}
{{ end }}

{{- end -}}
