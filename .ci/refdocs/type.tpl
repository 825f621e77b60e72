{{- define "type" -}}
{{- $type := . -}}
{{- if markdownShouldRenderType $type -}}

## {{ $type.Name }}

{{ $type.Doc }}

{{ if $type.References -}}
Used in {{ range $i, $reference := $type.SortedReferences }}{{ if $i }}, {{ end }}{{ markdownRenderTypeLink $reference }}{{ end }}.
{{- end }}

{{ if $type.Members -}}
| Field | Type | Description |
| --- | --- | --- |
{{ if $type.GVK -}}
| `apiVersion` | string | `{{ $type.GVK.Group }}/{{ $type.GVK.Version }}` |
| `kind` | string | `{{ $type.GVK.Kind }}` |
{{ end -}}
{{ range $type.Members -}}
| `{{ .Name }}` | {{ markdownRenderType .Type }} | {{ markdownRenderFieldDoc .Doc | replace "<br />" " " | trim }} |
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
