package builtin

import (
	"slices"
	"testing"
)

func TestNetworkingValidation(t *testing.T) {
	invalidWhen(t, `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i}, spec: {rules: [{host: example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}}`, map[string]change{
		"nothing": {`spec: {rules: null}`, []string{"spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"}},
		"rule": {`spec: {rules: [{host: 1.2.3.4, http: {paths: [{path: a, pathType: Exact, backend: {}}, {path: /, backend: {service: {name: web}}}]}}]}`, []string{
			`spec.rules[0].host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address`,
			`spec.rules[0].http.paths[0].backend: Invalid value: "": resource or service backend is required`,
			`spec.rules[0].http.paths[0].path: Invalid value: "a": must be an absolute path`,
			`spec.rules[0].http.paths[1].pathType: Required value: pathType must be specified`}},
	})
	invalidWhen(t, `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p}, spec: {podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}}`, map[string]change{
		"peer":  {`spec: {ingress: [{from: [{}]}]}`, []string{"spec.ingress[0].from[0]: Required value: must specify a peer"}},
		"block": {`spec: {egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [192.168.0.0/16]}}]}]}`, []string{"spec.egress[0].to[0].ipBlock.except[0]: Invalid value: \"192.168.0.0/16\": must be a strict subset of `cidr`"}},
	})
	const class = `{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: c}, spec: {controller: example.com/ingress}}`
	forbiddenWhen(t, class, map[string]change{
		"controller": {`spec: {controller: example.com/other}`, []string{`spec.controller: Invalid value: "example.com/other": field is immutable`}},
	})
	invalidWhen(t, `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: s}, addressType: IPv4, endpoints: [{addresses: [10.0.0.1]}], ports: [{port: 80}]}`, map[string]change{
		"family":   {`endpoints: [{addresses: ["fe::1"]}]`, []string{`endpoints[0].addresses: Invalid value: "fe::1": must be an IPv4 address`}},
		"none":     {`endpoints: [{addresses: []}]`, []string{`endpoints[0].addresses: Required value`}},
		"loopback": {`endpoints: [{addresses: [127.0.0.1]}]`, []string{`endpoints[0].addresses[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`}},
		"ports":    {`ports: [{port: 80}, {port: 81}]`, []string{`ports[1].name: Duplicate value: ""`}},
	})
}

func TestStorageValidation(t *testing.T) {
	const claim = `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`
	invalidWhen(t, claim, map[string]change{
		"modes":  {`spec: {accessModes: null}`, []string{"spec.accessModes: Required value: at least 1 access mode is required"}},
		"amount": {`spec: {resources: {requests: {storage: null}}}`, []string{"spec.resources[storage]: Required value"}},
	})
	forbiddenWhen(t, claim, map[string]change{
		"bound":  {`spec: {volumeName: v}`, nil},
		"larger": {`spec: {resources: {requests: {storage: 2Gi}}}`, []string{"spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n@@ …"}},
	})
	forbiddenWhen(t, patched(t, claim, `status: {phase: Bound, capacity: {storage: 512Mi}}`), map[string]change{
		"larger":       {`spec: {resources: {requests: {storage: 2Gi}}}`, nil},
		"smaller":      {`spec: {resources: {requests: {storage: 600Mi}}}`, nil},
		"much smaller": {`spec: {resources: {requests: {storage: 1Mi}}}`, []string{"spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"}},
	})
	const volume = `{apiVersion: v1, kind: PersistentVolume, metadata: {name: v}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /data}}}`
	invalidWhen(t, volume, map[string]change{
		"no source":   {`spec: {hostPath: null}`, []string{"spec: Required value: must specify a volume type"}},
		"two sources": {`spec: {nfs: {server: s, path: /p}}`, []string{"spec.nfs: Forbidden: may not specify more than 1 volume type"}},
		"capacity":    {`spec: {capacity: null}`, []string{"spec.capacity: Required value", `spec.capacity: Unsupported value: null: supported values: "storage"`}},
		"attributes":  {`spec: {volumeAttributesClassName: x}`, []string{"spec.csi: Required value: has to be specified when using volumeAttributesClassName"}},
	})
	forbiddenWhen(t, volume, map[string]change{
		"source": {`spec: {hostPath: {path: /other}}`, []string{"spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n@@ …"}},
	})
	const class = `{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, provisioner: example.com/disk}`
	invalidWhen(t, class, map[string]change{
		"provisioner": {`provisioner: null`, []string{"provisioner: Required value"}},
		"binding":     {`volumeBindingMode: Later`, []string{`volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"`}},
	})
	forbiddenWhen(t, class, map[string]change{
		"parameters": {`parameters: {a: b}`, []string{`parameters: Invalid value: null: field is immutable`}},
	})
}

func TestPolicyValidation(t *testing.T) {
	invalidWhen(t, `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b}, spec: {minAvailable: 1, selector: {matchLabels: {a: b}}}}`, map[string]change{
		"both":    {`spec: {maxUnavailable: 1}`, []string{"spec: Invalid value: …"}},
		"percent": {`spec: {minAvailable: 101%}`, []string{"spec.minAvailable: Invalid value: …"}},
	})
	const class = `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}`
	invalidWhen(t, class, map[string]change{
		"too high": {`value: 2000000000`, []string{"value: Forbidden: maximum allowed value of a user defined priority is 1000000000"}},
		"reserved": {`metadata: {name: system-x}`, []string{"metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-x is not a known system priority class"}},
	})
	forbiddenWhen(t, class, map[string]change{"value": {`value: 1`, []string{"value: Forbidden: may not be changed in an update."}}})
	invalidWhen(t, `{apiVersion: v1, kind: LimitRange, metadata: {name: l}, spec: {limits: [{type: Container, max: {cpu: "2"}, min: {cpu: "1"}}]}}`, map[string]change{
		"order": {`spec: {limits: [{type: Pod, max: {cpu: "1"}, min: {cpu: "2"}}]}`, []string{"spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1"}},
		"default": {`spec: {limits: [{type: Container, max: {cpu: "1"}, default: {cpu: "2"}}]}`, []string{
			`spec.limits[0].defaultRequest[cpu]: Invalid value: "2": default request value 2 is greater than max value 1`,
			`spec.limits[0].default[cpu]: Invalid value: "1": default value 2 is greater than max value 1`}},
		"defaults": {`spec: {limits: [{type: Container, min: {cpu: "3"}, default: {cpu: "1"}, defaultRequest: {cpu: "2"}}]}`, []string{
			`spec.limits[0].defaultRequest[cpu]: Invalid value: "2": default request value 2 is greater than default limit value 1`,
			`spec.limits[0].defaultRequest[cpu]: Invalid value: "2": min value 3 is greater than default request value 2`,
			`spec.limits[0].default[cpu]: Invalid value: "3": min value 3 is greater than default value 1`}},
		"ratio": {`spec: {limits: [{type: Container, max: {cpu: "2"}, min: {cpu: "1"}, maxLimitRequestRatio: {cpu: "0.5", memory: 1, foo: 1}}, {type: Pod, max: {cpu: "2"}, min: {cpu: "1"}, maxLimitRequestRatio: {cpu: 3}}]}`, []string{
			`spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1`,
			`spec.limits[0].maxLimitRequestRatio[foo]: Invalid value: "foo": must be a standard resource for containers`,
			`spec.limits[0].maxLimitRequestRatio[foo]: Invalid value: "foo": must be a standard resource type or fully qualified`,
			`spec.limits[1].maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = 2.000000`}},
		"types": {`spec: {limits: [{type: Foo}, {type: PersistentVolumeClaim}, {type: x.io/y}]}`, []string{
			`spec.limits[0].type: Invalid value: "Foo": must be a standard limit type or fully qualified`,
			`spec.limits[1].limits: Required value: either minimum or maximum storage value is required, but neither was provided`}},
		"pages": {`spec: {limits: [{type: Container, default: {hugepages-2Mi: 4Mi}, defaultRequest: {hugepages-2Mi: 2Mi}}]}`, []string{
			`spec.limits[0].defaultRequest[hugepages-2Mi]: Invalid value: "2Mi": default value 4Mi must equal to defaultRequest value 2Mi in hugepages-2Mi`}},
	})
	invalidWhen(t, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: 5, requests.cpu: 1500m}}}`, map[string]change{
		"parts": {`spec: {hard: {pods: 500m}}`, []string{`spec.hard[pods]: Invalid value: "500m": must be an integer`}},
		"scopes": {`spec: {hard: {requests.cpu: null}, scopes: [BestEffort, NotBestEffort, Foo]}`, []string{
			`spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Foo"]: conflicting scopes`,
			`spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Foo"]: unsupported scope`}},
		"scope of a resource": {`spec: {scopes: [BestEffort]}`, []string{`spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource`}},
		"resource":            {`spec: {hard: {foo: 1, x.io/foo: 1, count/foo: 1}}`, []string{`spec.hard[foo]: Invalid value: "foo": must be a standard resource for quota`, `spec.hard[foo]: Invalid value: "foo": must be a standard resource type or fully qualified`}},
		"selector": {`spec: {scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In}, {scopeName: Terminating, operator: DoesNotExist, values: [a]}, {scopeName: Foo, operator: Bar}]}}`, []string{
			`spec.scopeSelector.matchExpressions.operator: Invalid value: "Bar": not a valid selector operator`,
			`spec.scopeSelector.matchExpressions.operator: Invalid value: …`,
			`spec.scopeSelector.matchExpressions.scopeName: Invalid value: "Foo": unsupported scope`,
			`spec.scopeSelector.matchExpressions.values: Invalid value: ["a"]: must be no value when ` + "`operator` is 'Exist' or 'DoesNotExist' for scope selector",
			"spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"}},
	})
	invalidWhen(t, `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: h}, spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}`, map[string]change{
		"order": {`spec: {minReplicas: 4}`, []string{"spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`"}},
		"metric": {`spec: {metrics: [{type: Pods, resource: {name: cpu, target: {type: Utilization}}}]}`, []string{
			"spec.metrics[0].pods: Required value: must populate information for the given metric source",
			"spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization"}},
		"metric of two sources": {`spec: {metrics: [{type: Pods, resource: {name: cpu}, pods: {metric: {name: m}, target: {type: AverageValue, averageValue: 1}}}]}`, []string{
			"spec.metrics[0].resource: Forbidden: must populate the given metric source only"}},
		"metric of no type": {`spec: {metrics: [{}]}`, []string{
			"spec.metrics[0].type: Required value: must specify a metric source type",
			`spec.metrics[0].type: Unsupported value: "": supported values: "ContainerResource", "External", "Object", "Pods", "Resource"`}},
	})
}

func TestWebhookValidation(t *testing.T) {
	invalidWhen(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: w}
webhooks:
- name: pods.example.com
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {service: {name: hook, namespace: team}}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
`, map[string]change{
		"everything": {`webhooks: [{name: pods, timeoutSeconds: 31, clientConfig: {url: "http://x?y"}, rules: [{apiGroups: ["*", a], operations: [READ]}]}]`, []string{
			`webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1`,
			`webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]`,
			`webhooks[0].clientConfig.url: Invalid value: "y": query parameters are not permitted in the URL`,
			`webhooks[0].name: Invalid value: "pods": should be a domain with at least three segments separated by dots`,
			`webhooks[0].rules[0].apiGroups: Invalid value: ["*","a"]: if '*' is present, must not specify other API groups`,
			`webhooks[0].rules[0].apiVersions: Required value`,
			`webhooks[0].rules[0].operations[0]: Unsupported value: "READ": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"`,
			`webhooks[0].rules[0].resources: Required value`,
			`webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun`,
			`webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds`}},
	})
}

func TestRBACValidation(t *testing.T) {
	invalidWhen(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: "a:b"}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`, map[string]change{
		"empty rule": {`rules: [{}]`, []string{
			"rules[0].apiGroups: Required value: resource rules must supply at least one api group",
			"rules[0].resources: Required value: resource rules must supply at least one resource",
			"rules[0].verbs: Required value"}},
		"urls": {`rules: [{nonResourceURLs: [/x], verbs: [get]}]`, []string{`rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs`}},
	})
	invalidWhen(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: r}, rules: [{nonResourceURLs: [/x], verbs: [get]}]}`, map[string]change{
		"aggregation": {`aggregationRule: {}`, []string{"aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil"}},
	})
	const binding = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: b}, roleRef: {kind: ClusterRole, name: r}, subjects: [{kind: User, name: ann}]}`
	invalidWhen(t, binding, map[string]change{
		"role":    {`roleRef: {kind: Role}`, []string{`roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"`}},
		"no role": {`roleRef: {name: ""}`, []string{`roleRef.name: Required value`}},
		"subjects": {`subjects: [{kind: Robot, name: r}, {kind: ServiceAccount, name: s}]`, []string{
			`subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"`,
			`subjects[1].namespace: Required value`}},
	})
	forbiddenWhen(t, binding, map[string]change{
		"role":     {`roleRef: {name: other}`, []string{`roleRef: Invalid value: …`}},
		"subjects": {`subjects: null`, nil},
	})
}

func TestLeaseValidation(t *testing.T) {
	invalidWhen(t, `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: l}, spec: {leaseDurationSeconds: 15}}`, map[string]change{
		"duration":    {`spec: {leaseDurationSeconds: 0}`, []string{"spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"}},
		"transitions": {`spec: {leaseTransitions: -1}`, []string{"spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"}},
	})
}

// TestEndpointSliceAddresses warns about a stored address that new slices may not have, unless a controller manages the slice.
func TestEndpointSliceAddresses(t *testing.T) {
	const slice = `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: x}, addressType: IPv6, endpoints: [{addresses: ["FD00::1"]}]}`
	for patch, want := range map[string][]string{
		`{}`: {`endpoints[0].addresses[0]: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")`},
		`metadata: {labels: {endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io}}`: nil,
	} {
		s := read(t, patched(t, slice, patch))
		if got := describeKindOf(t, s).call("Warnings", s, s)[0].Interface().([]string); !slices.Equal(got, want) {
			t.Errorf("%s: warned %q, want %q", patch, got, want)
		}
	}
}
