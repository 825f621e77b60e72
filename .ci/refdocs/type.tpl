{{- /* A comment without the name of the field that Go comments begin with: "Interval is the time" becomes "The time". */ -}}
{{- define "doc" -}}
{{- $doc := regexReplaceAll "^[A-Za-z]+ (is|are) " (markdownRenderFieldDoc . | replace "<br />" " " | trim) "" -}}
{{- if $doc }}: {{ print (substr 0 1 $doc | upper) (substr 1 -1 $doc) | wrapWith 140 "\n  " }}{{ end -}}
{{- end -}}
{{- /* Types of Kubernetes get no link. */ -}}
{{- define "fieldType" -}}
{{- regexReplaceAll `\[(LabelSelector|Duration)\]\(https:[^)]*\)` (markdownRenderType .) "$1" | replace "Duration" "duration" -}}
{{- end -}}
{{- define "type" -}}
{{- $type := . -}}
{{- if markdownShouldRenderType $type -}}

## {{ $type.Name }}

{{ $type.Doc }}
{{ if $type.GVK }}
- `apiVersion` (string): `{{ $type.GVK.Group }}/{{ $type.GVK.Version }}`
- `kind` (string): `{{ $type.GVK.Kind }}`
{{- end }}
{{- range $type.Members }}
- `{{ .Name }}` ({{ template "fieldType" .Type }}){{ template "doc" .Doc }}
{{- end }}
{{- range $type.EnumValues }}
- `{{ .Name }}`{{ template "doc" .Doc }}
{{- end }}
{{- end -}}
{{- end -}}
