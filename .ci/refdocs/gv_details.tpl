{{- define "gvDetails" -}}
{{- $gv := . -}}

# {{ $gv.GroupVersionString }}

The fields of the configuration file, for which [the folder above](../README.md) has an example. A field without a type is a string; one without a
default is empty.
{{ range $gv.SortedTypes }}{{ if .GVK }}
{{ template "type" . }}
{{ end }}{{ end }}
{{- range $gv.SortedTypes }}{{ if not .GVK }}
{{ template "type" . }}
{{ end }}{{ end }}

{{- end -}}
