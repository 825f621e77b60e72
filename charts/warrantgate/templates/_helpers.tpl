{{/* The name of all objects. */}}
{{- define "warrantgate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "warrantgate.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "warrantgate.labels" -}}
{{ include "warrantgate.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "warrantgate.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "warrantgate.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "warrantgate.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* The Secret with the serving certificate. A generated one has a name of its own, so that Helm does not delete what cert-manager writes. */}}
{{- define "warrantgate.tlsSecret" -}}
{{- $suffix := ternary "certificate" "tls" (eq (include "warrantgate.generatesCertificate" .) "true") -}}
{{- .Values.certificates.secret.name | default (printf "%s-%s" (include "warrantgate.fullname" .) $suffix) -}}
{{- end -}}

{{/* "true" where the chart generates the serving certificate. */}}
{{- define "warrantgate.generatesCertificate" -}}
{{- if not (or .Values.certificates.certManager.enabled .Values.certificates.secret.name) -}}true{{- end -}}
{{- end -}}

{{/* The names that the API servers call, and that the serving certificate is for, in JSON. */}}
{{- define "warrantgate.dnsNames" -}}
{{- $service := printf "%s.%s.svc" (include "warrantgate.fullname" .) .Release.Namespace -}}
{{- concat (list $service (printf "%s.cluster.local" $service)) .Values.certificates.extraDNSNames | uniq | toJson -}}
{{- end -}}

{{/*
The generated certificate, as {"annotations": …, "data": …} of its Secret in JSON, the same in all templates. What the Secret in the cluster holds is
kept. The certificate is replaced if its names change, if two thirds of its life are over, or if the annotation renew-after is removed. If ca.key
is removed, there is a new CA: API servers then trust the former one as well, and the certificate is not replaced before the next upgrade.
*/}}
{{- define "warrantgate.generatedCertificate" -}}
{{- include "warrantgate.validate" . -}}
{{- if not (hasKey .Values "renderedCertificate") -}}
{{- if not (lookup "v1" "Namespace" "" "kube-system") -}}
{{- fail "without access to the cluster (helm template, GitOps) a generated certificate would be another one each time: set certificates.certManager.enabled or certificates.secret.name" -}}
{{- end -}}
{{- $name := include "warrantgate.fullname" . -}}
{{- $names := include "warrantgate.dnsNames" . | fromJsonArray -}}
{{- $secret := lookup "v1" "Secret" .Release.Namespace (include "warrantgate.tlsSecret" .) | default dict -}}
{{- $data := $secret.data | default dict -}}
{{- $annotations := dig "metadata" "annotations" dict $secret -}}
{{- $ca := dict -}}
{{- $former := get $data "former-ca.crt" -}}
{{- $keeps := and (get $data "tls.crt") (get $data "tls.key") (get $data "ca.crt") -}}
{{- if and (get $data "ca.crt") (get $data "ca.key") -}}
{{- $ca = buildCustomCert (get $data "ca.crt") (get $data "ca.key") -}}
{{- $keeps = and $keeps (eq (join "," $names) (get $annotations "warrantgate.dev/dns-names"))
  (lt (now | date "2006-01-02") (get $annotations "warrantgate.dev/renew-after")) -}}
{{- else -}}
{{- $ca = genCAWithKey $name 3650 (genPrivateKey "ecdsa") -}}
{{- $former = printf "%s%s" (get $data "ca.crt" | b64dec) ($former | b64dec) | b64enc -}}
{{- end -}}
{{- $rendered := dict "ca.crt" (b64enc $ca.Cert) "ca.key" (b64enc $ca.Key) -}}
{{- if $former -}}{{- $_ := set $rendered "former-ca.crt" $former -}}{{- end -}}
{{- if $keeps -}}
{{- $rendered = merge $rendered (pick $data "tls.crt" "tls.key") -}}
{{- $annotations = pick $annotations "warrantgate.dev/dns-names" "warrantgate.dev/renew-after" -}}
{{- else -}}
{{- $certificate := genSignedCertWithKey $name nil $names 365 $ca (genPrivateKey "ecdsa") -}}
{{- $rendered = merge $rendered (dict "tls.crt" (b64enc $certificate.Cert) "tls.key" (b64enc $certificate.Key)) -}}
{{- $annotations = dict "warrantgate.dev/dns-names" (join "," $names) "warrantgate.dev/renew-after" (now | dateModify "5840h" | date "2006-01-02") -}}
{{- end -}}
{{- $_ := set .Values "renderedCertificate" (dict "annotations" $annotations "data" $rendered) -}}
{{- end -}}
{{- toJson .Values.renderedCertificate -}}
{{- end -}}

{{/* The CAs that API servers trust, in PEM; "" where cert-manager says so. */}}
{{- define "warrantgate.caBundle" -}}
{{- if include "warrantgate.generatesCertificate" . -}}
{{- $data := (include "warrantgate.generatedCertificate" . | fromJson).data -}}
{{- get $data "ca.crt" | b64dec -}}{{- get $data "former-ca.crt" | b64dec -}}
{{- else -}}
{{- .Values.certificates.secret.caBundle -}}
{{- end -}}
{{- end -}}

{{/* "true" where the paths of the webhooks begin with a token. */}}
{{- define "warrantgate.webhookPath" -}}
{{- $path := .Values.webhookPath -}}
{{- if or (not .Values.clients.caBundle) $path.existingSecret $path.tokens -}}true{{- end -}}
{{- end -}}

{{/* The Secret of these tokens. */}}
{{- define "warrantgate.webhookPathSecret" -}}
{{- .Values.webhookPath.existingSecret | default (printf "%s-webhook-path" (include "warrantgate.fullname" .)) -}}
{{- end -}}

{{/* The tokens, one a line: those of the values, of the Secret in the cluster, or a new one, which is the same in all templates. */}}
{{- define "warrantgate.webhookTokens" -}}
{{- if not (hasKey .Values "renderedTokens") -}}
{{- $path := .Values.webhookPath -}}
{{- $tokens := join "\n" $path.tokens -}}
{{- if not $tokens -}}
{{- $secret := include "warrantgate.webhookPathSecret" . -}}
{{- $tokens = lookup "v1" "Secret" .Release.Namespace $secret | default dict | dig "data" "tokens" "" | b64dec | trim -}}
{{- if $tokens -}}
{{- if not (regexMatch "^[a-z0-9]{32,128}\\s*(\n|$)" $tokens) -}}
{{- fail (printf "the first line of the key tokens in Secret %s has to be a token: 32 to 128 lower-case letters and digits" $secret) -}}
{{- end -}}
{{- else if $path.existingSecret -}}
{{- fail (printf "webhookPath.existingSecret: there is no Secret %s with the key tokens that Helm can read; without access to the cluster (helm template, GitOps) set webhookPath.tokens to the lines of that Secret, too" $secret) -}}
{{- else if lookup "v1" "Namespace" "" "kube-system" -}}
{{- $tokens = randAlphaNum 48 | lower -}}
{{- else -}}
{{- fail "without access to the cluster (helm template, GitOps) a random token would be another one each time: set webhookPath.tokens to a list with one that you keep in a store of secrets, such as \"openssl rand -hex 32\" prints" -}}
{{- end -}}
{{- end -}}
{{- $_ := set .Values "renderedTokens" $tokens -}}
{{- end -}}
{{- .Values.renderedTokens -}}
{{- end -}}

{{/* Prefix of the URL path of each webhook: the first token, if there are tokens. */}}
{{- define "warrantgate.pathPrefix" -}}
{{- if include "warrantgate.webhookPath" . -}}
/{{ include "warrantgate.webhookTokens" . | splitList "\n" | first | trim }}
{{- end -}}
{{- end -}}

{{/* Where kcp reaches the webhooks. */}}
{{- define "warrantgate.kcpURL" -}}
{{- .Values.kcp.url | default (printf "https://%s.%s.svc:%v" (include "warrantgate.fullname" .) .Release.Namespace .Values.service.port) -}}
{{- end -}}

{{/* The configuration file. */}}
{{- define "warrantgate.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $audited := include "warrantgate.auditedProviders" . | fromJsonArray -}}
{{- if $audited -}}
{{- $_ := set $config "audit" (merge (dict "providers" $audited) ($config.audit | default dict)) -}}
{{- end -}}
{{ toYaml (merge (dict "apiVersion" "config.warrantgate.dev/v1beta1" "kind" "GateConfiguration") $config) }}
{{- end -}}

{{/* The providers on kcp that the audit checks, in JSON: those of the configuration, and those whose gates a Job registers, if their
     APIExport is known. */}}
{{- define "warrantgate.auditedProviders" -}}
{{- $audited := (.Values.config.audit | default dict).providers | default list -}}
{{- range .Values.kcp.install.providers -}}
{{- if .apiExport -}}
{{- $audited = append $audited (dict "workspace" .workspace "apiExport" .apiExport) -}}
{{- end -}}
{{- end -}}
{{- $audited | uniq | toJson -}}
{{- end -}}

{{/* The mode in a part of the configuration. YAML reads Off as false. A gate that has a selector is off without one,
     unless it has a list of objects. */}}
{{- define "warrantgate.mode" -}}
{{- $part := .part | default dict -}}
{{- $picks := or (kindIs "map" $part.selector) (not (empty $part.objects)) -}}
{{- $default := ternary (ternary "Enforce" "Off" $picks) "Enforce" (.selected | default false) -}}
{{- $mode := dig "mode" $default (.part | default dict) -}}
{{- ternary "Off" $mode (kindIs "bool" $mode) -}}
{{- end -}}

{{/* Fails if values contradict each other. The error says what to set. */}}
{{- define "warrantgate.validate" -}}
{{- $v := .Values -}}
{{- if not (or $v.kubernetes.enabled $v.kcp.enabled) -}}
{{- fail "no gate is enabled: set kubernetes.enabled, kcp.enabled, or both" -}}
{{- end -}}
{{- if and $v.certificates.certManager.enabled $v.certificates.secret.name -}}
{{- fail "there are two serving certificates: set either certificates.certManager.enabled or certificates.secret.name, not both" -}}
{{- end -}}
{{- if and $v.certificates.secret.caBundle (not $v.certificates.secret.name) -}}
{{- fail "certificates.secret.caBundle requires certificates.secret.name" -}}
{{- end -}}
{{- if and $v.certificates.secret.name (not (contains "-----BEGIN CERTIFICATE-----" $v.certificates.secret.caBundle)) -}}
{{- fail "certificates.secret.caBundle has to be the CA of the certificate in certificates.secret.name, in PEM" -}}
{{- end -}}
{{- if and $v.cloudSigma.enabled (not $v.cloudSigma.secret.name) -}}
{{- fail "cloudSigma.enabled needs cloudSigma.secret.name, a Secret with the keys oauth-url, client-id and client-secret" -}}
{{- end -}}
{{- $machine := include "warrantgate.mode" (dict "part" $v.config.machine) -}}
{{- if and $v.cloudSigma.legacySecret (eq $machine "Enforce") (ne (dig "machine" "unknown" "" $v.config) "Deny") -}}
{{- fail "cloudSigma.legacySecret needs config.machine.unknown: Deny, because one account serves several tenants" -}}
{{- end -}}
{{- $usesCloudSigma := or $v.cloudSigma.enabled $v.cloudSigma.legacySecret -}}
{{- $cloudSigma := dig "cloudSigma" dict $v.config -}}
{{- $apis := list (dig "api" "https://{region}" $cloudSigma) (dig "legacyAPI" "" $cloudSigma) -}}
{{- if eq (dig "flow" "ServiceProvider" $cloudSigma) "ServiceProvider" -}}
{{- $apis = append $apis (dig "serviceProviderAPI" "https://{region}" $cloudSigma) -}}
{{- end -}}
{{- range $apis -}}
{{- if and $usesCloudSigma (not $cloudSigma.regions) (regexMatch "^[a-z]+://[^/]*[{]region[}]" .) -}}
{{- fail "config.cloudSigma.regions is required: the region of an object becomes part of the host that tokens are sent to, so list the regions, such as [zrh]" -}}
{{- end -}}
{{- end -}}
{{- if and $v.cloudSigma.secret.namespace (ne $v.cloudSigma.secret.namespace .Release.Namespace) (not $v.kubernetes.enabled) -}}
{{- fail "cloudSigma.secret.namespace: without kubernetes.enabled the Secret has to be in the namespace of the release" -}}
{{- end -}}
{{- if and (not $v.kubernetes.enabled) (or (dig "openStack" "authURLs" list $v.config) (dig "audit" "reports" false $v.config)) -}}
{{- fail "config.openStack.authURLs and config.audit.reports need kubernetes.enabled: the credentials of clusters are in Secrets of this cluster, and reports are written in it only" -}}
{{- end -}}
{{- $external := false -}}
{{- range dig "machine" "kinds" list $v.config }}{{ if hasPrefix "external" .provider }}{{ $external = true }}{{ end }}{{ end -}}
{{- $cloud := or $usesCloudSigma (dig "openStack" "authURLs" list $v.config) $external -}}
{{- $audit := include "warrantgate.mode" (dict "part" $v.config.audit) -}}
{{- if and $v.kubernetes.enabled (not $cloud) (or (ne $machine "Off") (ne $audit "Off")) -}}
{{- fail "config.machine.mode and config.audit.mode need a cloud: set cloudSigma.enabled, cloudSigma.legacySecret or config.openStack.authURLs, configure config.machine.kinds of an external provider, or set both modes to \"Off\"" -}}
{{- end -}}
{{- range $part := list "controllerManager" "keystonePolicy" -}}
{{- $gate := get $v.config $part | default dict -}}
{{- if and (ne (include "warrantgate.mode" (dict "part" $gate "selected" true)) "Off") (not (or $gate.selector $gate.objects)) -}}
{{- fail (printf "config.%s.selector is required, because without it all objects would be selected" $part) -}}
{{- end -}}
{{- end -}}
{{- range $part := list "controllerManager" "keystonePolicy" -}}
{{- range dig $part "objects" list $v.config -}}
{{- if has .namespace (append $v.kubernetes.excludedNamespaces $.Release.Namespace) -}}
{{- fail (printf "config.%s.objects: objects in the namespace %s are not gated: it is the namespace of the release, or one of kubernetes.excludedNamespaces" $part .namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $v.kcp.install.enabled (not (and $v.kcp.enabled $v.kcp.install.kubeconfigSecret)) -}}
{{- fail "kcp.install.enabled needs kcp.enabled and kcp.install.kubeconfigSecret, a Secret with an administrator's kubeconfig" -}}
{{- end -}}
{{- if and $v.kcp.install.providers (not (and $v.kcp.install.enabled $v.cloudSigma.enabled $v.kcp.kubeconfigSecret)) -}}
{{- fail "kcp.install.providers needs kcp.install.enabled, cloudSigma.enabled and kcp.kubeconfigSecret: the gates of a provider read clusters in workspaces, and send requests to CloudSigma" -}}
{{- end -}}
{{- range $v.kcp.install.providers -}}
{{- if ne (empty .workspace) (empty .apiExport) -}}
{{- fail "kcp.install.providers: set both workspace and apiExport, or neither: they select the machines that the audit checks" -}}
{{- end -}}
{{- end -}}
{{- if and (ne $audit "Off") (dig "providers" list ($v.config.audit | default dict)) (not (and $v.kcp.enabled (or $v.cloudSigma.enabled $external) $v.kcp.kubeconfigSecret)) -}}
{{- fail "config.audit.providers needs kcp.enabled, cloudSigma.enabled and kcp.kubeconfigSecret: the audit reads machines in workspaces, and sends requests to CloudSigma" -}}
{{- end -}}
{{- if ne (empty $v.clients.caBundle) (empty $v.clients.names) -}}
{{- fail "set both clients.caBundle and clients.names, or neither: a CA also signs certificates of clients that are not API servers" -}}
{{- end -}}
{{- if and $v.podDisruptionBudget.enabled (ge (int $v.podDisruptionBudget.minAvailable) (int $v.replicas)) -}}
{{- fail "podDisruptionBudget.minAvailable has to be less than replicas, because otherwise no node could be drained; with one replica, set podDisruptionBudget.enabled to false" -}}
{{- end -}}
{{- end -}}
