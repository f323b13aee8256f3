{{- define "biasgate.labels" -}}
app.kubernetes.io/name: biasgate
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- end }}

{{- define "biasgate.metadata" -}}
name: {{ printf "%s-%s" (.root.Release.Name | trunc 51 | trimSuffix "-") .role }}
labels:
  {{- include "biasgate.labels" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "biasgate.image" -}}
{{- $image := index .root.Values.image .role -}}
{{- $repository := required (printf "image.%s.repository: name the image that you built from deploy/Dockerfile --target %s" .role .role) $image.repository -}}
{{- if $image.digest }}{{ $repository }}@{{ $image.digest }}{{ else }}{{ $repository }}:{{ $image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "biasgate.config" -}}
{{ .Values.config | default (.Files.Get "files/biasgate.toml") }}
{{- end }}

{{- /* What every pod has: no root, nothing to gain, nothing of the cluster. */ -}}
{{- define "biasgate.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch # a claim full of models is not gone through at each start
  seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- /* Where a role's pods may run; empty for anywhere. */ -}}
{{- define "biasgate.nodes" -}}
{{- $nodes := dict -}}
{{- range $name := list "nodeSelector" "tolerations" }}
{{- with index $ $name }}{{- $_ := set $nodes $name . }}{{- end }}
{{- end -}}
{{- if $nodes }}{{ toYaml $nodes }}{{ end }}
{{- end }}

{{- define "biasgate.container" -}}
image: {{ include "biasgate.image" . | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{- define "biasgate.peers" -}}
{{- if . }}
from:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
