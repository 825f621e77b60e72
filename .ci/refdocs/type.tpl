{{- define "type" -}}
{{- $type := . -}}
{{- if markdownShouldRenderType $type -}}

## {{ $type.Name }}

{{ $type.Doc }}

{{ if $type.Members -}}
| Field | Type | Description |
| --- | --- | --- |
{{ if $type.GVK -}}
| `apiVersion` | string | `{{ $type.GVK.Group }}/{{ $type.GVK.Version }}` |
| `kind` | string | `{{ $type.GVK.Kind }}` |
{{ end -}}
{{ range $type.Members -}}
| `{{ .Name }}` | {{ markdownRenderType .Type | replace "[Duration](https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.36/#duration-v1-meta)" "duration, such as 10m" }} | {{ markdownRenderFieldDoc .Doc | replace "<br />" " " | trim }} |
{{ end -}}
{{ end -}}

{{ if $type.EnumValues -}}
| Value | Description |
| --- | --- |
{{ range $type.EnumValues -}}
| `{{ .Name }}` | {{ markdownRenderFieldDoc .Doc | replace "<br />" " " | trim }} |
{{ end -}}
{{ end -}}

{{- end -}}
{{- end -}}
