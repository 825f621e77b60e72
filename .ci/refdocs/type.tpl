{{- /* A comment without the name of the field that Go comments begin with: "Interval is the time" becomes "The time". */ -}}
{{- define "doc" -}}
{{- $doc := regexReplaceAll "^[A-Za-z]+ (is|are) " (markdownRenderFieldDoc . | replace "<br />" " " | trim) "" -}}
{{- substr 0 1 $doc | upper }}{{ substr 1 -1 $doc }}
{{- end -}}
{{- define "type" -}}
{{- $type := . -}}
{{- if markdownShouldRenderType $type -}}

## {{ $type.Name }}

{{ $type.Doc }}

{{ if $type.Members -}}
| Field | Type | Description |
|---|---|---|
{{ if $type.GVK -}}
| `apiVersion` | string | `{{ $type.GVK.Group }}/{{ $type.GVK.Version }}` |
| `kind` | string | `{{ $type.GVK.Kind }}` |
{{ end -}}
{{ range $type.Members -}}
| `{{ .Name }}` | {{ markdownRenderType .Type | replace "[Duration](https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.36/#duration-v1-meta)" "duration" }} | {{ template "doc" .Doc }} |
{{ end -}}
{{ end -}}

{{ if $type.EnumValues -}}
| Value | Description |
|---|---|
{{ range $type.EnumValues -}}
| `{{ .Name }}` | {{ template "doc" .Doc }} |
{{ end -}}
{{ end -}}

{{- end -}}
{{- end -}}
