{{- /* A comment without the name that Go comments begin with: "Interval is the time" becomes "The time", "Off evaluates" becomes "Evaluates". */ -}}
{{- define "sentence" -}}
{{- $doc := regexReplaceAll "^[A-Za-z]+ (is|are|configures) " (.doc | replace "<br />" " " | replace "\n" " " | trim) "" -}}
{{- $doc = regexReplaceAll "^[A-Za-z]+ ((limits|selects|permits|replaces|denies|admits|evaluates|changes|names|describes) )" $doc "$1" -}}
{{- print (substr 0 1 $doc | upper) (substr 1 -1 $doc) | replace "\\{" "{" | replace "\\}" "}" | wrapWith 140 .newLine -}}
{{- end -}}
{{- define "doc" -}}
{{- with markdownRenderFieldDoc . }}: {{ template "sentence" dict "doc" . "newLine" "\n  " }}{{ end -}}
{{- end -}}
{{- /* A field whose type is described here is a link to it. Types of Kubernetes get no link. */ -}}
{{- define "field" -}}
{{- $type := regexReplaceAll `\[(LabelSelector|Duration)\]\(https:[^)]*\)` (markdownRenderType .Type) "$1" | replace "Duration" "duration" | replace "string array" "strings" -}}
{{- with regexFind `#[a-z]+` $type }}[`{{ $.Name }}`]({{ . }}){{ if hasSuffix " array" $type }} (list){{ end }}
{{- else }}`{{ .Name }}`{{ if ne $type "string" }} ({{ $type }}){{ end }}{{ end -}}
{{- end -}}
{{- define "type" -}}
{{- $type := . -}}
{{- if markdownShouldRenderType $type -}}

## {{ $type.Name }}

{{ template "sentence" dict "doc" $type.Doc "newLine" "\n" }}
{{ if $type.GVK }}
- `apiVersion`: `{{ $type.GVK.Group }}/{{ $type.GVK.Version }}`
- `kind`: `{{ $type.GVK.Kind }}`
{{- end }}
{{- range $type.Members }}
- {{ template "field" . }}{{ if index .Markers "required" }} (required){{ end }}{{ template "doc" .Doc }}
{{- end }}
{{- range $type.EnumValues }}
- `{{ .Name }}`{{ template "doc" .Doc }}
{{- end }}
{{- end -}}
{{- end -}}
