package builtin

import (
	"testing"

	"flyball.dev/apiserver/kinds/core"
)

const podManifest = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 10
  containers:
  - {name: web, image: nginx}
`

const labelMessage = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"

func TestPodValidation(t *testing.T) {
	invalidWhen(t, podManifest, map[string]change{
		"no containers":     {`spec: {containers: []}`, []string{"spec.containers: Required value"}},
		"no container name": {`spec: {containers: [{image: nginx}]}`, []string{"spec.containers[0].name: Required value"}},
		"bad container name": {`spec: {containers: [{name: Web_1, image: nginx}]}`, []string{
			`spec.containers[0].name: Invalid value: "Web_1": ` + labelMessage}},
		"same container name": {`spec: {containers: [{name: a, image: x}, {name: a, image: x}]}`, []string{
			`spec.containers[1].name: Duplicate value: "a"`}},
		"init container with a container's name": {`spec: {initContainers: [{name: web, image: x}]}`, []string{
			`spec.initContainers[0].name: Duplicate value: "web"`}},
		"no image": {`spec: {containers: [{name: a}]}`, []string{"spec.containers[0].image: Required value"}},
		"blank in image": {`spec: {containers: [{name: a, image: " x"}]}`, []string{
			`spec.containers[0].image: Invalid value: " x": must not have leading or trailing whitespace`}},
		"pull policy": {`spec: {containers: [{name: a, image: x, imagePullPolicy: Sometimes}]}`, []string{
			`spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"`}},
		"restart policy": {`spec: {restartPolicy: Maybe}`, []string{
			`spec.restartPolicy: Unsupported value: "Maybe": supported values: "Always", "OnFailure", "Never"`}},
		"dns policy": {`spec: {dnsPolicy: None}`, []string{
			"spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"}},
		"port": {`spec: {containers: [{name: a, image: x, ports: [{containerPort: 0}, {containerPort: 70000}, {containerPort: 1, protocol: ICMP}]}]}`, []string{
			`spec.containers[0].ports[0].containerPort: Required value`,
			`spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive`,
			`spec.containers[0].ports[2].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"`}},
		"port names": {`spec: {containers: [{name: a, image: x, ports: [{name: http, containerPort: 1}, {name: http, containerPort: 2}, {name: "80", containerPort: 3}]}]}`, []string{
			`spec.containers[0].ports[1].name: Duplicate value: "http"`,
			`spec.containers[0].ports[2].name: Invalid value: "80": must contain at least one letter (a-z)`}},
		"host ports": {`spec: {containers: [{name: a, image: x, ports: [{hostPort: 9, containerPort: 1}]}, {name: b, image: x, ports: [{hostPort: 9, containerPort: 1}]}]}`, []string{
			`spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//9"`}},
		"variables": {`spec: {containers: [{name: a, image: x, env: [{value: v}, {name: "a=b"}, {name: c, value: v, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: d, valueFrom: {}}, {name: e, valueFrom: {fieldRef: {fieldPath: metadata.owner}}}]}]}`, []string{
			"spec.containers[0].env[0].name: Required value",
			"spec.containers[0].env[1].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='",
			"spec.containers[0].env[2].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
			"spec.containers[0].env[3].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
			"spec.containers[0].env[4].valueFrom.fieldRef.fieldPath: Invalid value: \"metadata.owner\": error converting fieldPath: field label not supported: metadata.owner"}},
		"a field that only files can have": {`spec: {containers: [{name: a, image: x, env: [{name: l, valueFrom: {fieldRef: {fieldPath: metadata.labels}}}]}]}`, []string{
			`spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"`}},
		"mounts": {`spec: {volumes: [{name: v}], containers: [{name: a, image: x, volumeMounts: [{name: w, mountPath: /a}, {name: v, mountPath: /b}, {name: v, mountPath: /b}, {name: v}, {name: v, mountPath: /c, subPath: ../up}]}]}`, []string{
			`spec.containers[0].volumeMounts.subPath: Invalid value: "../up": must not contain '..'`,
			`spec.containers[0].volumeMounts[0].name: Not found: "w"`,
			`spec.containers[0].volumeMounts[2].mountPath: Invalid value: "/b": must be unique`,
			`spec.containers[0].volumeMounts[3].mountPath: Required value`}},
		"volumes": {`spec: {volumes: [{name: v}, {name: v}, {emptyDir: {}}, {name: both, emptyDir: {}, configMap: {name: c}}, {name: s, secret: {}}, {name: h, hostPath: {path: a/../b}}]}`, []string{
			`spec.volumes[1].name: Duplicate value: "v"`,
			`spec.volumes[2].name: Required value`,
			`spec.volumes[3].configMap: Forbidden: may not specify more than 1 volume type`,
			`spec.volumes[4].secret.secretName: Required value`,
			`spec.volumes[5].hostPath.path: Invalid value: "a/../b": must not contain '..'`}},
		"amounts": {`spec: {containers: [{name: a, image: x, resources: {requests: {cpu: "2", memory: -1, "example.com/gpu": 1, nonsense: 1}, limits: {cpu: "1", "example.com/gpu": 2}}}]}`, []string{
			`spec.containers[0].resources.requests: Invalid value: "1": must be equal to example.com/gpu limit of 2`,
			`spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1`,
			`spec.containers[0].resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0`,
			`spec.containers[0].resources.requests[nonsense]: Invalid value: "nonsense": must be a standard resource for containers`,
			`spec.containers[0].resources.requests[nonsense]: Invalid value: "nonsense": must be a standard resource type or fully qualified`}},
		"probes": {`spec: {containers: [{name: a, image: x, livenessProbe: {successThreshold: 2, exec: {command: [a]}}, readinessProbe: {}, startupProbe: {periodSeconds: -1, exec: {command: [a]}, httpGet: {port: 0}}}]}`, []string{
			`spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1`,
			`spec.containers[0].readinessProbe: Required value: must specify a handler type`,
			`spec.containers[0].startupProbe.httpGet: Forbidden: may not specify more than 1 handler type`,
			`spec.containers[0].startupProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0`}},
		"probe of an init container": {`spec: {initContainers: [{name: i, image: x, livenessProbe: {exec: {command: [a]}}}]}`, []string{
			`spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always`}},
		"sidecar with a probe": {`spec: {initContainers: [{name: i, image: x, restartPolicy: Always, livenessProbe: {exec: {command: [a]}}}]}`, nil},
		"sleep": {`spec: {containers: [{name: a, image: x, lifecycle: {preStop: {sleep: {seconds: 11}}}}]}`, []string{
			`spec.containers[0].lifecycle.preStop.sleep: Invalid value: 11: must be non-negative and less than terminationGracePeriodSeconds (10)`}},
		"privileges": {`spec: {containers: [{name: a, image: x, securityContext: {privileged: true, allowPrivilegeEscalation: false, runAsUser: -1}}]}`, []string{
			"spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
			"spec.containers[0].securityContext: Invalid value: …"}},
		"seccomp": {`spec: {securityContext: {seccompProfile: {type: Localhost}}}`, []string{
			`spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost`}},
		"tolerations": {`spec: {tolerations: [{operator: Exists, key: a, value: b}, {operator: Equal}, {operator: Exists, tolerationSeconds: 1, effect: NoSchedule}]}`, []string{
			"spec.tolerations[0].operator: Invalid value: …",
			"spec.tolerations[1].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
			"spec.tolerations[2].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set"}},
		"affinity": {`spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}, preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, preference: {matchExpressions: [{key: a, operator: In}]}}]}, podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{}]}}}`, []string{
			"spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
			"spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100",
			"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term",
			`spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: "": name part must be non-empty`,
			`spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: "": name part must consist…`,
			"spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty"}},
		"spread": {`spec: {topologySpreadConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 1, whenUnsatisfiable: Panic}]}`, []string{
			`spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero`,
			`spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{zone, DoNotSchedule}"`,
			`spec.topologySpreadConstraints[2].topologyKey: Required value: can not be empty`,
			`spec.topologySpreadConstraints[2].whenUnsatisfiable: Unsupported value: "Panic": supported values: "DoNotSchedule", "ScheduleAnyway"`}},
		"mirror": {`metadata: {annotations: {kubernetes.io/config.mirror: x}}`, []string{
			`metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "x": must set spec.nodeName if mirror pod annotation is set`}},
		"AppArmor annotation": {`metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/web: x}}`, []string{
			`metadata.annotations[container.apparmor.security.beta.kubernetes.io/web]: Invalid value: "x": invalid AppArmor profile name: "x"`}},
		"address with a leading zero": {`spec: {hostAliases: [{ip: 010.0.0.1}]}`, []string{
			`spec.hostAliases[0].ip: Invalid value: …`}},
		"sysctl": {`spec: {securityContext: {sysctls: [{name: "A B"}]}}`, []string{
			`spec.securityContext.sysctls[0].name: Invalid value: …`}},
		"deadline": {`spec: {activeDeadlineSeconds: 0}`, []string{
			`spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive`}},
		"names": {`spec: {serviceAccountName: A, imagePullSecrets: [{}], schedulingGates: [{name: a}, {name: a}]}`, []string{
			`spec.schedulingGates[1]: Duplicate value: "a"`,
			`spec.serviceAccountName: Invalid value: "A": a lowercase RFC 1123 subdomain…`}},
	})
}

func TestPodUpdate(t *testing.T) {
	forbiddenWhen(t, podManifest, map[string]change{
		"image":           {`spec: {containers: [{name: web, image: "nginx:2", imagePullPolicy: Always}]}`, nil},
		"deadline":        {`spec: {activeDeadlineSeconds: 5}`, nil},
		"more toleration": {`spec: {tolerations: [{key: a, operator: Exists}]}`, nil},
		"labels":          {`metadata: {labels: {a: b}}`, nil},
		"another container": {`spec: {containers: [{name: web, image: nginx}, {name: more, image: nginx}]}`, []string{
			"spec.containers: Forbidden: pod updates may not add or remove containers"}},
		"node":    {`spec: {nodeName: n1}`, []string{"spec: Forbidden: " + core.ImmutableFields + "\n…"}},
		"command": {`spec: {containers: [{name: web, image: nginx, command: [a]}]}`, []string{"spec: Forbidden: " + core.ImmutableFields + "\n…"}},
	})
	forbiddenWhen(t, patched(t, podManifest, `spec: {activeDeadlineSeconds: 5, tolerations: [{key: a, operator: Exists}], schedulingGates: [{name: g}]}`), map[string]change{
		"longer deadline":  {`spec: {activeDeadlineSeconds: 6}`, []string{"spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value"}},
		"fewer toleration": {`spec: {tolerations: null}`, []string{"spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"}},
		"gate goes":        {`spec: {schedulingGates: null}`, nil},
		"gate comes":       {`spec: {schedulingGates: [{name: g}, {name: h}]}`, []string{"spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'h'"}},
		"narrower nodes":   {`spec: {nodeSelector: {a: b}}`, nil},
	})
}
