{{/* Written by "make generate" from the Go code of the gates. Its helpers are in _hooks.tpl. */}}

{{- define "warrantgate.mutatingHooks" -}}
{{- $config := .Values.config -}}
{{- $exempt := dig "cluster" "exemptNamespaces" list $config -}}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" $config.controllerManager "selected" true) }}{{ $failurePolicy := . }}
{{- with $config.controllerManager.selector }}
- name: controller-manager-identity.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/controllermanager/identity") | nindent 4 }}
  matchConditions:
  - name: not-being-deleted
    expression: |-
      oldObject == null || oldObject.metadata.?deletionTimestamp.orValue(null) == null
  - name: changes-pods-or-labels
    expression: |-
      oldObject == null || object.?spec.?template != oldObject.?spec.?template || (object.metadata.?labels.orValue(null) == null ? {} : object.metadata.labels) != (oldObject.metadata.?labels.orValue(null) == null ? {} : oldObject.metadata.labels)
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  objectSelector: {{ toJson . }}
  failurePolicy: {{ $failurePolicy }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  reinvocationPolicy: Never
  rules:
  - apiGroups:
    - apps
    apiVersions:
    - v1
    operations:
    - CREATE
    - UPDATE
    resources:
    - deployments
    - daemonsets
    - daemonsets/status
    - statefulsets
    - statefulsets/status
    scope: Namespaced
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" $config.controllerManager "selected" true) }}{{ $failurePolicy := . }}
{{- with include "warrantgate.objectNames" (dig "controllerManager" "objects" list $config) | fromJsonArray }}{{ $names := . }}
- name: named-controller-manager-identity.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/controllermanager/identity") | nindent 4 }}
  matchConditions:
  - name: names-a-controller-manager
    expression: |-
      request.namespace + '/' + object.metadata.?name.orValue('') in [{{ quote (first $names) }}{{ range rest $names }}, {{ quote . }}{{ end }}]
  - name: not-being-deleted
    expression: |-
      oldObject == null || oldObject.metadata.?deletionTimestamp.orValue(null) == null
  - name: changes-pods-or-labels
    expression: |-
      oldObject == null || object.?spec.?template != oldObject.?spec.?template || (object.metadata.?labels.orValue(null) == null ? {} : object.metadata.labels) != (oldObject.metadata.?labels.orValue(null) == null ? {} : oldObject.metadata.labels)
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: {{ $failurePolicy }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  reinvocationPolicy: Never
  rules:
  - apiGroups:
    - apps
    apiVersions:
    - v1
    operations:
    - CREATE
    - UPDATE
    resources:
    - deployments
    - daemonsets
    - daemonsets/status
    - statefulsets
    - statefulsets/status
    scope: Namespaced
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" (dig "cluster" "impersonation" dict $config)) }}{{ $failurePolicy := . }}
{{- if eq (include "warrantgate.mode" (dict "part" (dig "cluster" "impersonation" dict $config))) "Enforce" }}
- name: cloudsigmaclusters.record.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/cluster/record") | nindent 4 }}
  matchConditions:
  - name: names-another-user
    expression: |-
      (type(object) == map && "spec" in object && type(object["spec"]) == map && "userEmail" in object["spec"] && object["spec"]["userEmail"] != null ? object["spec"]["userEmail"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "userEmail" in oldObject["spec"] && oldObject["spec"]["userEmail"] != null ? oldObject["spec"]["userEmail"] : '') || (type(object) == map && "spec" in object && type(object["spec"]) == map && "userRef" in object["spec"] && type(object["spec"]["userRef"]) == map && "name" in object["spec"]["userRef"] && object["spec"]["userRef"]["name"] != null ? object["spec"]["userRef"]["name"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "userRef" in oldObject["spec"] && type(oldObject["spec"]["userRef"]) == map && "name" in oldObject["spec"]["userRef"] && oldObject["spec"]["userRef"]["name"] != null ? oldObject["spec"]["userRef"]["name"] : '') || (type(object) == map && "spec" in object && type(object["spec"]) == map && "userRef" in object["spec"] && type(object["spec"]["userRef"]) == map && "namespace" in object["spec"]["userRef"] && object["spec"]["userRef"]["namespace"] != null ? object["spec"]["userRef"]["namespace"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "userRef" in oldObject["spec"] && type(oldObject["spec"]["userRef"]) == map && "namespace" in oldObject["spec"]["userRef"] && oldObject["spec"]["userRef"]["namespace"] != null ? oldObject["spec"]["userRef"]["namespace"] : '') || (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "annotations" in object["metadata"] && type(object["metadata"]["annotations"]) == map && "warrantgate.dev/user-named-by" in object["metadata"]["annotations"] && object["metadata"]["annotations"]["warrantgate.dev/user-named-by"] != null ? object["metadata"]["annotations"]["warrantgate.dev/user-named-by"] : '') != (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "annotations" in oldObject["metadata"] && type(oldObject["metadata"]["annotations"]) == map && "warrantgate.dev/user-named-by" in oldObject["metadata"]["annotations"] && oldObject["metadata"]["annotations"]["warrantgate.dev/user-named-by"] != null ? oldObject["metadata"]["annotations"]["warrantgate.dev/user-named-by"] : '')
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: Ignore
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  reinvocationPolicy: IfNeeded
  rules:
  - apiGroups:
    - infrastructure.cluster.x-k8s.io
    apiVersions:
    - v1beta1
    operations:
    - CREATE
    - UPDATE
    resources:
    - cloudsigmaclusters
    scope: '*'
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" (dig "cluster" "impersonation" dict $config)) }}{{ $failurePolicy := . }}
{{- if eq (include "warrantgate.mode" (dict "part" (dig "cluster" "impersonation" dict $config))) "Enforce" }}
- name: secrets.record.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/cluster/record") | nindent 4 }}
  matchConditions:
  - name: names-another-user
    expression: |-
      ((type(object) == map && "data" in object && type(object["data"]) == map && "userEmail" in object["data"] && object["data"]["userEmail"] != null ? object["data"]["userEmail"] : '') != '' && (type(object) == map && "data" in object && type(object["data"]) == map && "userEmail" in object["data"] && object["data"]["userEmail"] != null ? object["data"]["userEmail"] : '') != (type(oldObject) == map && "data" in oldObject && type(oldObject["data"]) == map && "userEmail" in oldObject["data"] && oldObject["data"]["userEmail"] != null ? oldObject["data"]["userEmail"] : '')) || (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "annotations" in object["metadata"] && type(object["metadata"]["annotations"]) == map && "warrantgate.dev/user-named-by" in object["metadata"]["annotations"] && object["metadata"]["annotations"]["warrantgate.dev/user-named-by"] != null ? object["metadata"]["annotations"]["warrantgate.dev/user-named-by"] : '') != (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "annotations" in oldObject["metadata"] && type(oldObject["metadata"]["annotations"]) == map && "warrantgate.dev/user-named-by" in oldObject["metadata"]["annotations"] && oldObject["metadata"]["annotations"]["warrantgate.dev/user-named-by"] != null ? oldObject["metadata"]["annotations"]["warrantgate.dev/user-named-by"] : '')
{{- if $exempt }}
  - name: namespace-is-not-exempt
    expression: |-
      !(request.namespace in [{{ quote (first $exempt) }}{{ range rest $exempt }}, {{ quote . }}{{ end }}])
{{- end }}
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: Ignore
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  reinvocationPolicy: IfNeeded
  rules:
  - apiGroups:
    - ""
    apiVersions:
    - v1
    operations:
    - CREATE
    - UPDATE
    resources:
    - secrets
    scope: '*'
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- end }}
{{- end -}}

{{- define "warrantgate.validatingHooks" -}}
{{- $config := .Values.config -}}
{{- $exempt := dig "cluster" "exemptNamespaces" list $config -}}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" $config.controllerManager "selected" true) }}{{ $failurePolicy := . }}
{{- with $config.controllerManager.selector }}
- name: controller-manager-integrity.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/controllermanager/integrity") | nindent 4 }}
  matchConditions:
  - name: not-being-deleted
    expression: |-
      oldObject == null || oldObject.metadata.?deletionTimestamp.orValue(null) == null
  - name: changes-pods-or-labels
    expression: |-
      oldObject == null || object.?spec.?template != oldObject.?spec.?template || (object.metadata.?labels.orValue(null) == null ? {} : object.metadata.labels) != (oldObject.metadata.?labels.orValue(null) == null ? {} : oldObject.metadata.labels)
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  objectSelector: {{ toJson . }}
  failurePolicy: {{ $failurePolicy }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  rules:
  - apiGroups:
    - apps
    apiVersions:
    - v1
    operations:
    - CREATE
    - UPDATE
    resources:
    - deployments
    - daemonsets
    - daemonsets/status
    - statefulsets
    - statefulsets/status
    scope: Namespaced
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" $config.controllerManager "selected" true) }}{{ $failurePolicy := . }}
{{- with include "warrantgate.objectNames" (dig "controllerManager" "objects" list $config) | fromJsonArray }}{{ $names := . }}
- name: named-controller-manager-integrity.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/controllermanager/integrity") | nindent 4 }}
  matchConditions:
  - name: names-a-controller-manager
    expression: |-
      request.namespace + '/' + object.metadata.?name.orValue('') in [{{ quote (first $names) }}{{ range rest $names }}, {{ quote . }}{{ end }}]
  - name: not-being-deleted
    expression: |-
      oldObject == null || oldObject.metadata.?deletionTimestamp.orValue(null) == null
  - name: changes-pods-or-labels
    expression: |-
      oldObject == null || object.?spec.?template != oldObject.?spec.?template || (object.metadata.?labels.orValue(null) == null ? {} : object.metadata.labels) != (oldObject.metadata.?labels.orValue(null) == null ? {} : oldObject.metadata.labels)
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: {{ $failurePolicy }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  rules:
  - apiGroups:
    - apps
    apiVersions:
    - v1
    operations:
    - CREATE
    - UPDATE
    resources:
    - deployments
    - daemonsets
    - daemonsets/status
    - statefulsets
    - statefulsets/status
    scope: Namespaced
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" $config.machine) }}{{ $failurePolicy := . }}
- name: cloudsigmamachines.machine.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/machine/ownership") | nindent 4 }}
  matchConditions:
  - name: changes-a-claim
    expression: |-
      [(type(object) == map && "metadata" in object && type(object["metadata"]) == map && "labels" in object["metadata"] && type(object["metadata"]["labels"]) == map && "cluster.x-k8s.io/cluster-name" in object["metadata"]["labels"] && object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] != null ? object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] : '') != (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "labels" in oldObject["metadata"] && type(oldObject["metadata"]["labels"]) == map && "cluster.x-k8s.io/cluster-name" in oldObject["metadata"]["labels"] && oldObject["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] != null ? oldObject["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] : '') || ((type((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) != list ? [] : size((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) > 64 ? (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '') : (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '').filter(r, type(r) == map && 'kind' in r && r['kind'] == "Machine" && 'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith("cluster.x-k8s.io/")).map(r, 'name' in r ? r['name'] : '')) != [] && (type((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) != list ? [] : size((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) > 64 ? (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '') : (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '').filter(r, type(r) == map && 'kind' in r && r['kind'] == "Machine" && 'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith("cluster.x-k8s.io/")).map(r, 'name' in r ? r['name'] : '')) != (type((type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '')) != list ? [] : size((type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '')) > 64 ? (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '') : (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '').filter(r, type(r) == map && 'kind' in r && r['kind'] == "Machine" && 'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith("cluster.x-k8s.io/")).map(r, 'name' in r ? r['name'] : '')))].exists(moves, !(!moves && (type(oldObject) == map && "status" in oldObject && type(oldObject["status"]) == map && "instanceID" in oldObject["status"] && oldObject["status"]["instanceID"] != null ? oldObject["status"]["instanceID"] : '') == '' && (type(oldObject) == map && (!("status" in oldObject) || oldObject["status"] == null || type(oldObject["status"]) == map && (!("instanceID" in oldObject["status"]) || oldObject["status"]["instanceID"] == null || type(oldObject["status"]["instanceID"]) == string))) && (type(oldObject) == map && (!("spec" in oldObject) || oldObject["spec"] == null || type(oldObject["spec"]) == map && (!("providerID" in oldObject["spec"]) || oldObject["spec"]["providerID"] == null || type(oldObject["spec"]["providerID"]) == string))) && (type(object) == map && (!("status" in object) || object["status"] == null || type(object["status"]) == map && (!("instanceID" in object["status"]) || object["status"]["instanceID"] == null || type(object["status"]["instanceID"]) == string))) && (type(object) == map && (!("spec" in object) || object["spec"] == null || type(object["spec"]) == map && (!("providerID" in object["spec"]) || object["spec"]["providerID"] == null || type(object["spec"]["providerID"]) == string))) && (((type(object) == map && "status" in object && type(object["status"]) == map && "instanceID" in object["status"] && object["status"]["instanceID"] != null ? object["status"]["instanceID"] : '') != '' && (type(object) == map && "status" in object && type(object["status"]) == map && "instanceID" in object["status"] && object["status"]["instanceID"] != null ? object["status"]["instanceID"] : '') != (type(oldObject) == map && "status" in oldObject && type(oldObject["status"]) == map && "instanceID" in oldObject["status"] && oldObject["status"]["instanceID"] != null ? oldObject["status"]["instanceID"] : '')) || (((type(object) == map && "spec" in object && type(object["spec"]) == map && "providerID" in object["spec"] && object["spec"]["providerID"] != null ? object["spec"]["providerID"] : '') != '' && (type(object) == map && "spec" in object && type(object["spec"]) == map && "providerID" in object["spec"] && object["spec"]["providerID"] != null ? object["spec"]["providerID"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "providerID" in oldObject["spec"] && oldObject["spec"]["providerID"] != null ? oldObject["spec"]["providerID"] : '')) && ![(type(oldObject) == map && "status" in oldObject && type(oldObject["status"]) == map && "instanceID" in oldObject["status"] && oldObject["status"]["instanceID"] != null ? oldObject["status"]["instanceID"] : '')].exists(id, type(id) == string && size(id) == 36 && id != '00000000-0000-0000-0000-000000000000' && id.matches(r'^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$') && (type(object) == map && "spec" in object && type(object["spec"]) == map && "providerID" in object["spec"] && object["spec"]["providerID"] != null ? object["spec"]["providerID"] : '') == 'cloudsigma://' + id)))) && (((type(object) == map && "status" in object && type(object["status"]) == map && "instanceID" in object["status"] && object["status"]["instanceID"] != null ? object["status"]["instanceID"] : '') != '' && (type(object) == map && "status" in object && type(object["status"]) == map && "instanceID" in object["status"] && object["status"]["instanceID"] != null ? object["status"]["instanceID"] : '') != (type(oldObject) == map && "status" in oldObject && type(oldObject["status"]) == map && "instanceID" in oldObject["status"] && oldObject["status"]["instanceID"] != null ? oldObject["status"]["instanceID"] : '')) || (((type(object) == map && "spec" in object && type(object["spec"]) == map && "providerID" in object["spec"] && object["spec"]["providerID"] != null ? object["spec"]["providerID"] : '') != '' && (type(object) == map && "spec" in object && type(object["spec"]) == map && "providerID" in object["spec"] && object["spec"]["providerID"] != null ? object["spec"]["providerID"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "providerID" in oldObject["spec"] && oldObject["spec"]["providerID"] != null ? oldObject["spec"]["providerID"] : '')) && ![(type(oldObject) == map && "status" in oldObject && type(oldObject["status"]) == map && "instanceID" in oldObject["status"] && oldObject["status"]["instanceID"] != null ? oldObject["status"]["instanceID"] : '')].exists(id, type(id) == string && size(id) == 36 && id != '00000000-0000-0000-0000-000000000000' && id.matches(r'^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$') && (type(object) == map && "spec" in object && type(object["spec"]) == map && "providerID" in object["spec"] && object["spec"]["providerID"] != null ? object["spec"]["providerID"] : '') == 'cloudsigma://' + id)) || (((type(object) == map && "status" in object && type(object["status"]) == map && "instanceID" in object["status"] && object["status"]["instanceID"] != null ? object["status"]["instanceID"] : '') != '' || (type(object) == map && "spec" in object && type(object["spec"]) == map && "providerID" in object["spec"] && object["spec"]["providerID"] != null ? object["spec"]["providerID"] : '') != '') && (moves))))
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: {{ $failurePolicy }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  rules:
  - apiGroups:
    - infrastructure.cluster.x-k8s.io
    apiVersions:
    - v1beta1
    operations:
    - CREATE
    - UPDATE
    resources:
    - cloudsigmamachines
    - cloudsigmamachines/status
    scope: '*'
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" $config.machine) }}{{ $failurePolicy := . }}
{{- if dig "openStack" "authURLs" list $config }}
- name: openstackmachines.machine.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/machine/ownership") | nindent 4 }}
  matchConditions:
  - name: changes-a-claim
    expression: |-
      [(type(object) == map && "metadata" in object && type(object["metadata"]) == map && "labels" in object["metadata"] && type(object["metadata"]["labels"]) == map && "cluster.x-k8s.io/cluster-name" in object["metadata"]["labels"] && object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] != null ? object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] : '') != (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "labels" in oldObject["metadata"] && type(oldObject["metadata"]["labels"]) == map && "cluster.x-k8s.io/cluster-name" in oldObject["metadata"]["labels"] && oldObject["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] != null ? oldObject["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] : '') || ((type((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) != list ? [] : size((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) > 64 ? (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '') : (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '').filter(r, type(r) == map && 'kind' in r && r['kind'] == "Machine" && 'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith("cluster.x-k8s.io/")).map(r, 'name' in r ? r['name'] : '')) != [] && (type((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) != list ? [] : size((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) > 64 ? (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '') : (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '').filter(r, type(r) == map && 'kind' in r && r['kind'] == "Machine" && 'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith("cluster.x-k8s.io/")).map(r, 'name' in r ? r['name'] : '')) != (type((type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '')) != list ? [] : size((type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '')) > 64 ? (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '') : (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '').filter(r, type(r) == map && 'kind' in r && r['kind'] == "Machine" && 'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith("cluster.x-k8s.io/")).map(r, 'name' in r ? r['name'] : ''))) || (type(object) == map && "spec" in object && type(object["spec"]) == map && "identityRef" in object["spec"] && type(object["spec"]["identityRef"]) == map && "type" in object["spec"]["identityRef"] && object["spec"]["identityRef"]["type"] != null ? object["spec"]["identityRef"]["type"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "identityRef" in oldObject["spec"] && type(oldObject["spec"]["identityRef"]) == map && "type" in oldObject["spec"]["identityRef"] && oldObject["spec"]["identityRef"]["type"] != null ? oldObject["spec"]["identityRef"]["type"] : '') || (type(object) == map && "spec" in object && type(object["spec"]) == map && "identityRef" in object["spec"] && type(object["spec"]["identityRef"]) == map && "name" in object["spec"]["identityRef"] && object["spec"]["identityRef"]["name"] != null ? object["spec"]["identityRef"]["name"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "identityRef" in oldObject["spec"] && type(oldObject["spec"]["identityRef"]) == map && "name" in oldObject["spec"]["identityRef"] && oldObject["spec"]["identityRef"]["name"] != null ? oldObject["spec"]["identityRef"]["name"] : '') || (type(object) == map && "spec" in object && type(object["spec"]) == map && "identityRef" in object["spec"] && type(object["spec"]["identityRef"]) == map && "cloudName" in object["spec"]["identityRef"] && object["spec"]["identityRef"]["cloudName"] != null ? object["spec"]["identityRef"]["cloudName"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "identityRef" in oldObject["spec"] && type(oldObject["spec"]["identityRef"]) == map && "cloudName" in oldObject["spec"]["identityRef"] && oldObject["spec"]["identityRef"]["cloudName"] != null ? oldObject["spec"]["identityRef"]["cloudName"] : '') || (type(object) == map && "spec" in object && type(object["spec"]) == map && "identityRef" in object["spec"] && type(object["spec"]["identityRef"]) == map && "region" in object["spec"]["identityRef"] && object["spec"]["identityRef"]["region"] != null ? object["spec"]["identityRef"]["region"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "identityRef" in oldObject["spec"] && type(oldObject["spec"]["identityRef"]) == map && "region" in oldObject["spec"]["identityRef"] && oldObject["spec"]["identityRef"]["region"] != null ? oldObject["spec"]["identityRef"]["region"] : '')].exists(moves, !(!moves && (type(oldObject) == map && "status" in oldObject && type(oldObject["status"]) == map && "instanceID" in oldObject["status"] && oldObject["status"]["instanceID"] != null ? oldObject["status"]["instanceID"] : '') == '' && (type(oldObject) == map && (!("status" in oldObject) || oldObject["status"] == null || type(oldObject["status"]) == map && (!("instanceID" in oldObject["status"]) || oldObject["status"]["instanceID"] == null || type(oldObject["status"]["instanceID"]) == string))) && (type(oldObject) == map && (!("spec" in oldObject) || oldObject["spec"] == null || type(oldObject["spec"]) == map && (!("providerID" in oldObject["spec"]) || oldObject["spec"]["providerID"] == null || type(oldObject["spec"]["providerID"]) == string))) && (type(object) == map && (!("status" in object) || object["status"] == null || type(object["status"]) == map && (!("instanceID" in object["status"]) || object["status"]["instanceID"] == null || type(object["status"]["instanceID"]) == string))) && (type(object) == map && (!("spec" in object) || object["spec"] == null || type(object["spec"]) == map && (!("providerID" in object["spec"]) || object["spec"]["providerID"] == null || type(object["spec"]["providerID"]) == string))) && (((type(object) == map && "status" in object && type(object["status"]) == map && "instanceID" in object["status"] && object["status"]["instanceID"] != null ? object["status"]["instanceID"] : '') != '' && (type(object) == map && "status" in object && type(object["status"]) == map && "instanceID" in object["status"] && object["status"]["instanceID"] != null ? object["status"]["instanceID"] : '') != (type(oldObject) == map && "status" in oldObject && type(oldObject["status"]) == map && "instanceID" in oldObject["status"] && oldObject["status"]["instanceID"] != null ? oldObject["status"]["instanceID"] : '')) || (((type(object) == map && "spec" in object && type(object["spec"]) == map && "providerID" in object["spec"] && object["spec"]["providerID"] != null ? object["spec"]["providerID"] : '') != '' && (type(object) == map && "spec" in object && type(object["spec"]) == map && "providerID" in object["spec"] && object["spec"]["providerID"] != null ? object["spec"]["providerID"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "providerID" in oldObject["spec"] && oldObject["spec"]["providerID"] != null ? oldObject["spec"]["providerID"] : '')) && ![(type(oldObject) == map && "status" in oldObject && type(oldObject["status"]) == map && "instanceID" in oldObject["status"] && oldObject["status"]["instanceID"] != null ? oldObject["status"]["instanceID"] : '')].exists(id, type(id) == string && size(id) == 36 && id != '00000000-0000-0000-0000-000000000000' && id.matches(r'^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$') && (type(object) == map && "spec" in object && type(object["spec"]) == map && "providerID" in object["spec"] && object["spec"]["providerID"] != null ? object["spec"]["providerID"] : '') == 'openstack:///' + id)))) && (((type(object) == map && "status" in object && type(object["status"]) == map && "instanceID" in object["status"] && object["status"]["instanceID"] != null ? object["status"]["instanceID"] : '') != '' && (type(object) == map && "status" in object && type(object["status"]) == map && "instanceID" in object["status"] && object["status"]["instanceID"] != null ? object["status"]["instanceID"] : '') != (type(oldObject) == map && "status" in oldObject && type(oldObject["status"]) == map && "instanceID" in oldObject["status"] && oldObject["status"]["instanceID"] != null ? oldObject["status"]["instanceID"] : '')) || (((type(object) == map && "spec" in object && type(object["spec"]) == map && "providerID" in object["spec"] && object["spec"]["providerID"] != null ? object["spec"]["providerID"] : '') != '' && (type(object) == map && "spec" in object && type(object["spec"]) == map && "providerID" in object["spec"] && object["spec"]["providerID"] != null ? object["spec"]["providerID"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "providerID" in oldObject["spec"] && oldObject["spec"]["providerID"] != null ? oldObject["spec"]["providerID"] : '')) && ![(type(oldObject) == map && "status" in oldObject && type(oldObject["status"]) == map && "instanceID" in oldObject["status"] && oldObject["status"]["instanceID"] != null ? oldObject["status"]["instanceID"] : '')].exists(id, type(id) == string && size(id) == 36 && id != '00000000-0000-0000-0000-000000000000' && id.matches(r'^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$') && (type(object) == map && "spec" in object && type(object["spec"]) == map && "providerID" in object["spec"] && object["spec"]["providerID"] != null ? object["spec"]["providerID"] : '') == 'openstack:///' + id)) || (((type(object) == map && "status" in object && type(object["status"]) == map && "instanceID" in object["status"] && object["status"]["instanceID"] != null ? object["status"]["instanceID"] : '') != '' || (type(object) == map && "spec" in object && type(object["spec"]) == map && "providerID" in object["spec"] && object["spec"]["providerID"] != null ? object["spec"]["providerID"] : '') != '') && (moves))))
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: {{ $failurePolicy }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  rules:
  - apiGroups:
    - infrastructure.cluster.x-k8s.io
    apiVersions:
    - v1beta1
    operations:
    - CREATE
    - UPDATE
    resources:
    - openstackmachines
    - openstackmachines/status
    scope: '*'
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" $config.machine) }}{{ $failurePolicy := . }}
{{- range $kind := dig "machine" "kinds" list $config }}
- name: {{ $kind.resource }}.machine.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/machine/ownership") | nindent 4 }}
  matchConditions:
  - name: changes-a-claim
    expression: |-
      [(type(object) == map && "metadata" in object && type(object["metadata"]) == map && "labels" in object["metadata"] && type(object["metadata"]["labels"]) == map && "cluster.x-k8s.io/cluster-name" in object["metadata"]["labels"] && object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] != null ? object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] : '') != (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "labels" in oldObject["metadata"] && type(oldObject["metadata"]["labels"]) == map && "cluster.x-k8s.io/cluster-name" in oldObject["metadata"]["labels"] && oldObject["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] != null ? oldObject["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] : '') || ((type((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) != list ? [] : size((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) > 64 ? (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '') : (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '').filter(r, type(r) == map && 'kind' in r && r['kind'] == "Machine" && 'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith("cluster.x-k8s.io/")).map(r, 'name' in r ? r['name'] : '')) != [] && (type((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) != list ? [] : size((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) > 64 ? (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '') : (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '').filter(r, type(r) == map && 'kind' in r && r['kind'] == "Machine" && 'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith("cluster.x-k8s.io/")).map(r, 'name' in r ? r['name'] : '')) != (type((type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '')) != list ? [] : size((type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '')) > 64 ? (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '') : (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '').filter(r, type(r) == map && 'kind' in r && r['kind'] == "Machine" && 'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith("cluster.x-k8s.io/")).map(r, 'name' in r ? r['name'] : ''))){{ if $kind.identityRefPath }} || {{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." (print $kind.identityRefPath ".type"))) }} != {{ include "warrantgate.celField" (dict "object" "oldObject" "path" (splitList "." (print $kind.identityRefPath ".type"))) }} || {{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." (print $kind.identityRefPath ".name"))) }} != {{ include "warrantgate.celField" (dict "object" "oldObject" "path" (splitList "." (print $kind.identityRefPath ".name"))) }} || {{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." (print $kind.identityRefPath ".cloudName"))) }} != {{ include "warrantgate.celField" (dict "object" "oldObject" "path" (splitList "." (print $kind.identityRefPath ".cloudName"))) }} || {{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." (print $kind.identityRefPath ".region"))) }} != {{ include "warrantgate.celField" (dict "object" "oldObject" "path" (splitList "." (print $kind.identityRefPath ".region"))) }}{{ end }}].exists(moves, !(!moves && {{ include "warrantgate.celField" (dict "object" "oldObject" "path" (splitList "." ($kind.instanceIDPath | default "status.instanceID"))) }} == '' && {{ include "warrantgate.celReadable" (dict "object" "oldObject" "path" (splitList "." ($kind.instanceIDPath | default "status.instanceID"))) }} && {{ include "warrantgate.celReadable" (dict "object" "oldObject" "path" (splitList "." ($kind.providerIDPath | default "spec.providerID"))) }} && {{ include "warrantgate.celReadable" (dict "object" "object" "path" (splitList "." ($kind.instanceIDPath | default "status.instanceID"))) }} && {{ include "warrantgate.celReadable" (dict "object" "object" "path" (splitList "." ($kind.providerIDPath | default "spec.providerID"))) }} && (({{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." ($kind.instanceIDPath | default "status.instanceID"))) }} != '' && {{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." ($kind.instanceIDPath | default "status.instanceID"))) }} != {{ include "warrantgate.celField" (dict "object" "oldObject" "path" (splitList "." ($kind.instanceIDPath | default "status.instanceID"))) }}) || (({{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." ($kind.providerIDPath | default "spec.providerID"))) }} != '' && {{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." ($kind.providerIDPath | default "spec.providerID"))) }} != {{ include "warrantgate.celField" (dict "object" "oldObject" "path" (splitList "." ($kind.providerIDPath | default "spec.providerID"))) }}) && ![{{ include "warrantgate.celField" (dict "object" "oldObject" "path" (splitList "." ($kind.instanceIDPath | default "status.instanceID"))) }}].exists(id, type(id) == string && size(id) == 36 && id != '00000000-0000-0000-0000-000000000000' && id.matches(r'^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$') && {{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." ($kind.providerIDPath | default "spec.providerID"))) }} == '{{ if eq $kind.provider "openstack" }}openstack:///{{ else }}{{ $kind.provider }}://{{ end }}' + id)))) && (({{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." ($kind.instanceIDPath | default "status.instanceID"))) }} != '' && {{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." ($kind.instanceIDPath | default "status.instanceID"))) }} != {{ include "warrantgate.celField" (dict "object" "oldObject" "path" (splitList "." ($kind.instanceIDPath | default "status.instanceID"))) }}) || (({{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." ($kind.providerIDPath | default "spec.providerID"))) }} != '' && {{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." ($kind.providerIDPath | default "spec.providerID"))) }} != {{ include "warrantgate.celField" (dict "object" "oldObject" "path" (splitList "." ($kind.providerIDPath | default "spec.providerID"))) }}) && ![{{ include "warrantgate.celField" (dict "object" "oldObject" "path" (splitList "." ($kind.instanceIDPath | default "status.instanceID"))) }}].exists(id, type(id) == string && size(id) == 36 && id != '00000000-0000-0000-0000-000000000000' && id.matches(r'^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$') && {{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." ($kind.providerIDPath | default "spec.providerID"))) }} == '{{ if eq $kind.provider "openstack" }}openstack:///{{ else }}{{ $kind.provider }}://{{ end }}' + id)) || (({{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." ($kind.instanceIDPath | default "status.instanceID"))) }} != '' || {{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." ($kind.providerIDPath | default "spec.providerID"))) }} != '') && (moves))))
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: {{ $failurePolicy }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  rules:
  - apiGroups:
    - {{ quote $kind.group }}
    apiVersions:
    - {{ quote $kind.version }}
    operations:
    - CREATE
    - UPDATE
    resources:
    - {{ quote $kind.resource }}
    - {{ quote (printf "%s/status" $kind.resource) }}
    scope: '*'
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" $config.machine) }}{{ $failurePolicy := . }}
- name: first.cloudsigmamachines.machine.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/machine/ownership") | nindent 4 }}
  matchConditions:
  - name: first-claim
    expression: |-
      [(type(object) == map && "metadata" in object && type(object["metadata"]) == map && "labels" in object["metadata"] && type(object["metadata"]["labels"]) == map && "cluster.x-k8s.io/cluster-name" in object["metadata"]["labels"] && object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] != null ? object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] : '') != (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "labels" in oldObject["metadata"] && type(oldObject["metadata"]["labels"]) == map && "cluster.x-k8s.io/cluster-name" in oldObject["metadata"]["labels"] && oldObject["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] != null ? oldObject["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] : '') || ((type((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) != list ? [] : size((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) > 64 ? (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '') : (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '').filter(r, type(r) == map && 'kind' in r && r['kind'] == "Machine" && 'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith("cluster.x-k8s.io/")).map(r, 'name' in r ? r['name'] : '')) != [] && (type((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) != list ? [] : size((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) > 64 ? (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '') : (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '').filter(r, type(r) == map && 'kind' in r && r['kind'] == "Machine" && 'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith("cluster.x-k8s.io/")).map(r, 'name' in r ? r['name'] : '')) != (type((type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '')) != list ? [] : size((type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '')) > 64 ? (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '') : (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '').filter(r, type(r) == map && 'kind' in r && r['kind'] == "Machine" && 'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith("cluster.x-k8s.io/")).map(r, 'name' in r ? r['name'] : '')))].exists(moves, !moves && (type(oldObject) == map && "status" in oldObject && type(oldObject["status"]) == map && "instanceID" in oldObject["status"] && oldObject["status"]["instanceID"] != null ? oldObject["status"]["instanceID"] : '') == '' && (type(oldObject) == map && (!("status" in oldObject) || oldObject["status"] == null || type(oldObject["status"]) == map && (!("instanceID" in oldObject["status"]) || oldObject["status"]["instanceID"] == null || type(oldObject["status"]["instanceID"]) == string))) && (type(oldObject) == map && (!("spec" in oldObject) || oldObject["spec"] == null || type(oldObject["spec"]) == map && (!("providerID" in oldObject["spec"]) || oldObject["spec"]["providerID"] == null || type(oldObject["spec"]["providerID"]) == string))) && (type(object) == map && (!("status" in object) || object["status"] == null || type(object["status"]) == map && (!("instanceID" in object["status"]) || object["status"]["instanceID"] == null || type(object["status"]["instanceID"]) == string))) && (type(object) == map && (!("spec" in object) || object["spec"] == null || type(object["spec"]) == map && (!("providerID" in object["spec"]) || object["spec"]["providerID"] == null || type(object["spec"]["providerID"]) == string))) && (((type(object) == map && "status" in object && type(object["status"]) == map && "instanceID" in object["status"] && object["status"]["instanceID"] != null ? object["status"]["instanceID"] : '') != '' && (type(object) == map && "status" in object && type(object["status"]) == map && "instanceID" in object["status"] && object["status"]["instanceID"] != null ? object["status"]["instanceID"] : '') != (type(oldObject) == map && "status" in oldObject && type(oldObject["status"]) == map && "instanceID" in oldObject["status"] && oldObject["status"]["instanceID"] != null ? oldObject["status"]["instanceID"] : '')) || (((type(object) == map && "spec" in object && type(object["spec"]) == map && "providerID" in object["spec"] && object["spec"]["providerID"] != null ? object["spec"]["providerID"] : '') != '' && (type(object) == map && "spec" in object && type(object["spec"]) == map && "providerID" in object["spec"] && object["spec"]["providerID"] != null ? object["spec"]["providerID"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "providerID" in oldObject["spec"] && oldObject["spec"]["providerID"] != null ? oldObject["spec"]["providerID"] : '')) && ![(type(oldObject) == map && "status" in oldObject && type(oldObject["status"]) == map && "instanceID" in oldObject["status"] && oldObject["status"]["instanceID"] != null ? oldObject["status"]["instanceID"] : '')].exists(id, type(id) == string && size(id) == 36 && id != '00000000-0000-0000-0000-000000000000' && id.matches(r'^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$') && (type(object) == map && "spec" in object && type(object["spec"]) == map && "providerID" in object["spec"] && object["spec"]["providerID"] != null ? object["spec"]["providerID"] : '') == 'cloudsigma://' + id))))
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: {{ include "warrantgate.firstFailurePolicy" $ }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  rules:
  - apiGroups:
    - infrastructure.cluster.x-k8s.io
    apiVersions:
    - v1beta1
    operations:
    - CREATE
    - UPDATE
    resources:
    - cloudsigmamachines
    - cloudsigmamachines/status
    scope: '*'
  sideEffects: NoneOnDryRun
  timeoutSeconds: 10
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" $config.machine) }}{{ $failurePolicy := . }}
{{- if dig "openStack" "authURLs" list $config }}
- name: first.openstackmachines.machine.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/machine/ownership") | nindent 4 }}
  matchConditions:
  - name: first-claim
    expression: |-
      [(type(object) == map && "metadata" in object && type(object["metadata"]) == map && "labels" in object["metadata"] && type(object["metadata"]["labels"]) == map && "cluster.x-k8s.io/cluster-name" in object["metadata"]["labels"] && object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] != null ? object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] : '') != (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "labels" in oldObject["metadata"] && type(oldObject["metadata"]["labels"]) == map && "cluster.x-k8s.io/cluster-name" in oldObject["metadata"]["labels"] && oldObject["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] != null ? oldObject["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] : '') || ((type((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) != list ? [] : size((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) > 64 ? (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '') : (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '').filter(r, type(r) == map && 'kind' in r && r['kind'] == "Machine" && 'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith("cluster.x-k8s.io/")).map(r, 'name' in r ? r['name'] : '')) != [] && (type((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) != list ? [] : size((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) > 64 ? (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '') : (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '').filter(r, type(r) == map && 'kind' in r && r['kind'] == "Machine" && 'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith("cluster.x-k8s.io/")).map(r, 'name' in r ? r['name'] : '')) != (type((type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '')) != list ? [] : size((type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '')) > 64 ? (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '') : (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '').filter(r, type(r) == map && 'kind' in r && r['kind'] == "Machine" && 'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith("cluster.x-k8s.io/")).map(r, 'name' in r ? r['name'] : ''))) || (type(object) == map && "spec" in object && type(object["spec"]) == map && "identityRef" in object["spec"] && type(object["spec"]["identityRef"]) == map && "type" in object["spec"]["identityRef"] && object["spec"]["identityRef"]["type"] != null ? object["spec"]["identityRef"]["type"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "identityRef" in oldObject["spec"] && type(oldObject["spec"]["identityRef"]) == map && "type" in oldObject["spec"]["identityRef"] && oldObject["spec"]["identityRef"]["type"] != null ? oldObject["spec"]["identityRef"]["type"] : '') || (type(object) == map && "spec" in object && type(object["spec"]) == map && "identityRef" in object["spec"] && type(object["spec"]["identityRef"]) == map && "name" in object["spec"]["identityRef"] && object["spec"]["identityRef"]["name"] != null ? object["spec"]["identityRef"]["name"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "identityRef" in oldObject["spec"] && type(oldObject["spec"]["identityRef"]) == map && "name" in oldObject["spec"]["identityRef"] && oldObject["spec"]["identityRef"]["name"] != null ? oldObject["spec"]["identityRef"]["name"] : '') || (type(object) == map && "spec" in object && type(object["spec"]) == map && "identityRef" in object["spec"] && type(object["spec"]["identityRef"]) == map && "cloudName" in object["spec"]["identityRef"] && object["spec"]["identityRef"]["cloudName"] != null ? object["spec"]["identityRef"]["cloudName"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "identityRef" in oldObject["spec"] && type(oldObject["spec"]["identityRef"]) == map && "cloudName" in oldObject["spec"]["identityRef"] && oldObject["spec"]["identityRef"]["cloudName"] != null ? oldObject["spec"]["identityRef"]["cloudName"] : '') || (type(object) == map && "spec" in object && type(object["spec"]) == map && "identityRef" in object["spec"] && type(object["spec"]["identityRef"]) == map && "region" in object["spec"]["identityRef"] && object["spec"]["identityRef"]["region"] != null ? object["spec"]["identityRef"]["region"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "identityRef" in oldObject["spec"] && type(oldObject["spec"]["identityRef"]) == map && "region" in oldObject["spec"]["identityRef"] && oldObject["spec"]["identityRef"]["region"] != null ? oldObject["spec"]["identityRef"]["region"] : '')].exists(moves, !moves && (type(oldObject) == map && "status" in oldObject && type(oldObject["status"]) == map && "instanceID" in oldObject["status"] && oldObject["status"]["instanceID"] != null ? oldObject["status"]["instanceID"] : '') == '' && (type(oldObject) == map && (!("status" in oldObject) || oldObject["status"] == null || type(oldObject["status"]) == map && (!("instanceID" in oldObject["status"]) || oldObject["status"]["instanceID"] == null || type(oldObject["status"]["instanceID"]) == string))) && (type(oldObject) == map && (!("spec" in oldObject) || oldObject["spec"] == null || type(oldObject["spec"]) == map && (!("providerID" in oldObject["spec"]) || oldObject["spec"]["providerID"] == null || type(oldObject["spec"]["providerID"]) == string))) && (type(object) == map && (!("status" in object) || object["status"] == null || type(object["status"]) == map && (!("instanceID" in object["status"]) || object["status"]["instanceID"] == null || type(object["status"]["instanceID"]) == string))) && (type(object) == map && (!("spec" in object) || object["spec"] == null || type(object["spec"]) == map && (!("providerID" in object["spec"]) || object["spec"]["providerID"] == null || type(object["spec"]["providerID"]) == string))) && (((type(object) == map && "status" in object && type(object["status"]) == map && "instanceID" in object["status"] && object["status"]["instanceID"] != null ? object["status"]["instanceID"] : '') != '' && (type(object) == map && "status" in object && type(object["status"]) == map && "instanceID" in object["status"] && object["status"]["instanceID"] != null ? object["status"]["instanceID"] : '') != (type(oldObject) == map && "status" in oldObject && type(oldObject["status"]) == map && "instanceID" in oldObject["status"] && oldObject["status"]["instanceID"] != null ? oldObject["status"]["instanceID"] : '')) || (((type(object) == map && "spec" in object && type(object["spec"]) == map && "providerID" in object["spec"] && object["spec"]["providerID"] != null ? object["spec"]["providerID"] : '') != '' && (type(object) == map && "spec" in object && type(object["spec"]) == map && "providerID" in object["spec"] && object["spec"]["providerID"] != null ? object["spec"]["providerID"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "providerID" in oldObject["spec"] && oldObject["spec"]["providerID"] != null ? oldObject["spec"]["providerID"] : '')) && ![(type(oldObject) == map && "status" in oldObject && type(oldObject["status"]) == map && "instanceID" in oldObject["status"] && oldObject["status"]["instanceID"] != null ? oldObject["status"]["instanceID"] : '')].exists(id, type(id) == string && size(id) == 36 && id != '00000000-0000-0000-0000-000000000000' && id.matches(r'^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$') && (type(object) == map && "spec" in object && type(object["spec"]) == map && "providerID" in object["spec"] && object["spec"]["providerID"] != null ? object["spec"]["providerID"] : '') == 'openstack:///' + id))))
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: {{ include "warrantgate.firstFailurePolicy" $ }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  rules:
  - apiGroups:
    - infrastructure.cluster.x-k8s.io
    apiVersions:
    - v1beta1
    operations:
    - CREATE
    - UPDATE
    resources:
    - openstackmachines
    - openstackmachines/status
    scope: '*'
  sideEffects: NoneOnDryRun
  timeoutSeconds: 10
{{- end }}
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" $config.machine) }}{{ $failurePolicy := . }}
{{- range $kind := dig "machine" "kinds" list $config }}
- name: first.{{ $kind.resource }}.machine.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/machine/ownership") | nindent 4 }}
  matchConditions:
  - name: first-claim
    expression: |-
      [(type(object) == map && "metadata" in object && type(object["metadata"]) == map && "labels" in object["metadata"] && type(object["metadata"]["labels"]) == map && "cluster.x-k8s.io/cluster-name" in object["metadata"]["labels"] && object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] != null ? object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] : '') != (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "labels" in oldObject["metadata"] && type(oldObject["metadata"]["labels"]) == map && "cluster.x-k8s.io/cluster-name" in oldObject["metadata"]["labels"] && oldObject["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] != null ? oldObject["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] : '') || ((type((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) != list ? [] : size((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) > 64 ? (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '') : (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '').filter(r, type(r) == map && 'kind' in r && r['kind'] == "Machine" && 'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith("cluster.x-k8s.io/")).map(r, 'name' in r ? r['name'] : '')) != [] && (type((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) != list ? [] : size((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '')) > 64 ? (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '') : (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "ownerReferences" in object["metadata"] && object["metadata"]["ownerReferences"] != null ? object["metadata"]["ownerReferences"] : '').filter(r, type(r) == map && 'kind' in r && r['kind'] == "Machine" && 'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith("cluster.x-k8s.io/")).map(r, 'name' in r ? r['name'] : '')) != (type((type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '')) != list ? [] : size((type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '')) > 64 ? (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '') : (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "ownerReferences" in oldObject["metadata"] && oldObject["metadata"]["ownerReferences"] != null ? oldObject["metadata"]["ownerReferences"] : '').filter(r, type(r) == map && 'kind' in r && r['kind'] == "Machine" && 'apiVersion' in r && type(r['apiVersion']) == string && r['apiVersion'].startsWith("cluster.x-k8s.io/")).map(r, 'name' in r ? r['name'] : ''))){{ if $kind.identityRefPath }} || {{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." (print $kind.identityRefPath ".type"))) }} != {{ include "warrantgate.celField" (dict "object" "oldObject" "path" (splitList "." (print $kind.identityRefPath ".type"))) }} || {{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." (print $kind.identityRefPath ".name"))) }} != {{ include "warrantgate.celField" (dict "object" "oldObject" "path" (splitList "." (print $kind.identityRefPath ".name"))) }} || {{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." (print $kind.identityRefPath ".cloudName"))) }} != {{ include "warrantgate.celField" (dict "object" "oldObject" "path" (splitList "." (print $kind.identityRefPath ".cloudName"))) }} || {{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." (print $kind.identityRefPath ".region"))) }} != {{ include "warrantgate.celField" (dict "object" "oldObject" "path" (splitList "." (print $kind.identityRefPath ".region"))) }}{{ end }}].exists(moves, !moves && {{ include "warrantgate.celField" (dict "object" "oldObject" "path" (splitList "." ($kind.instanceIDPath | default "status.instanceID"))) }} == '' && {{ include "warrantgate.celReadable" (dict "object" "oldObject" "path" (splitList "." ($kind.instanceIDPath | default "status.instanceID"))) }} && {{ include "warrantgate.celReadable" (dict "object" "oldObject" "path" (splitList "." ($kind.providerIDPath | default "spec.providerID"))) }} && {{ include "warrantgate.celReadable" (dict "object" "object" "path" (splitList "." ($kind.instanceIDPath | default "status.instanceID"))) }} && {{ include "warrantgate.celReadable" (dict "object" "object" "path" (splitList "." ($kind.providerIDPath | default "spec.providerID"))) }} && (({{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." ($kind.instanceIDPath | default "status.instanceID"))) }} != '' && {{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." ($kind.instanceIDPath | default "status.instanceID"))) }} != {{ include "warrantgate.celField" (dict "object" "oldObject" "path" (splitList "." ($kind.instanceIDPath | default "status.instanceID"))) }}) || (({{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." ($kind.providerIDPath | default "spec.providerID"))) }} != '' && {{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." ($kind.providerIDPath | default "spec.providerID"))) }} != {{ include "warrantgate.celField" (dict "object" "oldObject" "path" (splitList "." ($kind.providerIDPath | default "spec.providerID"))) }}) && ![{{ include "warrantgate.celField" (dict "object" "oldObject" "path" (splitList "." ($kind.instanceIDPath | default "status.instanceID"))) }}].exists(id, type(id) == string && size(id) == 36 && id != '00000000-0000-0000-0000-000000000000' && id.matches(r'^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$') && {{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." ($kind.providerIDPath | default "spec.providerID"))) }} == '{{ if eq $kind.provider "openstack" }}openstack:///{{ else }}{{ $kind.provider }}://{{ end }}' + id))))
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: {{ include "warrantgate.firstFailurePolicy" $ }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  rules:
  - apiGroups:
    - {{ quote $kind.group }}
    apiVersions:
    - {{ quote $kind.version }}
    operations:
    - CREATE
    - UPDATE
    resources:
    - {{ quote $kind.resource }}
    - {{ quote (printf "%s/status" $kind.resource) }}
    scope: '*'
  sideEffects: NoneOnDryRun
  timeoutSeconds: 10
{{- end }}
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" $config.machine) }}{{ $failurePolicy := . }}
- name: owner.machine.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/machine/ownership") | nindent 4 }}
  matchConditions:
  - name: changes-the-cluster
    expression: |-
      (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "labels" in object["metadata"] && type(object["metadata"]["labels"]) == map && "cluster.x-k8s.io/cluster-name" in object["metadata"]["labels"] && object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] != null ? object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] : '') != (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "labels" in oldObject["metadata"] && type(oldObject["metadata"]["labels"]) == map && "cluster.x-k8s.io/cluster-name" in oldObject["metadata"]["labels"] && oldObject["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] != null ? oldObject["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] : '')
  - name: has-a-gated-machine
    expression: |-
      [(type(object) == map && "spec" in object && type(object["spec"]) == map && "infrastructureRef" in object["spec"] && object["spec"]["infrastructureRef"] != null ? object["spec"]["infrastructureRef"] : ''), (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "infrastructureRef" in oldObject["spec"] && oldObject["spec"]["infrastructureRef"] != null ? oldObject["spec"]["infrastructureRef"] : '')].map(ref, ['kind', 'apiGroup', 'apiVersion'].map(name, type(ref) == map && name in ref && type(ref[name]) == string ? ref[name] : '')).exists(ref, ref[0] == '' || ref[1] == '' && ref[2] == '' || [["infrastructure.cluster.x-k8s.io", "CloudSigmaMachine"]{{ if dig "openStack" "authURLs" list $config }}, ["infrastructure.cluster.x-k8s.io", "OpenStackMachine"]{{ end }}{{ range $kind := dig "machine" "kinds" list $config }}, [{{ quote $kind.group }}, {{ quote $kind.kind }}]{{ end }}].exists(kind, ref[0] == kind[1] && (ref[1] == kind[0] || ref[2].startsWith(kind[0] + '/'))))
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: {{ $failurePolicy }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  rules:
  - apiGroups:
    - cluster.x-k8s.io
    apiVersions:
    - '*'
    operations:
    - UPDATE
    resources:
    - machines
    - machines/status
    scope: '*'
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" (dig "cluster" "impersonation" dict $config)) }}{{ $failurePolicy := . }}
- name: cloudsigmaclusters.cluster.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/cluster/impersonation") | nindent 4 }}
  matchConditions:
  - name: names-another-user
    expression: |-
      (type(object) == map && "spec" in object && type(object["spec"]) == map && "userEmail" in object["spec"] && object["spec"]["userEmail"] != null ? object["spec"]["userEmail"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "userEmail" in oldObject["spec"] && oldObject["spec"]["userEmail"] != null ? oldObject["spec"]["userEmail"] : '') || (type(object) == map && "spec" in object && type(object["spec"]) == map && "userRef" in object["spec"] && type(object["spec"]["userRef"]) == map && "name" in object["spec"]["userRef"] && object["spec"]["userRef"]["name"] != null ? object["spec"]["userRef"]["name"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "userRef" in oldObject["spec"] && type(oldObject["spec"]["userRef"]) == map && "name" in oldObject["spec"]["userRef"] && oldObject["spec"]["userRef"]["name"] != null ? oldObject["spec"]["userRef"]["name"] : '') || (type(object) == map && "spec" in object && type(object["spec"]) == map && "userRef" in object["spec"] && type(object["spec"]["userRef"]) == map && "namespace" in object["spec"]["userRef"] && object["spec"]["userRef"]["namespace"] != null ? object["spec"]["userRef"]["namespace"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "userRef" in oldObject["spec"] && type(oldObject["spec"]["userRef"]) == map && "namespace" in oldObject["spec"]["userRef"] && oldObject["spec"]["userRef"]["namespace"] != null ? oldObject["spec"]["userRef"]["namespace"] : '') || (type(object) == map && "spec" in object && type(object["spec"]) == map && "region" in object["spec"] && object["spec"]["region"] != null ? object["spec"]["region"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "region" in oldObject["spec"] && oldObject["spec"]["region"] != null ? oldObject["spec"]["region"] : '') || ((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "annotations" in object["metadata"] && type(object["metadata"]["annotations"]) == map && "warrantgate.dev/user-named-by" in object["metadata"]["annotations"] && object["metadata"]["annotations"]["warrantgate.dev/user-named-by"] != null ? object["metadata"]["annotations"]["warrantgate.dev/user-named-by"] : '') != '' && (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "annotations" in object["metadata"] && type(object["metadata"]["annotations"]) == map && "warrantgate.dev/user-named-by" in object["metadata"]["annotations"] && object["metadata"]["annotations"]["warrantgate.dev/user-named-by"] != null ? object["metadata"]["annotations"]["warrantgate.dev/user-named-by"] : '') != (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "annotations" in oldObject["metadata"] && type(oldObject["metadata"]["annotations"]) == map && "warrantgate.dev/user-named-by" in oldObject["metadata"]["annotations"] && oldObject["metadata"]["annotations"]["warrantgate.dev/user-named-by"] != null ? oldObject["metadata"]["annotations"]["warrantgate.dev/user-named-by"] : ''))
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: {{ $failurePolicy }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  rules:
  - apiGroups:
    - infrastructure.cluster.x-k8s.io
    apiVersions:
    - v1beta1
    operations:
    - CREATE
    - UPDATE
    resources:
    - cloudsigmaclusters
    scope: '*'
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" (dig "cluster" "impersonation" dict $config)) }}{{ $failurePolicy := . }}
- name: kdcclusters.cluster.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/cluster/impersonation") | nindent 4 }}
  matchConditions:
  - name: names-another-user
    expression: |-
      ((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "annotations" in object["metadata"] && type(object["metadata"]["annotations"]) == map && "cloudsigma.com/owner-email" in object["metadata"]["annotations"] && object["metadata"]["annotations"]["cloudsigma.com/owner-email"] != null ? object["metadata"]["annotations"]["cloudsigma.com/owner-email"] : '') != '' && (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "annotations" in object["metadata"] && type(object["metadata"]["annotations"]) == map && "cloudsigma.com/owner-email" in object["metadata"]["annotations"] && object["metadata"]["annotations"]["cloudsigma.com/owner-email"] != null ? object["metadata"]["annotations"]["cloudsigma.com/owner-email"] : '') != (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "annotations" in oldObject["metadata"] && type(oldObject["metadata"]["annotations"]) == map && "cloudsigma.com/owner-email" in oldObject["metadata"]["annotations"] && oldObject["metadata"]["annotations"]["cloudsigma.com/owner-email"] != null ? oldObject["metadata"]["annotations"]["cloudsigma.com/owner-email"] : '')) || ((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "annotations" in object["metadata"] && type(object["metadata"]["annotations"]) == map && "kube-dc.com/owner-email" in object["metadata"]["annotations"] && object["metadata"]["annotations"]["kube-dc.com/owner-email"] != null ? object["metadata"]["annotations"]["kube-dc.com/owner-email"] : '') != '' && (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "annotations" in object["metadata"] && type(object["metadata"]["annotations"]) == map && "kube-dc.com/owner-email" in object["metadata"]["annotations"] && object["metadata"]["annotations"]["kube-dc.com/owner-email"] != null ? object["metadata"]["annotations"]["kube-dc.com/owner-email"] : '') != (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "annotations" in oldObject["metadata"] && type(oldObject["metadata"]["annotations"]) == map && "kube-dc.com/owner-email" in oldObject["metadata"]["annotations"] && oldObject["metadata"]["annotations"]["kube-dc.com/owner-email"] != null ? oldObject["metadata"]["annotations"]["kube-dc.com/owner-email"] : '')) || (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "annotations" in object["metadata"] && type(object["metadata"]["annotations"]) == map && "kube-dc.com/owner-email" in object["metadata"]["annotations"] && object["metadata"]["annotations"]["kube-dc.com/owner-email"] != null ? object["metadata"]["annotations"]["kube-dc.com/owner-email"] : '') != '' && (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "annotations" in object["metadata"] && type(object["metadata"]["annotations"]) == map && "cloudsigma.com/owner-email" in object["metadata"]["annotations"] && object["metadata"]["annotations"]["cloudsigma.com/owner-email"] != null ? object["metadata"]["annotations"]["cloudsigma.com/owner-email"] : '') != (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "annotations" in oldObject["metadata"] && type(oldObject["metadata"]["annotations"]) == map && "cloudsigma.com/owner-email" in oldObject["metadata"]["annotations"] && oldObject["metadata"]["annotations"]["cloudsigma.com/owner-email"] != null ? oldObject["metadata"]["annotations"]["cloudsigma.com/owner-email"] : '')
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: {{ $failurePolicy }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  rules:
  - apiGroups:
    - k8s.kube-dc.com
    apiVersions:
    - v1alpha1
    operations:
    - CREATE
    - UPDATE
    resources:
    - kdcclusters
    scope: '*'
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" (dig "cluster" "impersonation" dict $config)) }}{{ $failurePolicy := . }}
- name: secrets.cluster.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/cluster/impersonation") | nindent 4 }}
  matchConditions:
  - name: names-another-user
    expression: |-
      (type(object) == map && "data" in object && type(object["data"]) == map && "userEmail" in object["data"] && object["data"]["userEmail"] != null ? object["data"]["userEmail"] : '') != (type(oldObject) == map && "data" in oldObject && type(oldObject["data"]) == map && "userEmail" in oldObject["data"] && oldObject["data"]["userEmail"] != null ? oldObject["data"]["userEmail"] : '') || ((type(object) == map && "metadata" in object && type(object["metadata"]) == map && "annotations" in object["metadata"] && type(object["metadata"]["annotations"]) == map && "warrantgate.dev/user-named-by" in object["metadata"]["annotations"] && object["metadata"]["annotations"]["warrantgate.dev/user-named-by"] != null ? object["metadata"]["annotations"]["warrantgate.dev/user-named-by"] : '') != '' && (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "annotations" in object["metadata"] && type(object["metadata"]["annotations"]) == map && "warrantgate.dev/user-named-by" in object["metadata"]["annotations"] && object["metadata"]["annotations"]["warrantgate.dev/user-named-by"] != null ? object["metadata"]["annotations"]["warrantgate.dev/user-named-by"] : '') != (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "annotations" in oldObject["metadata"] && type(oldObject["metadata"]["annotations"]) == map && "warrantgate.dev/user-named-by" in oldObject["metadata"]["annotations"] && oldObject["metadata"]["annotations"]["warrantgate.dev/user-named-by"] != null ? oldObject["metadata"]["annotations"]["warrantgate.dev/user-named-by"] : ''))
{{- if $exempt }}
  - name: namespace-is-not-exempt
    expression: |-
      !(request.namespace in [{{ quote (first $exempt) }}{{ range rest $exempt }}, {{ quote . }}{{ end }}])
{{- end }}
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: {{ $failurePolicy }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  rules:
  - apiGroups:
    - ""
    apiVersions:
    - v1
    operations:
    - CREATE
    - UPDATE
    resources:
    - secrets
    scope: '*'
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" (dig "cluster" "impersonation" dict $config)) }}{{ $failurePolicy := . }}
{{- range $kind := dig "cluster" "impersonation" "kinds" list $config }}{{ $fields := include "warrantgate.userFields" $kind | fromJsonArray }}
- name: {{ $kind.resource }}.cluster.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/cluster/impersonation") | nindent 4 }}
  matchConditions:
  - name: names-another-user
    expression: |-
      ({{ include "warrantgate.celField" (dict "object" "object" "path" (first $fields)) }} != '' && {{ include "warrantgate.celField" (dict "object" "object" "path" (first $fields)) }} != {{ include "warrantgate.celField" (dict "object" "oldObject" "path" (first $fields)) }}){{ range rest $fields }} || ({{ include "warrantgate.celField" (dict "object" "object" "path" (.)) }} != '' && {{ include "warrantgate.celField" (dict "object" "object" "path" (.)) }} != {{ include "warrantgate.celField" (dict "object" "oldObject" "path" (.)) }}){{ end }}
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: {{ $failurePolicy }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  rules:
  - apiGroups:
    - {{ quote $kind.group }}
    apiVersions:
    - {{ quote $kind.version }}
    operations:
    - CREATE
    - UPDATE
    resources:
    - {{ quote $kind.resource }}
    - {{ quote (printf "%s/status" $kind.resource) }}
    scope: '*'
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" (dig "cluster" "delegation" dict $config)) }}{{ $failurePolicy := . }}
{{- if dig "openStack" "authURLs" list $config }}
- name: openstackclusters.delegation.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/cluster/delegation") | nindent 4 }}
  matchConditions:
  - name: names-other-credentials
    expression: |-
      ((type(object) == map && "spec" in object && type(object["spec"]) == map && "identityRef" in object["spec"] && object["spec"]["identityRef"] != null ? object["spec"]["identityRef"] : '') != '' && (type(object) == map && "spec" in object && type(object["spec"]) == map && "identityRef" in object["spec"] && object["spec"]["identityRef"] != null ? object["spec"]["identityRef"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "identityRef" in oldObject["spec"] && oldObject["spec"]["identityRef"] != null ? oldObject["spec"]["identityRef"] : '')) || (type(object) == map && "spec" in object && type(object["spec"]) == map && "identityRef" in object["spec"] && object["spec"]["identityRef"] != null ? object["spec"]["identityRef"] : '') != '' && (type(object) == map && "metadata" in object && type(object["metadata"]) == map && "labels" in object["metadata"] && type(object["metadata"]["labels"]) == map && "cluster.x-k8s.io/cluster-name" in object["metadata"]["labels"] && object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] != null ? object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] : '') != (type(oldObject) == map && "metadata" in oldObject && type(oldObject["metadata"]) == map && "labels" in oldObject["metadata"] && type(oldObject["metadata"]["labels"]) == map && "cluster.x-k8s.io/cluster-name" in oldObject["metadata"]["labels"] && oldObject["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] != null ? oldObject["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] : '')
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: {{ $failurePolicy }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  rules:
  - apiGroups:
    - infrastructure.cluster.x-k8s.io
    apiVersions:
    - v1beta1
    operations:
    - CREATE
    - UPDATE
    resources:
    - openstackclusters
    scope: '*'
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" (dig "cluster" "delegation" dict $config)) }}{{ $failurePolicy := . }}
{{- if dig "openStack" "authURLs" list $config }}
- name: openstackmachines.delegation.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/cluster/delegation") | nindent 4 }}
  matchConditions:
  - name: names-other-credentials
    expression: |-
      ((type(object) == map && "spec" in object && type(object["spec"]) == map && "identityRef" in object["spec"] && object["spec"]["identityRef"] != null ? object["spec"]["identityRef"] : '') != '' && (type(object) == map && "spec" in object && type(object["spec"]) == map && "identityRef" in object["spec"] && object["spec"]["identityRef"] != null ? object["spec"]["identityRef"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "identityRef" in oldObject["spec"] && oldObject["spec"]["identityRef"] != null ? oldObject["spec"]["identityRef"] : ''))
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: {{ $failurePolicy }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  rules:
  - apiGroups:
    - infrastructure.cluster.x-k8s.io
    apiVersions:
    - v1beta1
    operations:
    - CREATE
    - UPDATE
    resources:
    - openstackmachines
    scope: '*'
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" (dig "cluster" "delegation" dict $config)) }}{{ $failurePolicy := . }}
{{- if dig "openStack" "authURLs" list $config }}
- name: secrets.delegation.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/cluster/delegation") | nindent 4 }}
  matchConditions:
  - name: names-other-credentials
    expression: |-
      ((type(object) == map && "data" in object && type(object["data"]) == map && "clouds.yaml" in object["data"] && object["data"]["clouds.yaml"] != null ? object["data"]["clouds.yaml"] : '') != '' && (type(object) == map && "data" in object && type(object["data"]) == map && "clouds.yaml" in object["data"] && object["data"]["clouds.yaml"] != null ? object["data"]["clouds.yaml"] : '') != (type(oldObject) == map && "data" in oldObject && type(oldObject["data"]) == map && "clouds.yaml" in oldObject["data"] && oldObject["data"]["clouds.yaml"] != null ? oldObject["data"]["clouds.yaml"] : ''))
{{- if $exempt }}
  - name: namespace-is-not-exempt
    expression: |-
      !(request.namespace in [{{ quote (first $exempt) }}{{ range rest $exempt }}, {{ quote . }}{{ end }}])
{{- end }}
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: {{ $failurePolicy }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  rules:
  - apiGroups:
    - ""
    apiVersions:
    - v1
    operations:
    - CREATE
    - UPDATE
    resources:
    - secrets
    scope: '*'
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" (dig "cluster" "delegation" dict $config)) }}{{ $failurePolicy := . }}
{{- if dig "openStack" "authURLs" list $config }}
{{- range $kind := dig "cluster" "delegation" "kinds" list $config }}
- name: {{ $kind.resource }}.delegation.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/cluster/delegation") | nindent 4 }}
  matchConditions:
  - name: names-other-credentials
    expression: |-
      ({{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." ($kind.identityRefPath | default "spec.identityRef"))) }} != '' && {{ include "warrantgate.celField" (dict "object" "object" "path" (splitList "." ($kind.identityRefPath | default "spec.identityRef"))) }} != {{ include "warrantgate.celField" (dict "object" "oldObject" "path" (splitList "." ($kind.identityRefPath | default "spec.identityRef"))) }})
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: {{ $failurePolicy }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  rules:
  - apiGroups:
    - {{ quote $kind.group }}
    apiVersions:
    - {{ quote $kind.version }}
    operations:
    - CREATE
    - UPDATE
    resources:
    - {{ quote $kind.resource }}
    - {{ quote (printf "%s/status" $kind.resource) }}
    scope: '*'
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- end }}
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" (dig "cluster" "delegation" dict $config)) }}{{ $failurePolicy := . }}
{{- if dig "openStack" "authURLs" list $config }}
- name: reference.delegation.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/cluster/delegation") | nindent 4 }}
  matchConditions:
  - name: refers-to-another-cluster
    expression: |-
      ((type(object) == map && "spec" in object && type(object["spec"]) == map && "infrastructureRef" in object["spec"] && type(object["spec"]["infrastructureRef"]) == map && "name" in object["spec"]["infrastructureRef"] && object["spec"]["infrastructureRef"]["name"] != null ? object["spec"]["infrastructureRef"]["name"] : '') != '' && (type(object) == map && "spec" in object && type(object["spec"]) == map && "infrastructureRef" in object["spec"] && type(object["spec"]["infrastructureRef"]) == map && "name" in object["spec"]["infrastructureRef"] && object["spec"]["infrastructureRef"]["name"] != null ? object["spec"]["infrastructureRef"]["name"] : '') != (type(oldObject) == map && "spec" in oldObject && type(oldObject["spec"]) == map && "infrastructureRef" in oldObject["spec"] && type(oldObject["spec"]["infrastructureRef"]) == map && "name" in oldObject["spec"]["infrastructureRef"] && oldObject["spec"]["infrastructureRef"]["name"] != null ? oldObject["spec"]["infrastructureRef"]["name"] : ''))
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: {{ $failurePolicy }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  rules:
  - apiGroups:
    - cluster.x-k8s.io
    apiVersions:
    - '*'
    operations:
    - CREATE
    - UPDATE
    resources:
    - clusters
    scope: '*'
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" $config.keystonePolicy "selected" true) }}{{ $failurePolicy := . }}
{{- with $config.keystonePolicy.selector }}
- name: policies.keystone.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/keystone/policy") | nindent 4 }}
  matchConditions:
  - name: changes-data-or-selection
    expression: |-
      oldObject == null || object.?data != oldObject.?data || object.?binaryData != oldObject.?binaryData{{ range include "warrantgate.labelKeys" . | fromJsonArray }} || object.metadata.?labels[?{{ quote . }}] != oldObject.metadata.?labels[?{{ quote . }}]{{ end }}
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  objectSelector: {{ toJson . }}
  failurePolicy: {{ $failurePolicy }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  rules:
  - apiGroups:
    - ""
    apiVersions:
    - v1
    operations:
    - CREATE
    - UPDATE
    resources:
    - configmaps
    - secrets
    scope: Namespaced
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- end }}
{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" $config.keystonePolicy "selected" true) }}{{ $failurePolicy := . }}
{{- with include "warrantgate.objectNames" (dig "keystonePolicy" "objects" list $config) | fromJsonArray }}{{ $names := . }}
- name: named-policies.keystone.warrantgate.dev
  clientConfig: {{- include "warrantgate.clientConfig" (dict "root" $ "path" "/keystone/policy") | nindent 4 }}
  matchConditions:
  - name: names-a-policy
    expression: |-
      request.namespace + '/' + object.metadata.name in [{{ quote (first $names) }}{{ range rest $names }}, {{ quote . }}{{ end }}]
  - name: changes-data
    expression: |-
      oldObject == null || object.?data != oldObject.?data || object.?binaryData != oldObject.?binaryData
  namespaceSelector: {{- include "warrantgate.namespaceSelector" $ | nindent 4 }}
  failurePolicy: {{ $failurePolicy }}
  admissionReviewVersions:
  - v1
  matchPolicy: Equivalent
  rules:
  - apiGroups:
    - ""
    apiVersions:
    - v1
    operations:
    - CREATE
    - UPDATE
    resources:
    - configmaps
    - secrets
    scope: Namespaced
  sideEffects: NoneOnDryRun
  timeoutSeconds: 3
{{- end }}
{{- end }}
{{- end -}}

{{- define "warrantgate.clusterRules" -}}
{{- $config := .Values.config -}}
{{- $needs := include "warrantgate.needs" . | fromJson -}}
- apiGroups:
  - ""
  resources:
  - events
  verbs:
  - create
  - patch
{{- if $needs.clusters }}
{{- if $needs.reviews }}
- apiGroups:
  - authorization.k8s.io
  resources:
  - subjectaccessreviews
  verbs:
  - create
{{- end }}
{{- end }}
{{- if $needs.basePolicies }}
- apiGroups:
  - ""
  resourceNames:
  - {{ quote (first $needs.basePolicies) }}
{{- range rest $needs.basePolicies }}
  - {{ quote . }}
{{- end }}
  resources:
  - configmaps
  verbs:
  - get
{{- end }}
{{- if $needs.clusters }}
{{- if $needs.reviews }}
- apiGroups:
  - k8s.kube-dc.com
  resources:
  - kdcclusters
  verbs:
  - get
{{- end }}
{{- end }}
{{- if $needs.clusters }}
- apiGroups:
  - ""
  resources:
  - secrets
  verbs:
  - get
{{- end }}
{{- if $needs.clusters }}
- apiGroups:
  - infrastructure.cluster.x-k8s.io
  resources:
  - cloudsigmaclusters
  verbs:
  - get
  - list
  - watch
{{- end }}
{{- if $needs.clusters }}
{{- if dig "openStack" "authURLs" list $config }}
- apiGroups:
  - infrastructure.cluster.x-k8s.io
  resources:
  - openstackclusters
  verbs:
  - get
  - list
  - watch
{{- end }}
{{- end }}
{{- if $needs.clusters }}
{{- if dig "openStack" "authURLs" list $config }}
- apiGroups:
  - cluster.x-k8s.io
  resources:
  - clusters
  verbs:
  - get
  - list
{{- end }}
{{- end }}
{{- if $needs.clusters }}
{{- if $needs.machines }}
- apiGroups:
  - infrastructure.cluster.x-k8s.io
  resources:
  - cloudsigmamachines
  verbs:
  - get
  - list
  - watch
{{- end }}
{{- end }}
{{- if $needs.clusters }}
{{- if $needs.machines }}
{{- if dig "openStack" "authURLs" list $config }}
- apiGroups:
  - infrastructure.cluster.x-k8s.io
  resources:
  - openstackmachines
  verbs:
  - get
  - list
  - watch
{{- end }}
{{- end }}
{{- end }}
{{- if $needs.clusters }}
{{- if $needs.machines }}
{{- range $kind := dig "machine" "kinds" list $config }}
- apiGroups:
  - {{ quote $kind.group }}
  resources:
  - {{ quote $kind.resource }}
  verbs:
  - get
  - list
  - watch
{{- end }}
{{- end }}
{{- end }}
{{- if $needs.clusters }}
{{- if $needs.machines }}
- apiGroups:
  - cluster.x-k8s.io
  resources:
  - machines
  verbs:
  - get
  - list
  - watch
{{- end }}
{{- end }}
{{- if $needs.clusters }}
{{- if $needs.machines }}
{{- if dig "openStack" "authURLs" list $config }}
{{- if $needs.references }}
{{- range $kind := dig "cluster" "delegation" "kinds" list $config }}
- apiGroups:
  - {{ quote $kind.group }}
  resources:
  - {{ quote $kind.resource }}
  verbs:
  - get
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "warrantgate.leaseRules" -}}
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - create
- apiGroups:
  - coordination.k8s.io
  resourceNames:
  - warrantgate-audit
  resources:
  - leases
  verbs:
  - get
  - update
{{- end -}}
