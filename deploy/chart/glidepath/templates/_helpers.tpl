{{/* One name for all objects; short enough to be the name of a site too. */}}
{{- define "glidepath.name" -}}
{{ .Release.Name | replace "." "-" | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* What is the same for every object. Helm's own labels are left to helm, so that Kustomize makes the same. */}}
{{- define "glidepath.labels" -}}
app.kubernetes.io/name: glidepath
app.kubernetes.io/instance: {{ include "glidepath.name" . }}
{{- end }}

{{- define "glidepath.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "glidepath.site" -}}
{{ .Values.site.name | default (include "glidepath.name" .) }}
{{- end }}

{{- define "glidepath.sites" -}}
{{ .Values.drain.sites | default (list (include "glidepath.site" .)) | join "," }}
{{- end }}

{{- define "glidepath.claim" -}}
{{ .Values.home.existingClaim | default (include "glidepath.name" .) }}
{{- end }}

{{/* Not empty where the home is worth keeping: only SQLite keeps something there. */}}
{{- define "glidepath.keeps" -}}
{{ if and (not .Values.store.url) (eq .Values.home.kind "claim") }}yes{{ end }}
{{- end }}

{{/* Not empty where another pod can write into the store: then the hook speaks to glidepath through it. */}}
{{- define "glidepath.reached" -}}
{{ if or .Values.store.url (include "glidepath.keeps" .) }}yes{{ end }}
{{- end }}

{{/* Values that do not go together, told before anything is made. */}}
{{- define "glidepath.check" -}}
{{- if and .Values.config (not .Values.store.url) (contains "postgresql://" .Values.config) }}
{{- fail "`config` names a PostgreSQL; give its address as `store.url` too, so that it may be reached" }}
{{- end }}
{{- if and .Values.config .Values.store.url (not (contains .Values.store.url .Values.config)) }}
{{- fail "`config` does not have the address of `store.url`; write it there as `url` of `[store]`" }}
{{- end }}
{{- if and (gt (int .Values.replicas) 1) (not .Values.store.url) }}
{{- fail "`replicas` is 2 and the store is SQLite, which has one owner; set `store.url` to a PostgreSQL, or `replicas` to 1" }}
{{- end }}
{{- if and (not .Values.config) (not .Values.pool.collector) }}
{{- fail "set `pool.collector` to the host of your pool's collector, or give a whole configuration as `config`" }}
{{- end }}
{{- if and (not .Values.config) (not .Values.offers) }}
{{- fail "`offers` is empty, so no pilot could be started; name at least one kind" }}
{{- end }}
{{- if and (not .Values.config) .Values.drain.sites }}
{{- fail "`drain.sites` is for sites in `config`; without it there is one site, called `site.name`" }}
{{- end }}
{{- end }}

{{/* glidepath.toml. */}}
{{- define "glidepath.toml" -}}
{{- if .Values.config -}}
{{ .Values.config | trim }}
{{- else -}}
{{- if .Values.store.url -}}
[store]
url = {{ .Values.store.url | quote }}

{{ end -}}
[pools.{{ .Values.pool.name }}]
collector = {{ .Values.pool.collector | quote }}

[pools.{{ .Values.pool.name }}.condor]
trust_domain = {{ .Values.pool.trustDomain | quote }}
{{- if .Values.pool.readTokenSecret }}
token_folder = "/etc/glidepath/tokens.d"
{{- end }}

[pools.{{ .Values.pool.name }}.condor.tokens]
file = "/etc/glidepath/pilot-token/token"

[sites.{{ include "glidepath.site" . }}]
kind = "kubernetes"
pools = [{{ .Values.pool.name | quote }}]
limits = { live_max = {{ int .Values.site.pilotsMax }}, pending_max = {{ int .Values.site.pendingMax }} }

[sites.{{ include "glidepath.site" . }}.kubernetes]
image = {{ .Values.site.image | default (printf "glidepath-pilot:%s" .Chart.AppVersion) | quote }}
token_secret = {{ .Values.pool.tokenSecret | quote }}
token_key = {{ .Values.pool.tokenKey | quote }}
{{- range $name, $offer := .Values.offers }}

[sites.{{ include "glidepath.site" $ }}.offers.{{ $name }}]
cpus = {{ $offer.cpus }}
memory = {{ $offer.memory | quote }}
disk = {{ $offer.disk | quote }}
gpus = {{ int ($offer.gpus | default 0) }}
lifetime = {{ $offer.lifetime | default "14h" | quote }}
idle = {{ $offer.idle | default "10m" | quote }}
{{- if $offer.pilotsMax }}
limits = { live_max = {{ int $offer.pilotsMax }} }
{{- end }}
{{- end }}
{{- end }}
{{ end }}

{{/* The same with every site closed: a window drains pilots and lets them finish. */}}
{{- define "glidepath.closed" -}}
{{ include "glidepath.toml" . }}
{{- range splitList "," (include "glidepath.sites" .) }}
[[sites.{{ . }}.windows]]
start = 2000-01-01T00:00:00Z
end = 2999-01-01T00:00:00Z
why = "glidepath is being drained"
{{ end }}
{{- end }}

{{/* Where glidepath finds its things. */}}
{{- define "glidepath.env" -}}
- name: GLIDEPATH_HOME
  value: /var/lib/glidepath/home
- name: GLIDEPATH_CONFIG
  value: /etc/glidepath/config/glidepath.toml
{{- with .Values.store.passwordSecret }}
- name: PGPASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ $.Values.store.passwordKey }}
{{- end }}
{{- end }}

{{- define "glidepath.home" -}}
- name: home
  {{- if include "glidepath.keeps" . }}
  persistentVolumeClaim:
    claimName: {{ include "glidepath.claim" . }}
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- end }}

{{/* What Pod Security calls restricted. */}}
{{- define "glidepath.podSecurity" -}}
runAsNonRoot: true
runAsUser: 20000
runAsGroup: 20000
fsGroup: 20000
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "glidepath.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop:
    - ALL
{{- end }}
