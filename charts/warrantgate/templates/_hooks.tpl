{{/*
The hooks of the gates, as "warrantgate install kubernetes" registers them. A test compares the two.
*/}}

{{/* The value, in CEL, at a path below an object, "" where there is none. */}}
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

{{/* True, in CEL, of requests that give the field at a path another value, and one at all. */}}
{{- define "warrantgate.celSetAnew" -}}
{{- $after := include "warrantgate.celField" (dict "object" "object" "path" .) -}}
{{- $before := include "warrantgate.celField" (dict "object" "oldObject" "path" .) -}}
{{- printf "(%s != '' && %s != %s)" $after $after $before -}}
{{- end -}}

{{- define "warrantgate.celChanged" -}}
{{- printf "%s != %s" (include "warrantgate.celField" (dict "object" "object" "path" .)) (include "warrantgate.celField" (dict "object" "oldObject" "path" .)) -}}
{{- end -}}

{{/* The names, in CEL, of the Machines of Cluster API that own an object. */}}
{{- define "warrantgate.celOwners" -}}
{{- $references := include "warrantgate.celField" (dict "object" . "path" (list "metadata" "ownerReferences")) -}}
{{- printf "(type(%s) == list ? %s : []).filter(r, type(r) == map && 'kind' in r && r['kind'] == \"Machine\" && 'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith(\"cluster.x-k8s.io/\")).map(r, 'name' in r ? r['name'] : '')" $references $references -}}
{{- end -}}

{{/* Requests that change the claim of a machine of a kind. */}}
{{- define "warrantgate.celClaim" -}}
{{- $instance := splitList "." (.instanceIDPath | default "status.instanceID") -}}
{{- $provider := splitList "." (.providerIDPath | default "spec.providerID") -}}
{{- $owners := include "warrantgate.celOwners" "object" -}}
{{- $moves := list (include "warrantgate.celChanged" (list "metadata" "labels" "cluster.x-k8s.io/cluster-name"))
  (printf "(%s != [] && %s != %s)" $owners $owners (include "warrantgate.celOwners" "oldObject")) -}}
{{- with .identityRefPath -}}
{{- $path := splitList "." . -}}
{{- range list "type" "name" "cloudName" "region" -}}{{- $moves = append $moves (include "warrantgate.celChanged" (append $path .)) -}}{{- end -}}
{{- end -}}
{{- printf "%s || %s || ((%s != '' || %s != '') && (%s))" (include "warrantgate.celSetAnew" $instance) (include "warrantgate.celSetAnew" $provider)
  (include "warrantgate.celField" (dict "object" "object" "path" $instance)) (include "warrantgate.celField" (dict "object" "object" "path" $provider))
  (join " || " $moves) -}}
{{- end -}}

{{/* Requests that change the user or the region of a CloudSigmaCluster. */}}
{{- define "warrantgate.celCluster" -}}
{{- $expressions := list -}}
{{- range list (list "spec" "userEmail") (list "spec" "userRef" "name") (list "spec" "userRef" "namespace") (list "spec" "region") -}}
{{- $expressions = append $expressions (include "warrantgate.celChanged" .) -}}
{{- end -}}
{{- join " || " $expressions -}}
{{- end -}}

{{/* Requests that name a user in a configured kind: by the field emailPath, and by annotations. */}}
{{- define "warrantgate.celNaming" -}}
{{- $expressions := list -}}
{{- with .emailPath -}}{{- $expressions = append $expressions (include "warrantgate.celSetAnew" (splitList "." .)) -}}{{- end -}}
{{- range .annotations -}}{{- $expressions = append $expressions (include "warrantgate.celSetAnew" (list "metadata" "annotations" .)) -}}{{- end -}}
{{- join " || " $expressions -}}
{{- end -}}

{{/* The conditions of a hook on objects that name users or credentials: its name and expression, resource and exempt namespaces. */}}
{{- define "warrantgate.clusterConditions" -}}
{{- $conditions := list (dict "name" .name "expression" .expression) -}}
{{- if and (eq .resource "secrets") .exempt -}}
{{- $quoted := list -}}
{{- range .exempt -}}{{- $quoted = append $quoted (quote .) -}}{{- end -}}
{{- $conditions = append $conditions (dict "name" "namespace-is-not-exempt" "expression" (printf "!(request.namespace in [%s])" (join ", " $quoted))) -}}
{{- end -}}
{{- toJson (dict "conditions" $conditions) -}}
{{- end -}}

{{/* Requests that write a policy. */}}
{{- define "warrantgate.celWritten" -}}
oldObject == null || object.?data != oldObject.?data || object.?binaryData != oldObject.?binaryData
{{- end -}}

{{/* Requests that write a policy, or a label that its selector goes by. */}}
{{- define "warrantgate.celPolicy" -}}
{{- $expressions := list (include "warrantgate.celWritten" .) -}}
{{- $keys := keys (.matchLabels | default dict) -}}
{{- range .matchExpressions -}}{{- $keys = append $keys .key -}}{{- end -}}
{{- range $keys | sortAlpha | uniq -}}
{{- $expressions = append $expressions (printf "object.metadata.?labels[?%s] != oldObject.metadata.?labels[?%s]" (quote .) (quote .)) -}}
{{- end -}}
{{- join " || " $expressions -}}
{{- end -}}

{{/* The kinds of machines, as {"kinds": […]} in JSON. */}}
{{- define "warrantgate.machineKinds" -}}
{{- $infrastructure := dict "group" "infrastructure.cluster.x-k8s.io" "version" "v1beta1" -}}
{{- $kinds := list (merge (dict "resource" "cloudsigmamachines" "provider" "cloudsigma") $infrastructure) -}}
{{- if dig "openStack" "authURLs" list .Values.config -}}
{{- $kinds = append $kinds (merge (dict "resource" "openstackmachines" "provider" "openstack" "identityRefPath" "spec.identityRef") $infrastructure) -}}
{{- end -}}
{{- toJson (dict "kinds" (concat $kinds (dig "machine" "kinds" list .Values.config))) -}}
{{- end -}}

{{/* What the gates that are on have to read, in JSON: as internal/clusterapi has it. */}}
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
  "reviews" $on.impersonation "audit" $on.audit "basePolicies" ($base | sortAlpha | uniq)) -}}
{{- end -}}

{{/* One hook: name, path, mode, group, version, resources, scope, conditions and perhaps a selector, in a release's root. */}}
{{- define "warrantgate.hook" -}}
{{- $root := .root -}}
- name: {{ .name }}
  clientConfig:
    service:
      namespace: {{ $root.Release.Namespace }}
      name: {{ include "warrantgate.fullname" $root }}
      port: {{ $root.Values.service.port }}
      path: {{ include "warrantgate.pathPrefix" $root }}{{ .path }}
    {{- with include "warrantgate.caBundle" $root }}
    caBundle: {{ b64enc . }}
    {{- end }}
  rules:
  - operations: [CREATE, UPDATE]
    apiGroups: [{{ quote .group }}]
    apiVersions: [{{ quote .version }}]
    resources: {{ toJson .resources }}
    scope: {{ quote .scope }}
  matchPolicy: Equivalent
  matchConditions:
  {{- range .conditions }}
  - name: {{ .name }}
    expression: {{ quote .expression }}
  {{- end }}
  # The objects that warrantgate itself and the API server depend on are never gated, so that both can restart without warrantgate.
  namespaceSelector:
    matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: {{ toJson (append $root.Values.kubernetes.excludedNamespaces $root.Release.Namespace | uniq) }}
  {{- with .selector }}
  objectSelector: {{ toJson . }}
  {{- end }}
  # A gate that only warns must not deny requests while it is down, either.
  failurePolicy: {{ ternary "Ignore" $root.Values.failurePolicy (eq .mode "Warn") }}
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
  {{- if .mutating }}
  reinvocationPolicy: Never
  {{- end }}
  admissionReviewVersions: [v1]
{{ end -}}

{{/* The hooks of a gate on controller managers: for those that are selected by labels, and for those that are by name. */}}
{{- define "warrantgate.managerHooks" -}}
{{- $managers := .root.Values.config.controllerManager -}}
{{- $changed := "oldObject == null || object.?spec.?template != oldObject.?spec.?template || (object.metadata.?labels.orValue(null) == null ? {} : object.metadata.labels) != (oldObject.metadata.?labels.orValue(null) == null ? {} : oldObject.metadata.labels)" -}}
{{- $conditions := list
    (dict "name" "not-being-deleted" "expression" "oldObject == null || oldObject.metadata.?deletionTimestamp.orValue(null) == null")
    (dict "name" "changes-pods-or-labels" "expression" $changed) -}}
{{- $hook := merge (dict "group" "apps" "version" "v1" "resources" (list "deployments" "daemonsets" "statefulsets") "scope" "Namespaced") . -}}
{{- if $managers.selector -}}
{{- include "warrantgate.hook" (merge (dict "selector" $managers.selector "conditions" $conditions) $hook) -}}
{{- end -}}
{{- if $managers.objects -}}
{{- $names := list -}}
{{- range $managers.objects -}}{{- $names = append $names (quote (printf "%s/%s" .namespace .name)) -}}{{- end -}}
{{- $named := dict "name" "names-a-controller-manager" "expression" (printf "request.namespace + '/' + object.metadata.?name.orValue('') in [%s]" (join ", " $names)) -}}
{{- include "warrantgate.hook" (merge (dict "name" (printf "named-%s" .name) "conditions" (prepend $conditions $named)) $hook) -}}
{{- end -}}
{{- end -}}

{{- define "warrantgate.mutatingHooks" -}}
{{- $mode := include "warrantgate.mode" (dict "part" .Values.config.controllerManager "selected" true) -}}
{{- if ne $mode "Off" -}}
{{- include "warrantgate.managerHooks" (dict "root" . "mode" $mode "mutating" true
  "name" "controller-manager-identity.warrantgate.dev" "path" "/controllermanager/identity") -}}
{{- end -}}
{{- end -}}

{{- define "warrantgate.validatingHooks" -}}
{{- $root := . -}}
{{- $config := .Values.config -}}
{{- $mode := include "warrantgate.mode" (dict "part" $config.controllerManager "selected" true) -}}
{{- if ne $mode "Off" -}}
{{- include "warrantgate.managerHooks" (dict "root" . "mode" $mode
  "name" "controller-manager-integrity.warrantgate.dev" "path" "/controllermanager/integrity") -}}
{{- end -}}
{{- $mode = include "warrantgate.mode" (dict "part" $config.machine) -}}
{{- if ne $mode "Off" -}}
{{- range (include "warrantgate.machineKinds" . | fromJson).kinds -}}
{{- include "warrantgate.hook" (dict "root" $root "mode" $mode "name" (printf "%s.machine.warrantgate.dev" .resource) "path" "/machine/ownership"
  "group" .group "version" .version "resources" (list .resource (printf "%s/status" .resource)) "scope" "*"
  "conditions" (list (dict "name" "changes-a-claim" "expression" (include "warrantgate.celClaim" .)))) -}}
{{- end -}}
{{- include "warrantgate.hook" (dict "root" $root "mode" $mode "name" "owner.machine.warrantgate.dev" "path" "/machine/ownership"
  "group" "cluster.x-k8s.io" "version" "*" "resources" (list "machines" "machines/status") "scope" "*"
  "conditions" (list (dict "name" "changes-the-cluster"
    "expression" (include "warrantgate.celChanged" (list "metadata" "labels" "cluster.x-k8s.io/cluster-name"))))) -}}
{{- end -}}
{{- $exempt := dig "cluster" "exemptNamespaces" list $config -}}
{{- $infrastructure := dict "group" "infrastructure.cluster.x-k8s.io" "version" "v1beta1" -}}
{{- $mode = include "warrantgate.mode" (dict "part" (dig "cluster" "impersonation" dict $config)) -}}
{{- if ne $mode "Off" -}}
{{- $kinds := list
  (merge (dict "resource" "cloudsigmaclusters" "expression" (include "warrantgate.celCluster" .)) $infrastructure)
  (dict "group" "k8s.kube-dc.com" "version" "v1alpha1" "resource" "kdcclusters"
    "expression" (include "warrantgate.celNaming" (dict "annotations" (list "kube-dc.com/owner-email" "cloudsigma.com/owner-email"))))
  (dict "group" "" "version" "v1" "resource" "secrets" "expression" (include "warrantgate.celSetAnew" (list "data" "userEmail"))) -}}
{{- range dig "cluster" "impersonation" "kinds" list $config -}}
{{- $kinds = append $kinds (merge (dict "expression" (include "warrantgate.celNaming" .)) .) -}}
{{- end -}}
{{- range $kinds -}}
{{- include "warrantgate.hook" (dict "root" $root "mode" $mode "name" (printf "%s.cluster.warrantgate.dev" .resource) "path" "/cluster/impersonation"
  "group" .group "version" .version "resources" (list .resource) "scope" "*" "conditions" (include "warrantgate.clusterConditions"
  (dict "name" "names-another-user" "expression" .expression "resource" .resource "exempt" $exempt) | fromJson).conditions) -}}
{{- end -}}
{{- end -}}
{{- $mode = include "warrantgate.mode" (dict "part" (dig "cluster" "delegation" dict $config)) -}}
{{- if and (ne $mode "Off") (dig "openStack" "authURLs" list $config) -}}
{{- $anew := include "warrantgate.celSetAnew" (list "spec" "identityRef") -}}
{{- $kinds := list
  (merge (dict "resource" "openstackclusters" "expression" (printf "%s || %s != '' && %s" $anew
    (include "warrantgate.celField" (dict "object" "object" "path" (list "spec" "identityRef")))
    (include "warrantgate.celChanged" (list "metadata" "labels" "cluster.x-k8s.io/cluster-name")))) $infrastructure)
  (merge (dict "resource" "openstackmachines" "expression" $anew) $infrastructure)
  (dict "group" "" "version" "v1" "resource" "secrets" "expression" (include "warrantgate.celSetAnew" (list "data" "clouds.yaml"))) -}}
{{- range dig "cluster" "delegation" "kinds" list $config -}}
{{- $kinds = append $kinds (merge (dict "expression" (include "warrantgate.celSetAnew" (splitList "." (.identityRefPath | default "spec.identityRef")))) .) -}}
{{- end -}}
{{- range $kinds -}}
{{- include "warrantgate.hook" (dict "root" $root "mode" $mode "name" (printf "%s.delegation.warrantgate.dev" .resource) "path" "/cluster/delegation"
  "group" .group "version" .version "resources" (list .resource) "scope" "*" "conditions" (include "warrantgate.clusterConditions"
  (dict "name" "names-other-credentials" "expression" .expression "resource" .resource "exempt" $exempt) | fromJson).conditions) -}}
{{- end -}}
{{- include "warrantgate.hook" (dict "root" $root "mode" $mode "name" "reference.delegation.warrantgate.dev" "path" "/cluster/delegation"
  "group" "cluster.x-k8s.io" "version" "*" "resources" (list "clusters") "scope" "*"
  "conditions" (list (dict "name" "refers-to-another-cluster"
    "expression" (include "warrantgate.celSetAnew" (list "spec" "infrastructureRef" "name"))))) -}}
{{- end -}}
{{- $mode = include "warrantgate.mode" (dict "part" $config.keystonePolicy "selected" true) -}}
{{- if ne $mode "Off" -}}
{{- $policies := $config.keystonePolicy -}}
{{- if $policies.selector -}}
{{- include "warrantgate.hook" (dict "root" . "mode" $mode "name" "policies.keystone.warrantgate.dev" "path" "/keystone/policy"
  "group" "" "version" "v1" "resources" (list "configmaps" "secrets") "scope" "Namespaced" "selector" $policies.selector
  "conditions" (list (dict "name" "changes-data-or-selection" "expression" (include "warrantgate.celPolicy" $policies.selector)))) -}}
{{- end -}}
{{- if $policies.objects -}}
{{- $names := list -}}
{{- range $policies.objects -}}{{- $names = append $names (quote (printf "%s/%s" .namespace .name)) -}}{{- end -}}
{{- include "warrantgate.hook" (dict "root" . "mode" $mode "name" "named-policies.keystone.warrantgate.dev" "path" "/keystone/policy"
  "group" "" "version" "v1" "resources" (list "configmaps" "secrets") "scope" "Namespaced" "conditions" (list
    (dict "name" "names-a-policy" "expression" (printf "request.namespace + '/' + object.metadata.name in [%s]" (join ", " $names)))
    (dict "name" "changes-data" "expression" (include "warrantgate.celWritten" .)))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
