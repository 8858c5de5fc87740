package world

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"flyball.dev/bench/runtimes"
)

const (
	// namespaces is over how many namespaces the objects are spread.
	namespaces = 10
	// apps is how many values the label "app" has: one of them is on 1 % of the
	// objects.
	apps = 100
	// nodes is how many values the node's name has.
	nodes = 100
)

// AppLabel is a label with which 1 % of the objects are selected.
const AppLabel = "app.kubernetes.io/name"

// App is one of its values.
func App(n int) string { return fmt.Sprintf("app-%02d", n%apps) }

// Node is the name of one of the nodes, each of which has 1 % of the pods.
func Node(n int) string { return fmt.Sprintf("node-%02d.cluster.example.org", n/namespaces%nodes) }

// Namespace is one of the namespaces.
func Namespace(n int) string { return fmt.Sprintf("team-%d", n%namespaces) }

// KeyOf is the key of the nth object of any kind.
func KeyOf(n int) runtimes.Key {
	return runtimes.Key{Namespace: Namespace(n), Name: fmt.Sprintf("%s-7d4b9c6f58-%05d", App(n), n)}
}

// Number returns n of KeyOf.
func Number(key runtimes.Key) int {
	n, err := strconv.Atoi(key.Name[strings.LastIndexByte(key.Name, '-')+1:])
	if err != nil {
		panic(err)
	}
	return n
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(n int) metav1.Time { return metav1.NewTime(epoch.Add(time.Duration(n) * time.Second)) }

// metadata is what all kinds have in common.
func metadata(n int, managed ...metav1.ManagedFieldsEntry) metav1.ObjectMeta {
	key := KeyOf(n)
	return metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name,
		UID:               types.UID(fmt.Sprintf("6f0f9a52-0b6e-4c1f-9d0e-%012d", n)),
		CreationTimestamp: at(n),
		Labels: map[string]string{
			AppLabel:                       App(n),
			"app.kubernetes.io/instance":   App(n) + "-production",
			"app.kubernetes.io/managed-by": "Helm",
			"tier":                         []string{"front", "middle", "back"}[n%3],
		},
		Annotations:   map[string]string{"example.org/restarted-at": "2026-01-01T00:00:00Z", "example.org/checksum": "9b74c9897bac770ffc029102a200c5de"},
		ManagedFields: managed,
	}
}

func managedBy(manager, subresource, version, fields string, n int) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: subresource,
		APIVersion: version, Time: new(at(n)), FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)},
	}
}

// Pod is the nth pod, as a Deployment's controllers and a kubelet leave it.
func Pod(n int) *corev1.Pod {
	owner := types.UID(fmt.Sprintf("0a1b2c3d-0000-4000-8000-%012d", n%apps))
	pod := &corev1.Pod{ObjectMeta: metadata(n,
		managedBy("kube-controller-manager", "", "v1", fmt.Sprintf(podFields, owner), n),
		managedBy("kubelet", "status", "v1", fmt.Sprintf(podStatusFields, podIP(n)), n))}
	pod.GenerateName = App(n) + "-7d4b9c6f58-"
	pod.Labels["pod-template-hash"] = "7d4b9c6f58"
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: App(n) + "-7d4b9c6f58", UID: owner,
		Controller: new(true), BlockOwnerDeletion: new(true),
	}}
	pod.Spec = podSpec(n)
	pod.Status = podStatus(n)
	return pod
}

func podSpec(n int) corev1.PodSpec {
	const token = "kube-api-access-x7k2p"
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http"), Scheme: "HTTP"}},
			PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
		}
	}
	tolerate := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(300))}
	}
	return corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "app", Image: "registry.example.org/team/" + App(n) + ":1.24.3", ImagePullPolicy: "IfNotPresent",
			Args: []string{"--port=8080", "--log-level=info"},
			Env: []corev1.EnvVar{
				{Name: "MODE", Value: "production"},
				{Name: "REGION", Value: "eu-central-1"},
				{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}},
			},
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}, {Name: "metrics", ContainerPort: 9090, Protocol: "TCP"}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
				Limits:   corev1.ResourceList{"memory": resource.MustParse("256Mi")},
			},
			LivenessProbe: probe("/healthz"), ReadinessProbe: probe("/readyz"),
			VolumeMounts:           []corev1.VolumeMount{{Name: token, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File",
		}},
		Volumes: []corev1.Volume{{Name: token, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: new(int32(420)),
			Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607)), Path: "token"}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
			},
		}}}},
		RestartPolicy: "Always", TerminationGracePeriodSeconds: new(int64(30)), DNSPolicy: "ClusterFirst",
		ServiceAccountName: "default", DeprecatedServiceAccount: "default", NodeName: Node(n),
		SecurityContext: &corev1.PodSecurityContext{}, SchedulerName: "default-scheduler",
		Tolerations: []corev1.Toleration{tolerate("node.kubernetes.io/not-ready"), tolerate("node.kubernetes.io/unreachable")},
		Priority:    new(int32(0)), PreemptionPolicy: new(corev1.PreemptLowerPriority), EnableServiceLinks: new(true),
	}
}

func podStatus(n int) corev1.PodStatus {
	condition := func(t corev1.PodConditionType, after int) corev1.PodCondition {
		return corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: at(n + after)}
	}
	ip := podIP(n)
	return corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: fmt.Sprintf("192.168.0.%d", n/namespaces%nodes), PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		StartTime: new(at(n)), QOSClass: corev1.PodQOSBurstable,
		Conditions: []corev1.PodCondition{
			condition("PodReadyToStartContainers", 2), condition(corev1.PodInitialized, 0), condition(corev1.PodReady, 9),
			condition(corev1.ContainersReady, 9), condition(corev1.PodScheduled, 0),
		},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", Ready: true, Started: new(true),
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(n + 2)}},
			Image:       "registry.example.org/team/" + App(n) + ":1.24.3",
			ImageID:     fmt.Sprintf("registry.example.org/team/%s@sha256:%064x", App(n), n%apps),
			ContainerID: fmt.Sprintf("containerd://%064x", n),
		}},
	}
}

func podIP(n int) string { return fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255) }

// ConfigMap is the nth ConfigMap, with 1 KiB of data.
func ConfigMap(n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metadata(n, managedBy("helm", "", "v1", `{"f:data":{".":{},"f:application.yaml":{}},"f:metadata":{"f:annotations":{".":{},"f:example.org/checksum":{},"f:example.org/restarted-at":{}},"f:labels":{".":{},"f:app.kubernetes.io/instance":{},"f:app.kubernetes.io/managed-by":{},"f:app.kubernetes.io/name":{},"f:tier":{}}}}`, n)),
		Data:       map[string]string{"application.yaml": fmt.Sprintf("id: %07d\n", n) + strings.Repeat("key: a value like others\n", 1024/24)[:1012]},
	}
}
