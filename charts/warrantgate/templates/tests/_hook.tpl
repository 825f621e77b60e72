{{/* Annotations of what a test needs, by its weight. Whatever comes of the test, it goes with it. */}}
{{- define "warrantgate.testHook" -}}
helm.sh/hook: test
helm.sh/hook-weight: {{ quote . }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end -}}
