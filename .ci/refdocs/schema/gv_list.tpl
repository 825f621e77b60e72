{{- /* The definitions of a JSON schema, from the types of the configuration file. A field has the marker Format with the name of a definition if
its text has a form of its own. An empty URL or path means the default. */ -}}
{{- define "gvList" }}  "definitions": {
    "duration": {"type": "string", "pattern": "^([0-9]+(\\.[0-9]+)?[smh])*[0-9]*[1-9][0-9]*(\\.[0-9]+)?[smh]([0-9]+(\\.[0-9]+)?[smh])*$"},
    "fieldPath": {"type": "string", "pattern": "^([a-zA-Z_][a-zA-Z0-9_]*(\\.[a-zA-Z_][a-zA-Z0-9_]*){1,7})?$"},
    "httpsURL": {"type": "string", "pattern": "^(https://[^/?#@\\s]+(/[^?#\\s]*)?)?$"},
    "key": {"type": "string", "pattern": "^[-._a-zA-Z0-9]{1,253}$"},
    "kindName": {"type": "string", "pattern": "^[a-zA-Z]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?$"},
    "labelSelector": {"type": ["object", "null"], "additionalProperties": false, "properties": {
      "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
      "matchExpressions": {"type": "array", "items": {"type": "object", "additionalProperties": false, "required": ["key", "operator"], "properties": {
        "key": {"type": "string"},
        "operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
        "values": {"type": "array", "items": {"type": "string"}}
      }}}
    }},
    "name": {"type": "string", "maxLength": 253, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"},
    "namespace": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"},
    "provider": {"type": "string", "pattern": "^(cloudsigma|openstack|external(-[a-z0-9]+)*)$"},
    "region": {"type": "string", "pattern": "^[a-z0-9-]{1,63}$"},
    "release": {"type": "string", "pattern": "^(20[0-9][0-9]\\.[12]|[a-zA-Z]*)$"},
    "resource": {"type": "string", "pattern": "^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"},
    "urlPath": {"type": "string", "pattern": "^(/[^?#%\\s]*)?$"},
    "url": {"type": "string", "pattern": "^https?://[^/?#@\\s]+(/[^?#\\s]*)?$"},
    "workspace": {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(:[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$"}
{{- range . }}{{ range .SortedTypes }}{{ template "definition" . }}{{ end }}{{ end }}
  }
}
{{- end }}

{{- define "definition" }},
    "{{ .Name }}":
{{- if .EnumValues }} {"enum": [
{{- range $i, $value := .EnumValues }}{{ if $i }}, {{ end }}"{{ .Name }}"{{ end }}
{{- if eq .Name "Mode" }}, false], "description": "YAML reads Off without quotes as false."{{ else }}]{{ end }}}
{{- else }} {"type": "object", "additionalProperties": false
{{- with index .Markers "kubebuilder:validation:MinProperties" }}, "minProperties": {{ index . 0 }}{{ end }}
{{- $required := list }}
{{- range .Fields }}{{ if index .Markers "required" }}{{ $required = append $required .Name }}{{ end }}{{ end }}
{{- with $required }}, "required": {{ toJson . }}{{ end }}, "properties": {
{{- range $i, $field := .Fields }}{{ if $i }},{{ end }}
      "{{ .Name }}": {{ template "value" dict "type" .Type "format" (index .Markers "kubebuilder:validation:Format") "items" (index .Markers "kubebuilder:validation:items:Format") }}
{{- end }}
    }}
{{- end }}
{{- end }}

{{- define "value" }}
{{- if eq .type.Name "Duration" }}{"$ref": "#/definitions/duration"}
{{- else if eq .type.Name "LabelSelector" }}{"$ref": "#/definitions/labelSelector"}
{{- else if eq (toJson .type.Kind) "\"SLICE\"" }}{"type": "array", "items": {{ template "value" dict "type" .type.UnderlyingType "format" .items }}}
{{- else if .format }}{"$ref": "#/definitions/{{ index .format 0 }}"}
{{- else if eq .type.Name "int32" }}{"type": "integer", "minimum": 1}
{{- else if eq .type.Name "bool" }}{"type": "boolean"}
{{- else if eq .type.Name "string" }}{"type": "string"}
{{- else }}{"$ref": "#/definitions/{{ .type.Name }}"}
{{- end }}
{{- end }}
