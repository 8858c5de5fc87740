package informertest

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/controllertest"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

var pods = corev1.SchemeGroupVersion.WithKind("Pod")

// TestSource starts a source on the fake cache, as tests of operators do.
func TestSource(t *testing.T) {
	informers := &FakeInformers{}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	src := source.Kind(informers, &corev1.Pod{}, &handler.TypedEnqueueRequestForObject[*corev1.Pod]{})
	if err := src.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	if err := src.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	informer, err := informers.FakeInformerFor(t.Context(), &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "ns", "a"
	informer.Add(pod)
	if request, _ := queue.Get(); request.NamespacedName != (client.ObjectKey{Namespace: "ns", Name: "a"}) {
		t.Errorf("the queue has %v", request)
	}
}

func TestInformers(t *testing.T) {
	ctx := t.Context()
	c := &FakeInformers{}
	byObject, err := c.FakeInformerFor(ctx, &corev1.Pod{})
	if err != nil || !byObject.HasSynced() {
		t.Fatalf("the informer is %v, %v", byObject, err)
	}
	if byKind, err := c.FakeInformerForKind(ctx, pods); byKind != byObject || err != nil {
		t.Errorf("by kind it is another one: %v, %v", byKind, err)
	}
	if err := c.RemoveInformer(ctx, &corev1.Pod{}); err != nil || len(c.InformersByGVK) != 0 {
		t.Errorf("after removal: %v, %v", c.InformersByGVK, err)
	}
	if again, err := c.FakeInformerForKind(ctx, pods); again == byObject || err != nil {
		t.Errorf("after removal it is the same one: %v", err)
	}
	own := controllertest.NewFakeInformer()
	c = &FakeInformers{InformersByGVK: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{pods: own}}
	if got, err := c.GetInformer(ctx, &corev1.Pod{}); got != own || err != nil {
		t.Errorf("the informer is %v, %v", got, err)
	}
	c.InformersByGVK[pods] = toolscache.NewSharedIndexInformer(nil, &corev1.Pod{}, 0, nil)
	if _, err := c.FakeInformerFor(ctx, &corev1.Pod{}); err == nil {
		t.Error("an informer of another type is a fake one")
	}
}

func TestErrors(t *testing.T) {
	ctx, broken := t.Context(), errors.New("broken")
	c := &FakeInformers{Scheme: runtime.NewScheme()}
	if _, err := c.GetInformer(ctx, &corev1.Pod{}); !runtime.IsNotRegisteredError(err) {
		t.Errorf("a kind that is not in the scheme: %v", err)
	}
	if _, err := c.GetInformerForKind(ctx, pods); !runtime.IsNotRegisteredError(err) {
		t.Errorf("a kind that is not in the scheme: %v", err)
	}
	if err := c.RemoveInformer(ctx, &corev1.Pod{}); !runtime.IsNotRegisteredError(err) {
		t.Errorf("a kind that is not in the scheme: %v", err)
	}
	c = &FakeInformers{Error: broken}
	if _, err := c.GetInformer(ctx, &corev1.Pod{}); err != broken {
		t.Errorf("GetInformer: %v", err)
	}
	if err := c.Start(ctx); err != broken {
		t.Errorf("Start: %v", err)
	}
	if !c.WaitForCacheSync(ctx) {
		t.Error("it has not synced")
	}
	if c.Synced = new(bool); c.WaitForCacheSync(ctx) {
		t.Error("it has synced")
	}
}
