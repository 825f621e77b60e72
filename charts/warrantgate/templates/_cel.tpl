{{/*
The CEL expressions of match conditions that depend on the configuration. Each is the function of the same name in webhooks/cel.go or in the
registration.go of a gate. The tests of the chart compare both.
*/}}

{{/* The value at a path, or '' if there is none. The first element of the list is "object" or "oldObject". */}}
{{- define "warrantgate.celField" -}}
{{- $at := first . -}}
{{- $conditions := list -}}
{{- range rest . -}}
{{- $conditions = append $conditions (printf "type(%s) == map && %q in %s" $at . $at) -}}
{{- $at = printf "%s[%q]" $at . -}}
{{- end -}}
{{- printf "(%s ? %s : '')" (join " && " (append $conditions (printf "%s != null" $at))) $at -}}
{{- end -}}

{{/* True if the field at a path can be decoded. */}}
{{- define "warrantgate.celReadable" -}}
{{- $at := first . -}}
{{- $path := rest . -}}
{{- $expression := printf "(type(%s) == map" $at -}}
{{- range $i, $name := $path -}}
{{- $field := printf "%s[%q]" $at $name -}}
{{- $kind := ternary "string" "map" (eq (add1 $i) (len $path | int64)) -}}
{{- $expression = printf "%s && (!(%q in %s) || %s == null || type(%s) == %s" $expression $name $at $field $field $kind -}}
{{- $at = $field -}}
{{- end -}}
{{- $expression -}}{{- repeat (len $path | add1 | int) ")" -}}
{{- end -}}

{{/* True if a request sets, changes or removes the field at a path. */}}
{{- define "warrantgate.celChanged" -}}
{{ include "warrantgate.celField" (prepend . "object") }} != {{ include "warrantgate.celField" (prepend . "oldObject") }}
{{- end -}}

{{/* True if a request sets the field at a path to another value. */}}
{{- define "warrantgate.celSet" -}}
({{ include "warrantgate.celField" (prepend . "object") }} != '' && {{ include "warrantgate.celChanged" . }})
{{- end -}}

{{/* True if a request sets one of the fields. */}}
{{- define "warrantgate.celAnySet" -}}
{{- range $i, $path := . }}{{ if $i }} || {{ end }}{{ include "warrantgate.celSet" $path }}{{ end -}}
{{- end -}}

{{/* The names of the Machines of Cluster API that own "object" or "oldObject". */}}
{{- define "warrantgate.celOwners" -}}
{{- $references := include "warrantgate.celField" (list . "metadata" "ownerReferences") -}}
(type({{ $references }}) != list ? [] : size({{ $references }}) > 64 ? {{ $references }} : {{ $references }}
{{- ".filter(r, type(r) == map && 'kind' in r && r['kind'] == \"Machine\" && 'apiVersion' in r && type(r['apiVersion']) == string" -}}
{{- " && r['apiVersion'].startsWith(\"cluster.x-k8s.io/\")).map(r, 'name' in r ? r['name'] : ''))" -}}
{{- end -}}

{{/* True if a request changes the cluster, identity or owner of a machine of a kind. */}}
{{- define "warrantgate.celMoved" -}}
{{- $owners := include "warrantgate.celOwners" "object" -}}
{{ include "warrantgate.celChanged" (list "metadata" "labels" "cluster.x-k8s.io/cluster-name") }} || ({{ $owners }} != [] && {{ $owners }} != {{ include "warrantgate.celOwners" "oldObject" }})
{{- with .identityRefPath }}
{{- range $field := list "type" "name" "cloudName" "region" }} || {{ include "warrantgate.celChanged" (append (splitList "." $.identityRefPath) $field) }}{{ end }}
{{- end -}}
{{- end -}}

{{/* True if a request names another instance in a machine of a kind. */}}
{{- define "warrantgate.celNames" -}}
{{- $instanceID := splitList "." (.instanceIDPath | default "status.instanceID") -}}
{{- $providerID := splitList "." (.providerIDPath | default "spec.providerID") -}}
{{- $prefix := ternary "openstack:///" (printf "%s://" .provider) (eq .provider "openstack") -}}
{{ include "warrantgate.celSet" $instanceID }} || ({{ include "warrantgate.celSet" $providerID }} && ![{{ include "warrantgate.celField" (prepend $instanceID "oldObject") }}]
{{- ".exists(id, type(id) == string && size(id) == 36 && id != '00000000-0000-0000-0000-000000000000' && id.matches(r'^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$') && " -}}
{{ include "warrantgate.celField" (prepend $providerID "object") }} == '{{ $prefix }}' + id))
{{- end -}}

{{/* True if a request names another instance, or makes one of the moves with an instance. */}}
{{- define "warrantgate.celClaim" -}}
{{- $instanceID := splitList "." (.instanceIDPath | default "status.instanceID") -}}
{{- $providerID := splitList "." (.providerIDPath | default "spec.providerID") -}}
{{ include "warrantgate.celNames" . }} || (({{ include "warrantgate.celField" (prepend $instanceID "object") }} != '' || {{ include "warrantgate.celField" (prepend $providerID "object") }} != '') && (moves))
{{- end -}}

{{/* True for the first claim of a machine of a kind. */}}
{{- define "warrantgate.celFirst" -}}
{{- $instanceID := splitList "." (.instanceIDPath | default "status.instanceID") -}}
{{- $providerID := splitList "." (.providerIDPath | default "spec.providerID") -}}
!moves && {{ include "warrantgate.celField" (prepend $instanceID "oldObject") }} == ''
{{- range $object := list "oldObject" "object" }} && {{ include "warrantgate.celReadable" (prepend $instanceID $object) }} && {{ include "warrantgate.celReadable" (prepend $providerID $object) }}{{ end }} && ({{ include "warrantgate.celNames" . }})
{{- end -}}

{{/* False for a Machine of Cluster API that has no machine of these kinds, before and after the request. */}}
{{- define "warrantgate.celInfrastructure" -}}
[{{ include "warrantgate.celField" (list "object" "spec" "infrastructureRef") }}, {{ include "warrantgate.celField" (list "oldObject" "spec" "infrastructureRef") }}]
{{- ".map(ref, ['kind', 'apiGroup', 'apiVersion'].map(name, type(ref) == map && name in ref && type(ref[name]) == string ? ref[name] : ''))" -}}
{{- ".exists(ref, ref[0] == '' || ref[1] == '' && ref[2] == '' || [" -}}
{{- range $i, $kind := . }}{{ if $i }}, {{ end }}[{{ quote .group }}, {{ quote .kind }}]{{ end -}}
{{- "].exists(kind, ref[0] == kind[1] && (ref[1] == kind[0] || ref[2].startsWith(kind[0] + '/'))))" -}}
{{- end -}}
