package pods

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods/sandbox"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/reconcile"
)

// Stages are scripts of whole pods and nodes. While there are stages of a kind, they make the steps of its objects instead
// of the stand-in for kubelet, which then only provides addresses and renews leases. A pod with a script of its own keeps
// that. The methods may be called from several goroutines at once.
type Stages interface {
	// Play plays the stage of a pod or node that is due. played is false if no stages are for the kind. after is the time
	// until the next stage, or zero if there is none. A change of the object needs another call.
	Play(ctx context.Context, o client.Object, a Addresses) (played bool, after time.Duration, err error)
	// Forget forgets an object that does not exist. o has its type.
	Forget(o client.Object, key types.NamespacedName)
	// OnChange registers a function that is called when the stages have changed.
	OnChange(changed func())
}

// Addresses are the addresses of a pod and of its node.
type Addresses struct{ Host, Pod string }

// play plays the stages of a pod. played is false if the pod is not for stages.
func (r *reconciler) play(ctx context.Context, pod *corev1.Pod, a Addresses) (played bool, after time.Duration, err error) {
	if r.stages == nil || pod.Spec.NodeName == "" || r.scripted(pod) {
		return false, 0, nil
	}
	if played, after, err = r.stages.Play(ctx, pod, a); played {
		r.sandboxes.Remove(client.ObjectKeyFromObject(pod), "") // the processes from before the first stage
	}
	return played, after, err
}

// scripted reports whether a pod has a script of its own: an annotation, or a handler for one of its containers.
func (r *reconciler) scripted(pod *corev1.Pod) bool {
	for _, name := range []string{ScriptAnnotation, OutcomeAnnotation, DurationAnnotation, ExitCodeAnnotation} {
		if _, ok := pod.Annotations[name]; ok {
			return true
		}
	}
	return slices.ContainsFunc(slices.Collect(podstate.Containers(&pod.Spec)), func(c *corev1.Container) bool {
		return r.sandboxes.Executes(pod, c) == sandbox.ByHandler
	})
}

// play plays the stages of a node.
func (r *nodeReconciler) play(ctx context.Context, node *corev1.Node, address string) (played bool, after time.Duration, err error) {
	if r.stages == nil {
		return false, 0, nil
	}
	return r.stages.Play(ctx, node, Addresses{Host: address})
}

// onStages enqueues all nodes when the stages change. It is the source of these requests.
func (r *nodeReconciler) onStages(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	if r.stages != nil {
		r.stages.OnChange(func() {
			for _, request := range r.allNodes(ctx, nil) {
				q.Add(request)
			}
		})
	}
	return nil
}
