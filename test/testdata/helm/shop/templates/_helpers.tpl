{{- define "shop.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "shop.pod" -}}
metadata: {labels: {app: {{ .name }}}}
spec: {containers: [{name: c, image: "nginx:1"}]}
{{- end }}
