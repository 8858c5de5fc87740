package daemonset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/reconcile"
)

// queue is the queue of the controller.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// nodeEvents returns the handler of the events of nodes. It enqueues the DaemonSets for which a node becomes suitable or
// unsuitable.
//
//upstream:pkg/controller/daemon.DaemonSetsController.syncNodeUpdate
//upstream:pkg/controller/daemon.shouldIgnoreNodeUpdate
func (r *reconciler) nodeEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			r.enqueueConcerned(ctx, nil, e.Object.(*corev1.Node), q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			was, is := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			if !equality.Semantic.DeepEqual(was.Labels, is.Labels) || !equality.Semantic.DeepEqual(was.Spec.Taints, is.Spec.Taints) {
				r.enqueueConcerned(ctx, was, is, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			r.enqueueConcerned(ctx, e.Object.(*corev1.Node), nil, q)
		},
	}
}

// enqueueConcerned enqueues the DaemonSets to which a node has another relation than before. The node may be nil.
func (r *reconciler) enqueueConcerned(ctx context.Context, was, is *corev1.Node, q queue) {
	list := &appsv1.DaemonSetList{}
	if err := r.client.List(ctx, list); err != nil {
		return // the cache has stopped
	}
	for i := range list.Items {
		set := &list.Items[i]
		tolerations := tolerationsOf(set)
		relation := func(node *corev1.Node) fit {
			if node == nil {
				return fit{}
			}
			return fitOf(set, tolerations, node)
		}
		if relation(was) != relation(is) {
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		}
	}
}
