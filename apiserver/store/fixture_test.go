package store_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	apistorage "k8s.io/apiserver/pkg/storage"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/apiserver/store"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// Pods are stored as the server stores built-in kinds: in their external version, as protobuf.
var (
	podSerializer = protobuf.NewSerializer(clientscheme.Scheme, clientscheme.Scheme)
	podCodec      = clientscheme.Codecs.CodecForVersions(podSerializer, podSerializer,
		schema.GroupVersions{corev1.SchemeGroupVersion}, schema.GroupVersions{corev1.SchemeGroupVersion})
)

func podStore(t testing.TB, o memory.Options) (*store.Store, *memory.Store) {
	backend := memory.New(o)
	t.Cleanup(func() { backend.Close() })
	return podStoreOn(backend), backend
}

var podConfig = store.Config{
	Codec:  podCodec,
	Prefix: "/core/pods",
	New:    func() runtime.Object { return &corev1.Pod{} },
}

func podStoreOn(backend storage.Store) *store.Store { return store.New(backend, podConfig) }

func podKey(pod *corev1.Pod) string { return "/core/pods/" + pod.Namespace + "/" + pod.Name }

// newPod returns a pod of the usual size.
func newPod(i int) *corev1.Pod {
	name := fmt.Sprintf("web-%06d", i)
	labels := map[string]string{"app": "web", "pod-template-hash": "5d8f9c7b4", "shard": fmt.Sprint(i % 100)}
	controller := true
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("256Mi")}
	condition := func(kind corev1.PodConditionType) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1700000000, 0)}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: fmt.Sprintf("ns-%d", i%10), UID: types.UID("uid-" + name), Labels: labels,
			CreationTimestamp: metav1.Unix(1700000000, 0),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d8f9c7b4",
				UID: "8b1c9b1e-0f5e-4b52-a3a3-5e1c6a8f2f10", Controller: &controller}},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "controller", Operation: "Update", APIVersion: "v1",
				Time: &metav1.Time{Time: time.Unix(1700000000, 0)}, FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{},"f:name":{},"f:ports":{".":{}}}},"f:restartPolicy":{}}}`)}},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways, NodeName: fmt.Sprintf("node-%d", i%50), ServiceAccountName: "default",
			Containers: []corev1.Container{{
				Name: "web", Image: "registry.example.com/team/web:v1.2.3",
				Ports:     []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
				Env:       []corev1.EnvVar{{Name: "MODE", Value: "production"}, {Name: "REGION", Value: "eu"}},
				Resources: corev1.ResourceRequirements{Limits: limits, Requests: limits},
			}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.7", HostIP: "192.168.0.7",
			Conditions: []corev1.PodCondition{condition(corev1.PodScheduled), condition(corev1.PodReady)},
		},
	}
}

func createPod(t testing.TB, s apistorage.Interface, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	out := &corev1.Pod{}
	if err := s.Create(t.Context(), podKey(pod), pod, out, 0); err != nil {
		t.Fatal(err)
	}
	return out
}

// updatePod changes a stored pod.
func updatePod(t testing.TB, s apistorage.Interface, key string, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	out := &corev1.Pod{}
	err := s.GuaranteedUpdate(t.Context(), key, out, false, nil, apistorage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
		change(obj.(*corev1.Pod))
		return obj, nil
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func deletePod(t testing.TB, s apistorage.Interface, key string) *corev1.Pod {
	t.Helper()
	out := &corev1.Pod{}
	if err := s.Delete(t.Context(), key, out, nil, apistorage.ValidateAllObjectFunc, nil, apistorage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	return out
}

func listPods(t testing.TB, s apistorage.Interface, path string, opts apistorage.ListOptions) *corev1.PodList {
	t.Helper()
	opts.Recursive = true
	if opts.Predicate.Label == nil {
		opts.Predicate = apistorage.Everything
	}
	list := &corev1.PodList{}
	if err := s.GetList(t.Context(), path, opts, list); err != nil {
		t.Fatal(err)
	}
	return list
}

// receive returns the next event of a watch.
func receive(t testing.TB, w watch.Interface) watch.Event {
	t.Helper()
	e, ok := <-w.ResultChan()
	if !ok {
		t.Fatal("the watch has ended")
	}
	return e
}

// Widgets are stored as the server stores custom kinds: without a Go type, as JSON.
func widgetStore(backend storage.Store) *store.Store {
	return store.New(backend, store.Config{
		Codec:  unstructured.UnstructuredJSONScheme,
		Prefix: "/example.com/widgets",
		New: func() runtime.Object {
			return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}}
		},
	})
}

func newWidget(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": name, "namespace": "default", "labels": map[string]any{"app": "web"}},
		"spec":     map[string]any{"size": int64(3), "parts": []any{"a", "b"}},
	}}
}
