package pods

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

// written has the pods with statuses that the cache does not have yet. A status is written over one resource version only, so
// every other version that the cache gets is later than the write.
type written struct {
	mu   sync.Mutex
	over map[types.NamespacedName]string // by pod, the resource version that was replaced
}

// add notes that the status of a pod was written over a resource version. pod has the version after the write.
func (w *written) add(pod *corev1.Pod, over string) {
	if pod.ResourceVersion == over {
		return // it was there already, so no event will come
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over == nil {
		w.over = map[types.NamespacedName]string{}
	}
	w.over[client.ObjectKeyFromObject(pod)] = over
}

// awaits reports whether the cache, which has returned pod, does not have the last status of the pod yet. The event of that
// status will enqueue the pod.
func (w *written) awaits(pod *corev1.Pod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := client.ObjectKeyFromObject(pod)
	over, ok := w.over[key]
	if !ok {
		return false
	}
	if over != pod.ResourceVersion {
		delete(w.over, key)
		return false
	}
	return true
}

// remove forgets a pod.
func (w *written) remove(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.over, key)
}
