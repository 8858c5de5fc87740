package builtin

import "testing"

func TestCSIValidation(t *testing.T) {
	const driver = `{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: csi.example.com}, spec: {tokenRequests: [{audience: a}]}}`
	invalidWhen(t, driver, map[string]change{
		"policy":   {`spec: {fsGroupPolicy: Never}`, []string{`spec.fsGroupPolicy: Unsupported value: "Never": supported values: "File", "None", "ReadWriteOnceWithFSType"`}},
		"modes":    {`spec: {volumeLifecycleModes: [Eternal]}`, []string{`spec.volumeLifecycleModes: Unsupported value: "Eternal": supported values: "Persistent", "Ephemeral"`}},
		"audience": {`spec: {tokenRequests: [{audience: a}, {audience: a}]}`, []string{`spec.tokenRequests[1].audience: Duplicate value: "a"`}},
		"short":    {`spec: {tokenRequests: [{audience: a, expirationSeconds: 599}]}`, []string{"spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"}},
		"secrets":  {`spec: {tokenRequests: null, serviceAccountTokenInSecrets: true}`, []string{"spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no tokenRequests are specified"}},
		"period":   {`spec: {nodeAllocatableUpdatePeriodSeconds: 9}`, []string{"spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds"}},
	})
	forbiddenWhen(t, driver, map[string]change{
		"attach": {`spec: {attachRequired: false}`, []string{"spec.attachedRequired: Invalid value: false: field is immutable"}},
		"tokens": {`spec: {tokenRequests: []}`, nil},
	})
	const node = `{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: node}, spec: {drivers: [{name: csi.example.com, nodeID: id, topologyKeys: [example.com/zone]}]}}`
	invalidWhen(t, node, map[string]change{
		"twice":    {`spec: {drivers: [{name: a, nodeID: id, topologyKeys: []}, {name: a, nodeID: id, topologyKeys: []}]}`, []string{`spec.drivers[1].name: Duplicate value: "a"`}},
		"nameless": {`spec: {drivers: [{name: "", nodeID: "", topologyKeys: []}]}`, []string{"spec.drivers[0].name: Required value", "spec.drivers[0].nodeID: Required value"}},
		"count":    {`spec: {drivers: [{name: a, nodeID: id, topologyKeys: [x, x], allocatable: {count: -1}}]}`, []string{"spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0", `spec.drivers[0]: Duplicate value: "x"`}},
	})
	forbiddenWhen(t, node, map[string]change{
		"allocatable": {`spec: {drivers: [{name: csi.example.com, nodeID: id, topologyKeys: [example.com/zone], allocatable: {count: 3}}]}`, nil},
		"identifier":  {`spec: {drivers: [{name: csi.example.com, nodeID: id2, topologyKeys: [example.com/zone]}]}`, []string{"spec.drivers: Invalid value: …"}},
	})
	const attachment = `{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, metadata: {name: a}, spec: {attacher: csi.example.com, nodeName: node, source: {persistentVolumeName: v}}}`
	invalidWhen(t, attachment, map[string]change{
		"no source": {`spec: {source: {persistentVolumeName: null}}`, []string{"spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"}},
		"inline":    {`spec: {source: {persistentVolumeName: null, inlineVolumeSpec: {accessModes: [ReadWriteOnce], csi: {driver: csi.example.com, volumeHandle: h}}}}`, nil},
		"not csi":   {`spec: {source: {persistentVolumeName: null, inlineVolumeSpec: {accessModes: [ReadWriteOnce], hostPath: {path: /a}}}}`, []string{"spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes"}},
		"attacher":  {`spec: {attacher: a_b}`, []string{`spec.attacher: Invalid value: "a_b": an RFC 1123 subdomain …`}},
		"error":     {`status: {attached: false, attachError: {errorCode: -1}}`, []string{"status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive"}},
	})
	forbiddenWhen(t, attachment, map[string]change{"node": {`spec: {nodeName: other}`, []string{"spec: Invalid value: …"}}})
	const capacity = `{apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, metadata: {name: c}, storageClassName: fast, capacity: 1Gi}`
	invalidWhen(t, capacity, map[string]change{"negative": {`capacity: -1`, []string{`capacity: Invalid value: "-1": must be greater than or equal to 0`}}})
	forbiddenWhen(t, capacity, map[string]change{
		"class":    {`storageClassName: slow`, []string{`storageClassName: Invalid value: "slow": field is immutable`}},
		"capacity": {`capacity: 2Gi`, nil},
	})
	const class = `{apiVersion: storage.k8s.io/v1, kind: VolumeAttributesClass, metadata: {name: c}, driverName: csi.example.com, parameters: {iops: "3"}}`
	invalidWhen(t, class, map[string]change{"empty": {`{driverName: "", parameters: null}`, []string{"driverName: Required value", "parameters: Required value: must contain at least one key/value pair"}}})
	forbiddenWhen(t, class, map[string]change{"parameters": {`parameters: {iops: "4"}`, []string{"parameters: Forbidden: updates to parameters are forbidden."}}})
}

func TestFlowControlValidation(t *testing.T) {
	invalidWhen(t, `{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: FlowSchema, metadata: {name: f}, spec: {priorityLevelConfiguration: {name: p}, rules: [{subjects: [{kind: User, user: {name: ann}}], resourceRules: [{verbs: [get], apiGroups: [""], resources: [pods], namespaces: ["*"]}]}]}}`, map[string]change{
		"precedence": {`spec: {matchingPrecedence: 1}`, []string{"spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1"}},
		"level":      {`spec: {priorityLevelConfiguration: null}`, []string{"spec.priorityLevelConfiguration.name: Required value: must reference a priority level"}},
		"subjects":   {`spec: {rules: [{subjects: []}]}`, []string{"spec.rules[0].subjects: Required value: subjects must contain at least one value", "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty"}},
		"subject":    {`spec: {rules: [{subjects: [{kind: Group, user: {name: ann}}], nonResourceRules: [{verbs: ["*"], nonResourceURLs: [healthz]}]}]}`, []string{"spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: \"healthz\": must start with slash", "spec.rules[0].subjects[0].group: Required value: group is required when subject kind is 'Group'", "spec.rules[0].subjects[0].user: Forbidden: user is forbidden when subject kind is not 'User'"}},
		"verbs":      {`spec: {rules: [{subjects: [{kind: User, user: {name: ann}}], resourceRules: [{verbs: [fly], apiGroups: ["*", a], resources: [], clusterScope: true}]}]}`, []string{"spec.rules[0].resourceRules[0].apiGroups: Invalid value: [\"*\",\"a\"]: if '*' is present, must not specify other api groups", "spec.rules[0].resourceRules[0].resources: Required value: resource rules must supply at least one resource", "spec.rules[0].resourceRules[0].verbs: Unsupported value: [\"fly\"]: supported values: …"}},
		"fixed":      {`metadata: {name: catch-all}`, []string{"spec: Invalid value: …"}},
	})
	invalidWhen(t, `{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: PriorityLevelConfiguration, metadata: {name: p}, spec: {type: Limited, limited: {limitResponse: {type: Queue, queuing: {}}}}}`, map[string]change{
		"type":    {`spec: {type: Exempt, limited: null}`, []string{"spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'"}},
		"reject":  {`spec: {limited: {limitResponse: {type: Reject}}}`, []string{"spec.limited.limitResponse.queuing: Forbidden"}},
		"hand":    {`spec: {limited: {limitResponse: {queuing: {queues: 4, handSize: 5}}}}`, []string{"spec.limited.limitResponse.queuing.handSize: Invalid value: 5: should not be greater than queues (4)"}},
		"entropy": {`spec: {limited: {limitResponse: {queuing: {queues: 1000, handSize: 100}}}}`, []string{"spec.limited.limitResponse.queuing.handSize: Invalid value: 100: required entropy bits of deckSize 1000 and handSize 100 should not be greater than 60"}},
		"shares":  {`spec: {limited: {nominalConcurrencyShares: -1, lendablePercent: 101}}`, []string{"spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive", "spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer"}},
	})
}

func TestServiceNetworkValidation(t *testing.T) {
	const network = `{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: more}, spec: {cidrs: [10.0.0.0/16]}}`
	invalidWhen(t, network, map[string]change{
		"none":   {`spec: {cidrs: []}`, []string{"spec.cidrs: Required value: at least one CIDR required"}},
		"family": {`spec: {cidrs: [10.0.0.0/16, 10.1.0.0/16]}`, []string{`spec.cidrs: Invalid value: ["10.0.0.0/16","10.1.0.0/16"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64`}},
		"bits":   {`spec: {cidrs: [10.0.0.1/16]}`, []string{"spec.cidrs[0]: Invalid value: …"}},
	})
	forbiddenWhen(t, network, map[string]change{
		"second": {`spec: {cidrs: [10.0.0.0/16, "fd00::/108"]}`, nil},
		"other":  {`spec: {cidrs: [10.1.0.0/16]}`, []string{`spec.cidrs[0]: Invalid value: "10.1.0.0/16": field is immutable`}},
	})
	const address = `{apiVersion: networking.k8s.io/v1, kind: IPAddress, metadata: {name: 10.0.0.1}, spec: {parentRef: {resource: services, namespace: default, name: web}}}`
	invalidWhen(t, address, map[string]change{
		"no parent": {`spec: {parentRef: null}`, []string{"spec.parentRef: Required value"}},
		"parent":    {`spec: {parentRef: {resource: "", name: a/b}}`, []string{`spec.parentRef.name: Invalid value: "a/b": may not contain '/'`, "spec.parentRef.resource: Required value"}},
	})
	forbiddenWhen(t, address, map[string]change{"parent": {`spec: {parentRef: {name: api}}`, []string{"spec.parentRef: Invalid value: …"}}})
}
