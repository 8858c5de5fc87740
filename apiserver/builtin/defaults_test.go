package builtin

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// read decodes a manifest with the defaults of its kind.
func read(t testing.TB, manifest string) runtime.Object {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	obj, _, err := Codecs().UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		t.Fatalf("decode: %v\n%s", err, manifest)
	}
	Scheme().Default(obj)
	return obj
}

func TestDefaults(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"pod": {`
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  serviceAccount: robot
  containers:
  - name: web
    image: nginx
    ports: [{containerPort: 80}]
    env: [{name: ME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    resources: {limits: {cpu: 100m}}
    readinessProbe: {httpGet: {port: 80}}
    lifecycle: {preStop: {httpGet: {port: 80}}}
  initContainers:
  - {name: setup, image: "example.com:5000/setup:v1"}
  volumes:
  - {name: scratch}
  - {name: settings, configMap: {name: settings}}
  - {name: keys, secret: {secretName: keys}}
  - {name: host, hostPath: {path: /var}}
  - name: mixed
    projected:
      sources:
      - serviceAccountToken: {path: token}
      - downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}
`, `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: web
    image: nginx
    imagePullPolicy: Always
    ports: [{containerPort: 80, protocol: TCP}]
    env: [{name: ME, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}]
    resources: {limits: {cpu: 100m}, requests: {cpu: 100m}}
    readinessProbe: {httpGet: {path: /, port: 80, scheme: HTTP}, failureThreshold: 3, periodSeconds: 10, successThreshold: 1, timeoutSeconds: 1}
    lifecycle: {preStop: {httpGet: {path: /, port: 80, scheme: HTTP}}}
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
  dnsPolicy: ClusterFirst
  enableServiceLinks: true
  initContainers:
  - {name: setup, image: "example.com:5000/setup:v1", imagePullPolicy: IfNotPresent, resources: {}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}
  restartPolicy: Always
  schedulerName: default-scheduler
  securityContext: {}
  serviceAccount: robot
  serviceAccountName: robot
  terminationGracePeriodSeconds: 30
  volumes:
  - {name: scratch, emptyDir: {}}
  - {name: settings, configMap: {name: settings, defaultMode: 420}}
  - {name: keys, secret: {secretName: keys, defaultMode: 420}}
  - {name: host, hostPath: {path: /var, type: ""}}
  - name: mixed
    projected:
      defaultMode: 420
      sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3600}
      - downwardAPI: {items: [{path: labels, fieldRef: {apiVersion: v1, fieldPath: metadata.labels}}]}
`},
		"resources of a whole pod, which its creation completes": {`
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  resources: {limits: {cpu: "4", memory: 1Gi}}
  initContainers:
  - {name: side, image: "a:1", restartPolicy: Always, resources: {requests: {cpu: 100m}}}
  - {name: setup, image: "a:1", resources: {requests: {cpu: "3"}}}
  containers:
  - {name: web, image: "a:1", resources: {requests: {cpu: "1"}}}
`, `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - {name: web, image: "a:1", imagePullPolicy: IfNotPresent, resources: {requests: {cpu: "1"}}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}
  dnsPolicy: ClusterFirst
  enableServiceLinks: true
  initContainers:
  - {name: side, image: "a:1", imagePullPolicy: IfNotPresent, restartPolicy: Always, resources: {requests: {cpu: 100m}}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}
  - {name: setup, image: "a:1", imagePullPolicy: IfNotPresent, resources: {requests: {cpu: "3"}}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}
  resources: {limits: {cpu: "4", memory: 1Gi}}
  restartPolicy: Always
  schedulerName: default-scheduler
  securityContext: {}
  terminationGracePeriodSeconds: 30
`},
		"stateful set": {`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: null}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
`, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Retain, whenScaled: Retain}
  podManagementPolicy: OrderedReady
  replicas: 1
  revisionHistoryLimit: 10
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: null, dnsPolicy: ClusterFirst, restartPolicy: Always, schedulerName: default-scheduler, securityContext: {}, terminationGracePeriodSeconds: 30}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, partition: 0}}
  volumeClaimTemplates: [{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, volumeMode: Filesystem}, status: {phase: Pending}}]
status: {replicas: 0, availableReplicas: 0}
`},
		"job": {
			`{apiVersion: batch/v1, kind: Job, metadata: {name: once}, spec: {template: {metadata: {labels: {a: b}}, spec: {containers: null, restartPolicy: Never}}}}`,
			`{apiVersion: batch/v1, kind: Job, metadata: {name: once, labels: {a: b}}, spec: {backoffLimit: 6, completionMode: NonIndexed, completions: 1, manualSelector: false, parallelism: 1, podReplacementPolicy: TerminatingOrFailed, suspend: false, template: {metadata: {labels: {a: b}}, spec: {containers: null, dnsPolicy: ClusterFirst, restartPolicy: Never, schedulerName: default-scheduler, securityContext: {}, terminationGracePeriodSeconds: 30}}}}`,
		},
		"webhook": {
			`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: w}, webhooks: [{name: a.b.c, clientConfig: {service: {name: s, namespace: t}}, rules: [{operations: [CREATE]}], sideEffects: None, admissionReviewVersions: [v1]}]}`,
			`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: w}, webhooks: [{name: a.b.c, clientConfig: {service: {name: s, namespace: t, port: 443}}, rules: [{operations: [CREATE], scope: "*"}], sideEffects: None, admissionReviewVersions: [v1], failurePolicy: Fail, matchPolicy: Equivalent, namespaceSelector: {}, objectSelector: {}, timeoutSeconds: 10}]}`,
		},
		"autoscaler": {
			`{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: h}, spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: web}, behavior: {scaleDown: {stabilizationWindowSeconds: 5}}}}`,
			`{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: h}, spec: {minReplicas: 1, maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: web}, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}], behavior: {scaleUp: {stabilizationWindowSeconds: 0, selectPolicy: Max, policies: [{type: Pods, value: 4, periodSeconds: 15}, {type: Percent, value: 100, periodSeconds: 15}]}, scaleDown: {stabilizationWindowSeconds: 5, selectPolicy: Max, policies: [{type: Percent, value: 100, periodSeconds: 15}]}}}, status: {desiredReplicas: 0, currentMetrics: null}}`,
		},
		"limits": {
			`{apiVersion: v1, kind: LimitRange, metadata: {name: l}, spec: {limits: [{type: Container, max: {cpu: "2"}, min: {memory: 1Gi}}]}}`,
			`{apiVersion: v1, kind: LimitRange, metadata: {name: l}, spec: {limits: [{type: Container, max: {cpu: "2"}, min: {memory: 1Gi}, default: {cpu: "2"}, defaultRequest: {cpu: "2", memory: 1Gi}}]}}`,
		},
		"deployment": {`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "nginx:1", resources: {limits: {cpu: 100m}}}]}
`, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  progressDeadlineSeconds: 600
  replicas: 1
  revisionHistoryLimit: 10
  selector: {matchLabels: {app: web}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: "nginx:1", imagePullPolicy: IfNotPresent, resources: {limits: {cpu: 100m}}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}]
      dnsPolicy: ClusterFirst
      restartPolicy: Always
      schedulerName: default-scheduler
      securityContext: {}
      terminationGracePeriodSeconds: 30
status: {}
`},
		"recreate": {`
apiVersion: apps/v1
kind: Deployment
spec: {replicas: 0, selector: null, strategy: {type: Recreate}, template: {spec: {containers: null, securityContext: {runAsUser: 1}}}}
`, `
apiVersion: apps/v1
kind: Deployment
metadata: {}
spec:
  progressDeadlineSeconds: 600
  replicas: 0
  revisionHistoryLimit: 10
  selector: null
  strategy: {type: Recreate}
  template:
    metadata: {}
    spec: {containers: null, dnsPolicy: ClusterFirst, restartPolicy: Always, schedulerName: default-scheduler, securityContext: {runAsUser: 1}, terminationGracePeriodSeconds: 30}
status: {}
`},
		"service": {`
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}, {name: named, port: 81, targetPort: http}]}
`, `
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  internalTrafficPolicy: Cluster
  ports: [{port: 80, protocol: TCP, targetPort: 80}, {name: named, port: 81, protocol: TCP, targetPort: http}]
  selector: {app: web}
  sessionAffinity: None
  type: ClusterIP
status: {loadBalancer: {}}
`},
		"load balancer": {`
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: LoadBalancer, sessionAffinity: ClientIP, ports: [{port: 80}]}
`, `
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  allocateLoadBalancerNodePorts: true
  externalTrafficPolicy: Cluster
  internalTrafficPolicy: Cluster
  ports: [{port: 80, protocol: TCP, targetPort: 80}]
  sessionAffinity: ClientIP
  sessionAffinityConfig: {clientIP: {timeoutSeconds: 10800}}
  type: LoadBalancer
status: {loadBalancer: {}}
`},
		"namespace": {
			`{apiVersion: v1, kind: Namespace, metadata: {name: team}}`,
			`{apiVersion: v1, kind: Namespace, metadata: {name: team, labels: {kubernetes.io/metadata.name: team}}, spec: {}, status: {phase: Active}}`,
		},
		"secret": {
			`{apiVersion: v1, kind: Secret, metadata: {name: key}, data: {a: Yg==}, stringData: {a: c, d: e}}`,
			`{apiVersion: v1, kind: Secret, metadata: {name: key}, type: Opaque, data: {a: Yw==, d: ZQ==}}`,
		},
		"role binding": {`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: b}
roleRef: {kind: Role, name: r}
subjects: [{kind: User, name: ann}, {kind: ServiceAccount, name: robot}]
`, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: b}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}, {kind: ServiceAccount, name: robot}]
`},
		"node": {
			`{apiVersion: v1, kind: Node, metadata: {name: node1}, spec: {podCIDR: 10.0.0.0/24}, status: {capacity: {cpu: "2"}}}`,
			`{apiVersion: v1, kind: Node, metadata: {name: node1}, spec: {podCIDR: 10.0.0.0/24, podCIDRs: [10.0.0.0/24]}, status: {capacity: {cpu: "2"}, allocatable: {cpu: "2"}, daemonEndpoints: {kubeletEndpoint: {Port: 0}}, nodeInfo: {machineID: "", systemUUID: "", bootID: "", kernelVersion: "", osImage: "", containerRuntimeVersion: "", kubeletVersion: "", kubeProxyVersion: "", operatingSystem: "", architecture: ""}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			obj := read(t, tc.in)
			got := map[string]any{}
			want := map[string]any{}
			out, err := yaml.Marshal(obj)
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal(out, &got); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(withoutEmpty(want), withoutEmpty(got)); d != "" {
				t.Errorf("read back (-want +got):\n%s", d)
			}
		})
	}
}

// withoutEmpty removes the empty maps of fields that are encoded even if they are empty.
func withoutEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if m, ok := x.(map[string]any); ok && len(m) == 0 && (k == "status" || k == "resources" || k == "metadata" || k == "spec") {
				delete(v, k)
				continue
			}
			v[k] = withoutEmpty(x)
		}
	case []any:
		for i := range v {
			v[i] = withoutEmpty(v[i])
		}
	}
	return v
}
