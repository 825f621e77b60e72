{{/*
The webhooks of the configuration. They are those of "warrantgate install kubernetes": TestTheChartCreatesTheObjectsOfInstall compares both, in
this order.
*/}}

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

{{/*
The fields of a webhook that all have: it takes root, the path, the failurePolicy, and may take timeoutSeconds and reinvocationPolicy. The namespaces
of warrantgate itself, and those that the API server depends on, are not gated, so that both can restart without it.
*/}}
{{- define "warrantgate.webhook" -}}
clientConfig:
  service:
    namespace: {{ .root.Release.Namespace }}
    name: {{ include "warrantgate.fullname" .root }}
    port: {{ .root.Values.service.port }}
    path: {{ include "warrantgate.pathPrefix" .root }}{{ .path }}
  {{- with include "warrantgate.caBundle" .root }}
  caBundle: {{ b64enc . }}
  {{- end }}
namespaceSelector:
  matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: {{ toJson (append .root.Values.kubernetes.excludedNamespaces .root.Release.Namespace | uniq) }}
failurePolicy: {{ .failurePolicy }}
matchPolicy: Equivalent
sideEffects: NoneOnDryRun
timeoutSeconds: {{ .timeoutSeconds | default 3 }}
{{- with .reinvocationPolicy }}
reinvocationPolicy: {{ . }}
{{- end }}
admissionReviewVersions: [v1]
{{- end -}}

{{/* The rule for the creation and update of the objects of a configured kind, and of their status, where a path may be. */}}
{{- define "warrantgate.kindRule" -}}
{apiGroups: [{{ quote .group }}], apiVersions: [{{ quote .version }}], operations: [CREATE, UPDATE], scope: "*", resources: {{ toJson (list .resource (printf "%s/status" .resource)) }}}
{{- end -}}

{{/* The names of objects in CEL, as 'NAMESPACE/NAME'. */}}
{{- define "warrantgate.celObjectNames" -}}
[{{ range $i, $object := . }}{{ if $i }}, {{ end }}{{ printf "%s/%s" .namespace .name | quote }}{{ end }}]
{{- end -}}

{{/* The kinds of machines, in JSON: the built-in and the configured ones. */}}
{{- define "warrantgate.machineKinds" -}}
{{- $group := "infrastructure.cluster.x-k8s.io" -}}
{{- $kinds := list (dict "group" $group "version" "v1beta1" "kind" "CloudSigmaMachine" "resource" "cloudsigmamachines" "provider" "cloudsigma") -}}
{{- if dig "openStack" "authURLs" list .Values.config -}}
{{- $kinds = append $kinds (dict "group" $group "version" "v1beta1" "kind" "OpenStackMachine" "resource" "openstackmachines" "provider" "openstack" "identityRefPath" "spec.identityRef") -}}
{{- end -}}
{{- concat $kinds (dig "machine" "kinds" list .Values.config) | toJson -}}
{{- end -}}

{{/* The webhooks on controller managers: for objects with the labels of the selector, and for those in the list. "gate" is identity or integrity. */}}
{{- define "warrantgate.controllerManagerWebhooks" -}}
{{- $gate := .root.Values.config.controllerManager -}}
{{- $path := printf "/controllermanager/%s" .gate -}}
{{- $root := .root -}}
{{- $name := .gate -}}
{{- with include "warrantgate.failurePolicy" (dict "root" $root "part" $gate "selected" true) }}
{{- $webhook := include "warrantgate.webhook" (dict "root" $root "path" $path "failurePolicy" . "reinvocationPolicy" (ternary "Never" "" (eq $name "identity"))) }}
{{- with $gate.selector }}
- name: controller-manager-{{ $name }}.warrantgate.dev
  objectSelector: {{ toJson . }}
  matchConditions: {{- include "warrantgate.controllerManagerConditions" $ | nindent 2 }}
  rules: {{- include "warrantgate.controllerManagerRules" $ | nindent 2 }}
  {{- $webhook | nindent 2 }}
{{- end }}
{{- with $gate.objects }}
- name: named-controller-manager-{{ $name }}.warrantgate.dev
  matchConditions:
  - name: names-a-controller-manager
    expression: request.namespace + '/' + object.metadata.?name.orValue('') in {{ include "warrantgate.celObjectNames" . }}
  {{- include "warrantgate.controllerManagerConditions" $ | nindent 2 }}
  rules: {{- include "warrantgate.controllerManagerRules" $ | nindent 2 }}
  {{- $webhook | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "warrantgate.controllerManagerConditions" -}}
- name: not-being-deleted
  expression: oldObject == null || oldObject.metadata.?deletionTimestamp.orValue(null) == null
- name: changes-pods-or-labels
  expression: >-
    oldObject == null || object.?spec.?template != oldObject.?spec.?template ||
    (object.metadata.?labels.orValue(null) == null ? {} : object.metadata.labels) !=
    (oldObject.metadata.?labels.orValue(null) == null ? {} : oldObject.metadata.labels)
{{- end -}}

{{- define "warrantgate.controllerManagerRules" -}}
- apiGroups: [apps]
  apiVersions: [v1]
  operations: [CREATE, UPDATE]
  resources: [deployments, daemonsets, daemonsets/status, statefulsets, statefulsets/status]
  scope: Namespaced
{{- end -}}

{{/* The match condition of webhooks for Secrets: those of exempt namespaces can be written while no warrantgate runs. */}}
{{- define "warrantgate.exemptCondition" -}}
{{- with dig "cluster" "exemptNamespaces" list .Values.config }}
- name: namespace-is-not-exempt
  expression: '!(request.namespace in [{{ range $i, $namespace := . }}{{ if $i }}, {{ end }}{{ quote $namespace }}{{ end }}])'
{{- end }}
{{- end -}}

{{/* The mutating webhooks. */}}
{{- define "warrantgate.mutatingWebhooks" -}}
{{- include "warrantgate.controllerManagerWebhooks" (dict "root" $ "gate" "identity") }}
{{- end -}}

{{/* The validating webhooks. */}}
{{- define "warrantgate.validatingWebhooks" -}}
{{- $config := .Values.config -}}
{{- $openStack := dig "openStack" "authURLs" list $config -}}
{{- $impersonation := dig "cluster" "impersonation" dict $config -}}
{{- $delegation := dig "cluster" "delegation" dict $config -}}
{{- include "warrantgate.controllerManagerWebhooks" (dict "root" $ "gate" "integrity") }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" $config.machine) }}
{{- $webhook := include "warrantgate.webhook" (dict "root" $ "path" "/machine/ownership" "failurePolicy" .) }}
{{- $evaluated := list }}{{/* without those of external providers, of which only the ID counts */}}
{{- range include "warrantgate.machineKinds" $ | fromJsonArray }}
- name: {{ .resource }}.machine.warrantgate.dev
  matchConditions:
  - name: changes-a-claim
    expression: |-
      {{- if hasPrefix "external" .provider }}
      {{ include "warrantgate.celSet" (splitList "." (.providerIDPath | default "spec.providerID")) }}
      {{- else }}
      {{- $evaluated = append $evaluated . }}
      [{{ include "warrantgate.celMoved" . }}].exists(moves, !({{ include "warrantgate.celFirst" . }}) && ({{ include "warrantgate.celClaim" . }}))
      {{- end }}
  rules:
  - {{ include "warrantgate.kindRule" . }}
  {{- $webhook | nindent 2 }}
{{- end }}
{{- range $evaluated }}
- name: first.{{ .resource }}.machine.warrantgate.dev
  matchConditions:
  - name: first-claim
    expression: |-
      [{{ include "warrantgate.celMoved" . }}].exists(moves, {{ include "warrantgate.celFirst" . }})
  rules:
  - {{ include "warrantgate.kindRule" . }}
  {{- include "warrantgate.webhook" (dict "root" $ "path" "/machine/ownership" "failurePolicy" (include "warrantgate.firstFailurePolicy" $) "timeoutSeconds" 10) | nindent 2 }}
{{- end }}
- name: owner.machine.warrantgate.dev
  matchConditions:
  - name: changes-the-cluster
    expression: |-
      {{ include "warrantgate.celChanged" (list "metadata" "labels" "cluster.x-k8s.io/cluster-name") }}
  - name: has-a-gated-machine
    expression: |-
      {{ include "warrantgate.celInfrastructure" $evaluated }}
  rules:
  - {apiGroups: [cluster.x-k8s.io], apiVersions: ["*"], operations: [UPDATE], resources: [machines, machines/status], scope: "*"}
  {{- $webhook | nindent 2 }}
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" $impersonation) }}
{{- $webhook := include "warrantgate.webhook" (dict "root" $ "path" "/cluster/impersonation" "failurePolicy" .) }}
- name: cloudsigmaclusters.cluster.warrantgate.dev
  matchConditions:
  - name: names-another-user
    expression: >-
      {{ include "warrantgate.celChanged" (list "spec" "userEmail") }} ||
      {{ include "warrantgate.celChanged" (list "spec" "userRef" "name") }} ||
      {{ include "warrantgate.celChanged" (list "spec" "userRef" "namespace") }} ||
      {{ include "warrantgate.celChanged" (list "spec" "region") }}
  rules:
  - {apiGroups: [infrastructure.cluster.x-k8s.io], apiVersions: [v1beta1], operations: [CREATE, UPDATE], resources: [cloudsigmaclusters], scope: "*"}
  {{- $webhook | nindent 2 }}
- name: kdcclusters.cluster.warrantgate.dev
  matchConditions:
  - name: names-another-user
    expression: >-
      {{ include "warrantgate.celSet" (list "metadata" "annotations" "cloudsigma.com/owner-email") }} ||
      {{ include "warrantgate.celSet" (list "metadata" "annotations" "kube-dc.com/owner-email") }} ||
      {{ include "warrantgate.celField" (list "object" "metadata" "annotations" "kube-dc.com/owner-email") }} != '' &&
      {{ include "warrantgate.celChanged" (list "metadata" "annotations" "cloudsigma.com/owner-email") }}
  rules:
  - {apiGroups: [k8s.kube-dc.com], apiVersions: [v1alpha1], operations: [CREATE, UPDATE], resources: [kdcclusters], scope: "*"}
  {{- $webhook | nindent 2 }}
- name: secrets.cluster.warrantgate.dev
  matchConditions:
  - name: names-another-user
    expression: >-
      {{ include "warrantgate.celChanged" (list "data" "userEmail") }}
  {{- include "warrantgate.exemptCondition" $ | nindent 2 }}
  rules:
  - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [secrets], scope: "*"}
  {{- $webhook | nindent 2 }}
{{- range $impersonation.kinds }}
{{- $fields := list }}
{{- with .emailPath }}{{ $fields = append $fields (splitList "." .) }}{{ end }}
{{- range .annotations }}{{ $fields = append $fields (list "metadata" "annotations" .) }}{{ end }}
- name: {{ .resource }}.cluster.warrantgate.dev
  matchConditions:
  - name: names-another-user
    expression: |-
      {{ include "warrantgate.celAnySet" $fields }}
  rules:
  - {{ include "warrantgate.kindRule" . }}
  {{- $webhook | nindent 2 }}
{{- end }}
{{- end }}
{{- if $openStack }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" $delegation) }}
{{- $webhook := include "warrantgate.webhook" (dict "root" $ "path" "/cluster/delegation" "failurePolicy" .) }}
- name: openstackclusters.delegation.warrantgate.dev
  matchConditions:
  - name: names-other-credentials
    expression: |-
      {{ include "warrantgate.celSet" (list "spec" "identityRef") }}
  rules:
  - {apiGroups: [infrastructure.cluster.x-k8s.io], apiVersions: [v1beta1], operations: [CREATE, UPDATE], resources: [openstackclusters], scope: "*"}
  {{- $webhook | nindent 2 }}
- name: openstackmachines.delegation.warrantgate.dev
  matchConditions:
  - name: names-other-credentials
    expression: |-
      {{ include "warrantgate.celSet" (list "spec" "identityRef") }}
  rules:
  - {apiGroups: [infrastructure.cluster.x-k8s.io], apiVersions: [v1beta1], operations: [CREATE, UPDATE], resources: [openstackmachines], scope: "*"}
  {{- $webhook | nindent 2 }}
- name: secrets.delegation.warrantgate.dev
  matchConditions:
  - name: names-other-credentials
    expression: |-
      {{ include "warrantgate.celSet" (list "data" "clouds.yaml") }}
  {{- include "warrantgate.exemptCondition" $ | nindent 2 }}
  rules:
  - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [secrets], scope: "*"}
  {{- $webhook | nindent 2 }}
{{- range $delegation.kinds }}
- name: {{ .resource }}.delegation.warrantgate.dev
  matchConditions:
  - name: names-other-credentials
    expression: |-
      {{ include "warrantgate.celSet" (splitList "." (.identityRefPath | default "spec.identityRef")) }}
  rules:
  - {{ include "warrantgate.kindRule" . }}
  {{- $webhook | nindent 2 }}
{{- end }}
- name: reference.delegation.warrantgate.dev
  matchConditions:
  - name: refers-to-another-cluster
    expression: |-
      {{ include "warrantgate.celSet" (list "spec" "infrastructureRef" "name") }}
  rules:
  - {apiGroups: [cluster.x-k8s.io], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [clusters], scope: "*"}
  {{- $webhook | nindent 2 }}
{{- end }}
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" $config.keystonePolicy "selected" true) }}
{{- $webhook := include "warrantgate.webhook" (dict "root" $ "path" "/keystone/policy" "failurePolicy" .) }}
{{- $written := "oldObject == null || object.?data != oldObject.?data || object.?binaryData != oldObject.?binaryData" }}
{{- with $config.keystonePolicy.selector }}
{{- $labels := keys (.matchLabels | default dict) }}
{{- range .matchExpressions }}{{ $labels = append $labels .key }}{{ end }}
- name: policies.keystone.warrantgate.dev
  objectSelector: {{ toJson . }}
  matchConditions:
  - name: changes-data-or-selection
    expression: |-
      {{ $written }}{{ range $labels | sortAlpha | uniq }} || object.metadata.?labels[?{{ quote . }}] != oldObject.metadata.?labels[?{{ quote . }}]{{ end }}
  rules:
  - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps, secrets], scope: Namespaced}
  {{- $webhook | nindent 2 }}
{{- end }}
{{- with $config.keystonePolicy.objects }}
- name: named-policies.keystone.warrantgate.dev
  matchConditions:
  - name: names-a-policy
    expression: |-
      request.namespace + '/' + object.metadata.name in {{ include "warrantgate.celObjectNames" . }}
  - name: changes-data
    expression: {{ $written }}
  rules:
  - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps, secrets], scope: Namespaced}
  {{- $webhook | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}
