package compact

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const manyPods = 10_000

// pod returns one of the pods of a hundred templates.
func pod(n int) *corev1.Pod {
	app, ip := fmt.Sprint("app-", n%100), fmt.Sprintf("10.0.%d.%d", n>>8, n&255)
	at := metav1.NewTime(time.Unix(1_700_000_000+int64(n), 0))
	managed := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
	}
	spec := ""
	for i := range 40 {
		spec += fmt.Sprintf(`"f:field-%d":{},`, i)
	}
	condition := func(kind corev1.PodConditionType) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: at}
	}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Scheme: "HTTP"}}, PeriodSeconds: 10}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprint("team-", n%10), Name: fmt.Sprintf("%s-%05d", app, n), UID: types.UID(fmt.Sprintf("6f0f9a52-%012d", n)),
			ResourceVersion: fmt.Sprint(1_000_000 + n), CreationTimestamp: at,
			Labels:          map[string]string{"app.kubernetes.io/name": app, "app.kubernetes.io/managed-by": "Helm", "tier": "front", "pod-template-hash": "7d4b9c6f58"},
			Annotations:     map[string]string{"example.org/checksum": "9b74c9897bac770ffc029102a200c5de"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app, UID: types.UID(app), Controller: new(true)}},
			ManagedFields: []metav1.ManagedFieldsEntry{
				managed("kube-controller-manager", `{`+spec+`"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{}}}}`),
				managed("kubelet", `{"f:status":{"f:podIPs":{"k:{\"ip\":\"`+ip+`\"}":{"f:ip":{}}}}}`),
			},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "app", Image: "registry.example.org/" + app, Args: []string{"--port=8080"},
				Env:   []corev1.EnvVar{{Name: "MODE", Value: "production"}, {Name: "REGION", Value: "eu-central-1"}},
				Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
					Limits:   corev1.ResourceList{"memory": resource.MustParse("256Mi")},
				},
				LivenessProbe: probe, ReadinessProbe: probe,
				VolumeMounts: []corev1.VolumeMount{{Name: "token", ReadOnly: true, MountPath: "/var/run/secrets"}},
			}},
			RestartPolicy: "Always", TerminationGracePeriodSeconds: new(int64(30)), NodeName: fmt.Sprint("node-", n%50), SecurityContext: &corev1.PodSecurityContext{},
			Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", TolerationSeconds: new(int64(300))}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, StartTime: &at,
			Conditions: []corev1.PodCondition{condition("Initialized"), condition("Ready"), condition("PodScheduled")},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "app", Ready: true, Started: new(true), ContainerID: fmt.Sprintf("containerd://%064x", n),
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
			}},
		},
	}
}

func pods() []*corev1.Pod {
	all := make([]*corev1.Pod, manyPods)
	for n := range all {
		all[n] = pod(n)
	}
	return all
}

// scattered returns the numbers of objects in an order that caches and prefetching do not help.
func scattered(n int) int { return n * 7919 % manyPods }

func BenchmarkPack(b *testing.B) {
	all := pods()
	p, values := packed(all)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		at := scattered(n)
		p.Release(values[at])
		values[at] = packOne(p, all[at])
	}
}

// BenchmarkFill packs objects as they come for the first time.
func BenchmarkFill(b *testing.B) {
	all := pods()
	b.ReportAllocs()
	for b.Loop() {
		packed(all)
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/manyPods, "ns/pod")
}

func BenchmarkUnpack(b *testing.B) {
	all := pods()
	p, values := packed(all)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		at := scattered(n)
		u := p.View().Unpacker()
		u.Unpack(values[at], given(all[at]), TypeOf(reflect.TypeFor[corev1.Pod]()), reflect.ValueOf(new(corev1.Pod)).Elem())
		u.Close()
	}
}

func packed(all []*corev1.Pod) (*Packer, []Value) {
	p, values := NewPacker(), make([]Value, len(all))
	for n, in := range all {
		values[n] = packOne(p, in)
	}
	return p, values
}

// packOne packs a pod as the store does.
func packOne(p *Packer, in *corev1.Pod) Value {
	header := []string{string(in.UID), in.ResourceVersion}
	for key, value := range in.Labels {
		header = append(header, key, value)
	}
	v, _ := p.Pack(given(in), header, TypeOf(reflect.TypeFor[corev1.Pod]()), in)
	return v
}

func given(in *corev1.Pod) []string { return []string{in.Namespace, in.Name} }

var copied *corev1.Pod

// BenchmarkDeepCopy is the benchmark to compare the others with.
func BenchmarkDeepCopy(b *testing.B) {
	all := pods()
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		copied = all[scattered(n)].DeepCopy()
	}
}
