{{/*
What _generated.tpl takes from the values. The webhooks, their CEL and the RBAC rules are in that file, which "make generate" writes from the Go code.
*/}}

{{/* The CEL expression for the value at a path of an object; see CELField in webhooks/cel.go. */}}
{{- define "warrantgate.celField" -}}
{{- $at := .object -}}
{{- $conditions := list -}}
{{- range .path -}}
{{- $key := quote . -}}
{{- $conditions = append $conditions (printf "type(%s) == map && %s in %s" $at $key $at) -}}
{{- $at = printf "%s[%s]" $at $key -}}
{{- end -}}
{{- printf "(%s ? %s : '')" (join " && " (append $conditions (printf "%s != null" $at))) $at -}}
{{- end -}}

{{/* The CEL expression that is true if the field at a path can be decoded; see CELReadable in webhooks/cel.go. */}}
{{- define "warrantgate.celReadable" -}}
{{- $at := .object -}}
{{- $expression := printf "(type(%s) == map" $at -}}
{{- range $i, $name := .path -}}
{{- $field := printf "%s[%s]" $at (quote $name) -}}
{{- $kind := ternary "string" "map" (eq (add1 $i) (len $.path | int64)) -}}
{{- $expression = printf "%s && (!(%s in %s) || %s == null || type(%s) == %s" $expression (quote $name) $at $field $field $kind -}}
{{- $at = $field -}}
{{- end -}}
{{- $expression -}}{{- repeat (len .path | add1 | int) ")" -}}
{{- end -}}

{{/* The fields by which a configured kind names users, as lists of keys in JSON: the field at emailPath, and annotations. */}}
{{- define "warrantgate.userFields" -}}
{{- $fields := list -}}
{{- with .emailPath -}}{{- $fields = append $fields (splitList "." .) -}}{{- end -}}
{{- range .annotations -}}{{- $fields = append $fields (list "metadata" "annotations" .) -}}{{- end -}}
{{- toJson $fields -}}
{{- end -}}

{{/* The names of objects, as NAMESPACE/NAME, in JSON. */}}
{{- define "warrantgate.objectNames" -}}
{{- $names := list -}}
{{- range . -}}{{- $names = append $names (printf "%s/%s" .namespace .name) -}}{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{/* The labels that a selector uses, in JSON. */}}
{{- define "warrantgate.labelKeys" -}}
{{- $keys := keys (.matchLabels | default dict) -}}
{{- range .matchExpressions -}}{{- $keys = append $keys .key -}}{{- end -}}
{{- $keys | sortAlpha | uniq | toJson -}}
{{- end -}}

{{/* The failure policy of the webhooks of a gate, "" if it is off. A gate that only warns must not deny requests while it is down, either. */}}
{{- define "warrantgate.failurePolicy" -}}
{{- $mode := include "warrantgate.mode" . -}}
{{- if ne $mode "Off" -}}{{- ternary "Ignore" .root.Values.failurePolicy (eq $mode "Warn") -}}{{- end -}}
{{- end -}}

{{/* The failure policy of the webhooks for first claims of machines; see UnknownPolicy in internal/config/v1beta1. */}}
{{- define "warrantgate.firstFailurePolicy" -}}
{{- $machine := .Values.config.machine | default dict -}}
{{- $audited := ne (include "warrantgate.mode" (dict "part" .Values.config.audit)) "Off" -}}
{{- $unknown := dig "unknown" (ternary "AdmitFirstClaims" "Deny" $audited) $machine -}}
{{- ternary (include "warrantgate.failurePolicy" (dict "root" . "part" $machine)) "Ignore" (eq $unknown "Deny") -}}
{{- end -}}

{{/* How API servers reach the webhook at a path. */}}
{{- define "warrantgate.clientConfig" -}}
service:
  namespace: {{ .root.Release.Namespace }}
  name: {{ include "warrantgate.fullname" .root }}
  port: {{ .root.Values.service.port }}
  path: {{ include "warrantgate.pathPrefix" .root }}{{ .path }}
{{- with include "warrantgate.caBundle" .root }}
caBundle: {{ b64enc . }}
{{- end }}
{{- end -}}

{{/* The namespaces that are gated: not those that warrantgate itself and the API server depend on, so that both can restart without it. */}}
{{- define "warrantgate.namespaceSelector" -}}
matchExpressions:
- key: kubernetes.io/metadata.name
  operator: NotIn
  values: {{ toJson (append .Values.kubernetes.excludedNamespaces .Release.Namespace | uniq) }}
{{- end -}}

{{/* What the gates that are on read, in JSON; see ReadsMachines and ReadsClusters in internal/config/v1beta1. */}}
{{- define "warrantgate.needs" -}}
{{- $config := .Values.config -}}
{{- $on := dict -}}
{{- range $gate, $part := dict "machine" $config.machine "audit" $config.audit "impersonation" (dig "cluster" "impersonation" dict $config)
  "delegation" (dig "cluster" "delegation" dict $config) "managers" $config.controllerManager -}}
{{- $_ := set $on $gate (ne (include "warrantgate.mode" (dict "part" $part "selected" (eq $gate "managers"))) "Off") -}}
{{- end -}}
{{- $machines := or $on.machine $on.audit -}}
{{- $base := list -}}
{{- if ne (include "warrantgate.mode" (dict "part" $config.keystonePolicy "selected" true)) "Off" -}}
{{- range dig "keystonePolicy" "base" list $config -}}{{- $base = append $base .name -}}{{- end -}}
{{- end -}}
{{- $delegation := and $on.delegation (dig "openStack" "authURLs" list $config) -}}
{{- toJson (dict "machines" $machines "clusters" (not (not (or $machines $on.impersonation $delegation $on.managers)))
  "references" (not (not (and $delegation $on.machine))) "reviews" $on.impersonation "audit" $on.audit "basePolicies" ($base | sortAlpha | uniq)) -}}
{{- end -}}
