package cache

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/representation"
	"flyball.dev/internal/heaptest"
)

const benchPods = 10_000

// benchPod returns a pod of typical size.
func benchPod(n int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: fmt.Sprint("ns-", n%10), Name: fmt.Sprint("pod-", n),
		UID: types.UID(fmt.Sprint("uid-", n)), ResourceVersion: strconv.Itoa(n + 1),
		Labels:          map[string]string{"app": fmt.Sprint("app-", n%100), "tier": "web"},
		Annotations:     map[string]string{"example.org/revision": "7"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: fmt.Sprint("rs-", n/10), UID: "rs-uid", Controller: new(true)}},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:conditions":{},"f:containerStatuses":{},"f:podIP":{},"f:phase":{}}}`)}},
	}}
	pod.Spec = corev1.PodSpec{NodeName: "node", ServiceAccountName: "default", Containers: []corev1.Container{{
		Name: "app", Image: "registry.example.org/app:1.2.3",
		Env:       []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
		Ports:     []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
	}}}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
	}, ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Ready: true, ImageID: "sha256:0123456789"}}}
	return pod
}

// benchInformer returns an informer that holds pods, without a server.
func benchInformer(tb testing.TB, pods int) *informer {
	c, err := New(&rest.Config{Host: "http://none"}, Options{HTTPClient: http.DefaultClient, Mapper: mapper()})
	if err != nil {
		tb.Fatal(err)
	}
	i, err := c.(*informerCache).newInformer(context.Background(), informerKey{corev1.SchemeGroupVersion.WithKind("Pod"), representation.Typed})
	if err != nil {
		tb.Fatal(err)
	}
	i.stats = &stats{}
	i.partitions[0].Begin()
	for n := range pods {
		i.partitions[0].Listed(benchPod(n))
	}
	i.partitions[0].Complete(strconv.Itoa(pods))
	return i
}

func BenchmarkGet(b *testing.B) {
	i := benchInformer(b, benchPods)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		var pod corev1.Pod
		key := client.ObjectKey{Namespace: fmt.Sprint("ns-", n%10), Name: fmt.Sprint("pod-", n%benchPods)}
		if err := i.get(b.Context(), key, &pod, &client.GetOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkList(b *testing.B) {
	i := benchInformer(b, benchPods)
	if err := i.store.AddIndex("owner", func(obj client.Object) []string {
		return []string{obj.GetOwnerReferences()[0].Name}
	}); err != nil {
		b.Fatal(err)
	}
	for name, opts := range map[string]client.ListOptions{
		"all":       {},
		"unsafe":    {UnsafeDisableDeepCopy: new(true)},
		"namespace": {Namespace: "ns-3"},
		"label-1%":  {LabelSelector: labels.SelectorFromSet(labels.Set{"app": "app-7"})},
		"index":     *(&client.ListOptions{}).ApplyOptions([]client.ListOption{client.MatchingFields{"owner": "rs-7"}}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var list corev1.PodList
				if err := i.list(b.Context(), &list, &opts); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFill measures storing the objects of a list, and the memory that the store takes.
func BenchmarkFill(b *testing.B) {
	pods := make([]*corev1.Pod, benchPods)
	for n := range pods {
		pods[n] = benchPod(n)
	}
	b.ReportAllocs()
	var bytes int64
	for b.Loop() {
		before := heaptest.Live()
		i := benchInformer(b, 0)
		for _, pod := range pods {
			i.partitions[0].Listed(pod)
		}
		bytes = heaptest.Live() - before
		runtime.KeepAlive(i)
	}
	b.ReportMetric(float64(bytes)/benchPods, "heap-B/object")
}

func BenchmarkUpdate(b *testing.B) {
	i := benchInformer(b, benchPods)
	pods := make([]*corev1.Pod, benchPods)
	for n := range pods {
		pods[n] = benchPod(n)
	}
	b.ReportAllocs()
	version := 2 * benchPods
	for n := 0; b.Loop(); n++ {
		pod := *pods[n%benchPods]
		version++
		pod.ResourceVersion = strconv.Itoa(version)
		i.partitions[0].Changed(&pod)
		i.partitions[0].scope.Pack()
	}
}

// BenchmarkNotify measures the time from an event to the call of its handler. The object is packed meanwhile.
func BenchmarkNotify(b *testing.B) {
	i := benchInformer(b, benchPods)
	ctx, cancel := context.WithCancel(b.Context())
	i.ctx, i.running = ctx, true
	defer func() {
		cancel()
		i.delivery.Wait()
	}()
	called := make(chan time.Time, 1)
	handler := toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { called <- time.Now() }}
	registration, err := i.AddEventHandler(handler)
	if err != nil {
		b.Fatal(err)
	}
	<-registration.HasSyncedChecker().Done()
	var latency time.Duration
	version := 2 * benchPods
	for n := 0; b.Loop(); n++ {
		pod := benchPod(n % benchPods)
		version++
		pod.ResourceVersion = strconv.Itoa(version)
		start := time.Now()
		i.partitions[0].Changed(pod)
		i.partitions[0].scope.Pack()
		latency += (<-called).Sub(start)
	}
	b.ReportMetric(float64(latency.Nanoseconds())/float64(b.N), "ns/notification")
}
