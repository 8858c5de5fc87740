package builtin

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
)

func TestResourceClaimValidation(t *testing.T) {
	const claim = `{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c}, spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com, selectors: [{cel: {expression: "device.driver == 'gpu.example.com'"}}]}}]}}}`
	invalidWhen(t, claim, map[string]change{
		"form":       {`spec: {devices: {requests: [{name: gpu}]}}`, []string{"spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"}},
		"twice":      {`spec: {devices: {requests: [{name: a, exactly: {deviceClassName: c}}, {name: a, exactly: {deviceClassName: c}}]}}`, []string{`spec.devices.requests[1]: Duplicate value: {"name":"a","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1}}`}},
		"class":      {`spec: {devices: {requests: [{name: a, exactly: {deviceClassName: ""}}]}}`, []string{"spec.devices.requests[0].exactly.deviceClassName: Required value"}},
		"count":      {`spec: {devices: {requests: [{name: a, exactly: {deviceClassName: c, allocationMode: All, count: 2}}]}}`, []string{"spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'"}},
		"mode":       {`spec: {devices: {requests: [{name: a, exactly: {deviceClassName: c, allocationMode: Some}}]}}`, []string{`spec.devices.requests[0].exactly.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"`}},
		"expression": {`spec: {devices: {requests: [{name: a, exactly: {deviceClassName: c, selectors: [{cel: {expression: "device."}}]}}]}}`, []string{`spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: "device.": compilation failed: …`}},
		"result":     {`spec: {devices: {requests: [{name: a, exactly: {deviceClassName: c, selectors: [{cel: {expression: "1"}}]}}]}}`, []string{`spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: "1": must evaluate to bool…`}},
		"constraint": {`spec: {devices: {constraints: [{requests: [tpu], matchAttribute: model}]}}`, []string{
			`spec.devices.constraints[0].matchAttribute: Invalid value: "model": a fully qualified name must be a domain and a name separated by a slash`,
			`spec.devices.constraints[0].requests[0]: Invalid value: "tpu": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'`}},
		"parameters":  {`spec: {devices: {config: [{opaque: {driver: d, parameters: [1]}}]}}`, []string{`spec.devices.config[0].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object`}},
		"tolerations": {`spec: {devices: {requests: [{name: a, exactly: {deviceClassName: c, tolerations: [{operator: Exists, value: v, effect: Never}]}}]}}`, []string{`spec.devices.requests[0].exactly.tolerations[0].effect: Unsupported value: "Never": supported values: "NoExecute", "NoSchedule", "None"`, "spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: \"v\": must be empty for operator `Exists`"}},
	})
	forbiddenWhen(t, claim, map[string]change{"class": {`spec: {devices: {requests: []}}`, []string{"spec: Invalid value: …"}}})
	invalidWhen(t, `{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: c}, spec: {metadata: {labels: {a: b}}, spec: {devices: {requests: [{name: gpu, firstAvailable: [{name: big, deviceClassName: big}, {name: small, deviceClassName: small}]}]}}}}`, map[string]change{
		"label": {`spec: {metadata: {labels: {a: "b c"}}}`, []string{`spec.metadata.labels: Invalid value: "b c": …`}},
		"name":  {`spec: {spec: {devices: {requests: [{name: gpu, firstAvailable: [{name: big/er, deviceClassName: big}]}]}}}`, []string{`spec.spec.devices.requests[0].firstAvailable[0].name: Invalid value: "big/er": …`}},
	})
}

func TestResourceClaimStatus(t *testing.T) {
	const (
		claim     = `{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c}, spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}`
		allocated = `status: {allocation: {devices: {results: [{request: gpu, driver: gpu.example.com, pool: node, device: gpu-0}]}}}`
	)
	d := describeKindOf(t, read(t, claim))
	for name, tc := range map[string]struct {
		old, patch string
		want       []string
	}{
		"allocation": {claim, allocated, nil},
		"request":    {claim, `status: {allocation: {devices: {results: [{request: tpu, driver: gpu.example.com, pool: node, device: gpu-0}]}}}`, []string{`status.allocation.devices.results[0].request: Invalid value: "tpu": must be …`}},
		"reserved":   {claim, `status: {reservedFor: [{resource: pods, name: p, uid: u}]}`, []string{"status.reservedFor: Forbidden: may not be specified when `allocated` is not set"}},
		"changed":    {patched(t, claim, allocated), `status: {allocation: {devices: {results: [{request: gpu, driver: gpu.example.com, pool: node, device: gpu-1}]}}}`, []string{"status.allocation: Invalid value: …"}},
		"other device": {patched(t, claim, allocated), `status: {devices: [{driver: gpu.example.com, pool: node, device: gpu-1, conditions: []}]}`,
			[]string{`status.devices[0]: Invalid value: {"Driver":"gpu.example.com","Pool":"node","Device":"gpu-1","ShareID":""}: must be an allocated device in the claim`}},
		"deleted": {patched(t, patched(t, claim, allocated), `metadata: {deletionTimestamp: "2020-01-01T00:00:00Z"}`), `status: {reservedFor: [{resource: pods, name: p, uid: u}]}`,
			[]string{"status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"}},
	} {
		t.Run(name, func(t *testing.T) {
			compareMessages(t, tc.want, messages(d.errors("ValidateStatus", read(t, patched(t, tc.old, tc.patch)), read(t, tc.old))))
		})
	}
}

func TestDeviceValidation(t *testing.T) {
	const slice = `{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: s}, spec: {driver: gpu.example.com, nodeName: node, pool: {name: node, resourceSliceCount: 1}, devices: [{name: gpu-0, attributes: {model: {string: a100}, driverVersion: {version: 1.2.3}}, capacity: {memory: {value: 40Gi}}}]}}`
	invalidWhen(t, slice, map[string]change{
		"nodes":     {`spec: {nodeName: null}`, []string{"spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"}},
		"two":       {`spec: {allNodes: true}`, []string{"spec: Invalid value: \"{`nodeName`, `allNodes`}\": exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set"}},
		"pool":      {`spec: {pool: {name: a//b, resourceSliceCount: 0, generation: -1}}`, []string{"spec.pool.generation: Invalid value: -1: must be greater than or equal to zero", `spec.pool.name: Invalid value: "": …`, "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero"}},
		"attribute": {`spec: {devices: [{name: a, attributes: {x: {}, "y-z": {int: 1, bool: true}}}]}`, []string{`spec.devices[0].attributes: Invalid value: "y-z": …`, `spec.devices[0].attributes[x]: Invalid value: "": …`, `spec.devices[0].attributes[y-z]: Invalid value: "{int, bool}": …`}},
		"version":   {`spec: {devices: [{name: a, attributes: {x: {version: "1"}}}]}`, []string{`spec.devices[0].attributes[x].version: Invalid value: "1": must be a string compatible with semver.org spec 2.0.0`}},
		"policy":    {`spec: {devices: [{name: a, capacity: {memory: {value: 1Gi, requestPolicy: {default: 1Gi}}}}]}`, []string{"spec.devices[0].capacity[memory].requestPolicy: Forbidden: allowMultipleAllocations must be true"}},
		"range":     {`spec: {devices: [{name: a, allowMultipleAllocations: true, capacity: {memory: {value: 10, requestPolicy: {default: 3, validRange: {min: 2, max: 20, step: 2}}}}}]}`, []string{"spec.devices[0].capacity[memory].requestPolicy.validRange.max: Invalid value: \"20\": max is larger than capacity value: 10", `spec.devices[0].capacity[memory].requestPolicy.validRange.step: Invalid value: "3": value is not a multiple of a given step (2) from (2)`}},
		"bindings":  {`spec: {devices: [{name: a, bindingConditions: [x]}]}`, []string{"spec.devices[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions"}},
		"taint":     {`spec: {devices: [{name: a, taints: [{key: k, effect: Never}]}]}`, []string{`spec.devices[0].taints[0].effect: Unsupported value: "Never": supported values: "NoExecute", "NoSchedule", "None"`}},
		"per node":  {`spec: {devices: [{name: a, allNodes: true}]}`, []string{"spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"}},
	})
	forbiddenWhen(t, slice, map[string]change{
		"driver":  {`spec: {driver: tpu.example.com}`, []string{`spec.driver: Invalid value: "tpu.example.com": field is immutable`}},
		"devices": {`spec: {devices: []}`, nil},
	})
	invalidWhen(t, `{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: c}, spec: {selectors: [{cel: {expression: "true"}}]}}`, map[string]change{
		"selector": {`spec: {selectors: [{}]}`, []string{"spec.selectors[0].cel: Required value"}},
		"resource": {`spec: {extendedResourceName: cpu}`, []string{`spec.extendedResourceName: Invalid value: "cpu": a name must be a domain-prefixed path, such as 'example.com/my-prop'`}},
	})
	invalidWhen(t, `{apiVersion: resource.k8s.io/v1, kind: DeviceTaintRule, metadata: {name: r}, spec: {taint: {key: k, effect: NoSchedule}}}`, map[string]change{
		"taint":    {`spec: {taint: {key: "", effect: ""}}`, []string{"spec.taint.effect: Required value", `spec.taint.key: Invalid value: "": name part must be non-empty`, `spec.taint.key: Invalid value: "": name part must consist of …`}},
		"selector": {`spec: {deviceSelector: {driver: A_b}}`, []string{`spec.deviceSelector.driver: Invalid value: "A_b": …`}},
	})
}

func TestAPIServiceValidation(t *testing.T) {
	invalidWhen(t, `{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1beta1.metrics.k8s.io}, spec: {group: metrics.k8s.io, version: v1beta1, groupPriorityMinimum: 100, versionPriority: 100, service: {namespace: kube-system, name: metrics-server}}}`, map[string]change{
		"name":       {`spec: {version: v1}`, []string{"metadata.name: Invalid value: \"v1beta1.metrics.k8s.io\": must be `spec.version+\".\"+spec.group`: \"v1.metrics.k8s.io\""}},
		"priorities": {`spec: {groupPriorityMinimum: 0, versionPriority: 1001}`, []string{"spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000", "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000"}},
		"service":    {`spec: {service: {namespace: "", name: "", port: 70000}}`, []string{"spec.service.name: Required value", "spec.service.namespace: Required value", "spec.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive"}},
		"both":       {`spec: {insecureSkipTLSVerify: true, caBundle: YQ==}`, []string{"spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"}},
		"local":      {`spec: {service: null, caBundle: YQ==}`, []string{`spec.caBundle: Invalid value: "1 bytes": local APIServices may not have a caBundle`}},
		"group":      {`{metadata: {name: "v2."}, spec: {group: "", version: v2}}`, []string{"spec.group: Required value: only v1 may have an empty group and it better be legacy kube"}},
	})
}

// TestTaintTimes updates the effect of a taint without its time, and with it.
func TestTaintTimes(t *testing.T) {
	const rule = `{apiVersion: resource.k8s.io/v1, kind: DeviceTaintRule, metadata: {name: r}, spec: {taint: {key: k, effect: NoSchedule, timeAdded: "2020-01-01T00:00:00Z"}}}`
	for patch, want := range map[string]bool{
		`{}`:                                 true,
		`spec: {taint: {effect: NoExecute}}`: false,
		`spec: {taint: {effect: NoSchedule, value: v}}`: true,
	} {
		old, now := read(t, rule).(*resourcev1.DeviceTaintRule), read(t, patched(t, rule, patch)).(*resourcev1.DeviceTaintRule)
		describeKindOf(t, now).call("Prepare", t.Context(), now, old)
		if got := now.Spec.Taint.TimeAdded.Equal(old.Spec.Taint.TimeAdded); got != want {
			t.Errorf("%s: the time stays: %v, want %v", patch, got, want)
		}
	}
}
