package kinds

import (
	"reflect"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestDroppersInParallel asks for the droppers of nested types at the same time, as servers that start together do.
func TestDroppersInParallel(t *testing.T) {
	types := []reflect.Type{reflect.TypeFor[corev1.Lifecycle](), reflect.TypeFor[corev1.Container](), reflect.TypeFor[corev1.PodSpec](),
		reflect.TypeFor[corev1.PodTemplateSpec](), reflect.TypeFor[corev1.Pod]()}
	for range 100 {
		droppers.Lock()
		clear(droppers.of)
		droppers.Unlock()
		var running sync.WaitGroup
		for _, of := range types {
			running.Go(func() { dropperOf(of) })
		}
		running.Wait()
		pod := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Lifecycle: &corev1.Lifecycle{StopSignal: new(corev1.SIGUSR1)}}}}}
		dropperOf(reflect.TypeFor[corev1.Pod]())(reflect.ValueOf(&pod).Elem())
		if pod.Spec.Containers[0].Lifecycle != nil {
			t.Fatal("a field of a feature that is off was kept")
		}
	}
}
