{{- define "platform.labels" -}}
{app.kubernetes.io/name: {{ .name }}, app.kubernetes.io/instance: {{ .root.Release.Name }}}
{{- end }}
{{- define "platform.certificates" -}}
metadata:
  annotations:
    flyball.dev/script: |
      containers: [{runs: [{steps: [{after: 100ms, log: {{ .action }} the certificate}, {after: 200ms, exit: {code: {{ .root.Values.certificates }}}}]}]}]
spec:
  restartPolicy: OnFailure
  serviceAccountName: {{ .root.Release.Name }}-admission
  securityContext: {runAsNonRoot: true, runAsUser: 65532, fsGroup: 2000}
  nodeSelector: {kubernetes.io/os: linux}
  containers:
  - name: {{ .action }}
    image: registry.k8s.io/ingress-nginx/kube-webhook-certgen:v1.6.0
    args: [{{ .action }}, --namespace=$(POD_NAMESPACE), --secret-name={{ .root.Release.Name }}-admission]
    env: [{name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}]
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end }}
