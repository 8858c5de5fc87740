package pods

import (
	"context"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/reconcile"
)

// dependents has the pods that wait for ConfigMaps and Secrets. A pod is added before the object is read, so that no
// creation is missed.
type dependents struct {
	mu   sync.Mutex
	pods map[objectKey]map[types.NamespacedName]bool
	keys map[types.NamespacedName]*wait
}

// objectKey is the key of a ConfigMap or Secret, with its kind.
type objectKey struct {
	kind string
	types.NamespacedName
}

// wait has the keys of the objects that a pod waits for, and the last report.
type wait struct {
	keys     []objectKey
	reported string
}

func newDependents() *dependents {
	return &dependents{pods: map[objectKey]map[types.NamespacedName]bool{}, keys: map[types.NamespacedName]*wait{}}
}

// add makes a pod wait for the object of a reference.
func (w *dependents) add(pod types.NamespacedName, ref dependency) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := objectKey{ref.kind, types.NamespacedName{Namespace: pod.Namespace, Name: ref.name}}
	if w.pods[key] == nil {
		w.pods[key] = map[types.NamespacedName]bool{}
	}
	if w.pods[key][pod] {
		return
	}
	w.pods[key][pod] = true
	if w.keys[pod] == nil {
		w.keys[pod] = &wait{}
	}
	w.keys[pod].keys = append(w.keys[pod].keys, key)
}

// remove makes a pod wait for nothing.
func (w *dependents) remove(pod types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	waits := w.keys[pod]
	if waits == nil {
		return
	}
	delete(w.keys, pod)
	for _, key := range waits.keys {
		if delete(w.pods[key], pod); len(w.pods[key]) == 0 {
			delete(w.pods, key)
		}
	}
}

// report records the messages about a waiting pod, and reports whether they differ from the last ones.
func (w *dependents) report(pod types.NamespacedName, messages []string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := strings.Join(messages, "\n")
	waits := w.keys[pod]
	if waits == nil || waits.reported == all {
		return false
	}
	waits.reported = all
	return true
}

// requests returns a [handler.MapFunc] that maps a ConfigMap or Secret to the pods that wait for it.
func (w *dependents) requests(kind string) handler.MapFunc {
	return func(_ context.Context, o client.Object) (requests []reconcile.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for pod := range w.pods[objectKey{kind, client.ObjectKeyFromObject(o)}] {
			requests = append(requests, reconcile.Request{NamespacedName: pod})
		}
		return requests
	}
}
