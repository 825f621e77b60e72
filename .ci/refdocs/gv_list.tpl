{{- define "gvList" -}}
{{- $groupVersions := . -}}

<!-- Written by "make generate" from the types in this folder. -->

{{ range $groupVersions }}
{{ template "gvDetails" . }}
{{ end }}

{{- end -}}
