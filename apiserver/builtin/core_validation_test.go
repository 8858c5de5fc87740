package builtin

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/apiserver/kinds/core"
)

const serviceManifest = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7], selector: {app: web}, ports: [{port: 80}]}
`

func TestServiceValidation(t *testing.T) {
	invalidWhen(t, serviceManifest, map[string]change{
		"no ports": {`spec: {ports: null}`, []string{"spec.ports: Required value"}},
		"headless": {`spec: {ports: null, clusterIP: None, clusterIPs: [None]}`, nil},
		"ports without name": {`spec: {ports: [{port: 80}, {port: 81}]}`, []string{
			"spec.ports[0].name: Required value", "spec.ports[1].name: Required value"}},
		"same ports": {`spec: {ports: [{name: a, port: 80}, {name: a, port: 80}]}`, []string{
			`spec.ports[1].name: Duplicate value: "a"`, `spec.ports[1]: Duplicate value: …`}},
		"bad port": {`spec: {ports: [{port: 0, targetPort: 1, protocol: ICMP}, {name: A, port: 1, targetPort: UPPER}]}`, []string{
			`spec.ports[0].name: Required value`,
			`spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive`,
			`spec.ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"`,
			`spec.ports[1].name: Invalid value: "A": ` + labelMessage,
			`spec.ports[1].targetPort: Invalid value: "UPPER": must contain at least one letter (a-z)`,
			`spec.ports[1].targetPort: Invalid value: "UPPER": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)`}},
		"type":          {`spec: {type: Magic}`, []string{`spec.type: Unsupported value: "Magic": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"`}},
		"node port":     {`spec: {ports: [{port: 80, nodePort: 30000}]}`, []string{"spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"}},
		"affinity":      {`spec: {sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 0}}}`, []string{`spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and less than 86400`}},
		"external name": {`spec: {type: ExternalName, clusterIP: null, clusterIPs: null}`, []string{"spec.externalName: Required value"}},
		"policy":        {`spec: {externalTrafficPolicy: Local}`, []string{`spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services`}},
		"cluster ip":    {`spec: {clusterIP: x, clusterIPs: [x]}`, []string{`spec.clusterIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`}},
	})
	forbiddenWhen(t, serviceManifest, map[string]change{
		"address": {`spec: {clusterIP: 10.96.0.8, clusterIPs: [10.96.0.8]}`, []string{`spec.clusterIPs[0]: Invalid value: ["10.96.0.8"]: may not change once set`}},
		"ports":   {`spec: {ports: [{port: 81}]}`, nil},
		"name":    {`spec: {type: ExternalName, externalName: example.com, clusterIP: null, clusterIPs: null}`, nil},
	})
}

func TestConfigMapValidation(t *testing.T) {
	const manifest = `{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {key: value}}`
	invalidWhen(t, manifest, map[string]change{
		"key":       {`data: {"a/b": c}`, []string{`data[a/b]: Invalid value: "a/b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`}},
		"both":      {`binaryData: {key: YQ==}`, []string{`data[key]: Invalid value: "key": duplicate of key present in binaryData`}},
		"too large": {`data: {big: "` + strings.Repeat("x", 1<<20) + `"}`, []string{`[]: Too long: may not be more than 1048576 bytes`}},
	})
	forbiddenWhen(t, patched(t, manifest, `immutable: true`), map[string]change{
		"data":      {`data: {key: other}`, []string{"data: Forbidden: field is immutable when `immutable` is set"}},
		"binary":    {`binaryData: {b: YQ==}`, []string{"binaryData: Forbidden: field is immutable when `immutable` is set"}},
		"immutable": {`immutable: false`, []string{"immutable: Forbidden: field is immutable when `immutable` is set"}},
		"labels":    {`metadata: {labels: {a: b}}`, nil},
	})
}

func TestSecretValidation(t *testing.T) {
	const manifest = `{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {key: YQ==}}`
	invalidWhen(t, manifest, map[string]change{
		"tls":             {`type: kubernetes.io/tls`, []string{"data[tls.crt]: Required value", "data[tls.key]: Required value"}},
		"basic":           {`type: kubernetes.io/basic-auth`, []string{"data[password]: Required value", "data[username]: Required value"}},
		"ssh":             {`type: kubernetes.io/ssh-auth`, []string{"data[ssh-privatekey]: Required value"}},
		"docker":          {`{type: kubernetes.io/dockerconfigjson, data: {.dockerconfigjson: c2VjcmV0}}`, []string{"data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": invalid character 's' looking for beginning of value"}},
		"service account": {`type: kubernetes.io/service-account-token`, []string{"metadata.annotations[kubernetes.io/service-account.name]: Required value"}},
	})
	forbiddenWhen(t, manifest, map[string]change{
		"type": {`{type: kubernetes.io/basic-auth, data: {username: YQ==}}`, []string{`type: Invalid value: "kubernetes.io/basic-auth": field is immutable`}},
		"data": {`data: {key: Yg==}`, nil},
	})
}

func TestNamespaces(t *testing.T) {
	const manifest = `{apiVersion: v1, kind: Namespace, metadata: {name: team}, spec: {finalizers: [kubernetes]}}`
	invalidWhen(t, manifest, map[string]change{
		"finalizer": {`spec: {finalizers: [nonsense]}`, []string{`spec.finalizers: Invalid value: "nonsense": name is neither a standard finalizer name nor is it fully qualified`}},
	})
	ns := read(t, manifest).(*corev1.Namespace)
	if !core.TerminateNamespace(ns) || ns.Status.Phase != corev1.NamespaceTerminating {
		t.Errorf("the first deletion leaves the phase %s", ns.Status.Phase)
	}
}

func TestNodeValidation(t *testing.T) {
	const manifest = `{apiVersion: v1, kind: Node, metadata: {name: node1}, spec: {podCIDR: 10.0.0.0/24, taints: [{key: a, effect: NoSchedule}]}}`
	invalidWhen(t, manifest, map[string]change{
		"same taints": {`spec: {taints: [{key: a, effect: NoSchedule}, {key: a, value: b, effect: NoSchedule}]}`, []string{`metadata.taints[1]: Duplicate value: {"Key":"a","Value":"b","Effect":"NoSchedule","TimeAdded":null}: taints must be unique by key and effect pair`}},
		"effect":      {`spec: {taints: [{key: a, effect: Explode}]}`, []string{`metadata.taints[0].effect: Unsupported value: "Explode": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`}},
		"avoid pods":  {`metadata: {annotations: {scheduler.alpha.kubernetes.io/preferAvoidPods: "x"}}`, []string{`metadata.annotations.AvoidPods: Invalid value: "scheduler.alpha.kubernetes.io/preferAvoidPods": invalid character 'x' looking for beginning of value`}},
		"cidr":        {`spec: {podCIDR: x}`, []string{`spec.podCIDRs[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`}},
	})
	forbiddenWhen(t, manifest, map[string]change{
		"cidr":          {`spec: {podCIDR: 10.0.1.0/24}`, []string{`spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid`}},
		"unschedulable": {`spec: {unschedulable: true}`, nil},
	})
}

func TestEventValidation(t *testing.T) {
	const manifest = `{apiVersion: v1, kind: Event, metadata: {name: e, namespace: team}, involvedObject: {kind: Pod, name: p, namespace: team}, reason: Started}`
	invalidWhen(t, manifest, map[string]change{
		"elsewhere":    {`involvedObject: {namespace: other}`, []string{`involvedObject.namespace: Invalid value: "other": does not match event.namespace`}},
		"in a cluster": {`involvedObject: {namespace: null}`, []string{`involvedObject.namespace: Invalid value: "": does not match event.namespace`}},
		"new": {`eventTime: "2026-01-02T03:04:05.000000Z"`, []string{
			"action: Required value", "reportingComponent: Invalid value: …", "reportingComponent: Invalid value: …", "reportingComponent: Required value", "reportingInstance: Required value"}},
		"complete": {`{eventTime: "2026-01-02T03:04:05.000000Z", action: Start, reportingComponent: example.com/operator, reportingInstance: op-1}`, nil},
	})
}
