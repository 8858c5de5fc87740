// Package ttl annotates nodes with the time for which kubelet may cache Secrets and ConfigMaps. It depends on the number of nodes.
package ttl

import (
	"context"
	"errors"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// AddToManager adds the controller. One request stands for all nodes.
//
//upstream:pkg/controller/ttl.NewTTLController
func AddToManager(mgr manager.Manager) error {
	annotated := func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetAnnotations()[corev1.ObjectTTLAnnotationKey] != e.ObjectNew.GetAnnotations()[corev1.ObjectTTLAnnotationKey]
	}
	all := func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{{}} }
	return builder.ControllerManagedBy(mgr).
		Named("ttl").
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(all), builder.WithPredicates(predicate.Funcs{UpdateFunc: annotated})).
		Complete(&reconciler{client: mgr.GetClient()})
}

// step is a range of cluster sizes. The ranges overlap, so that a cluster at a bound does not change its step with each node.
type step struct {
	min, max int // numbers of nodes; no max is 0
	seconds  int
}

//upstream:pkg/controller/ttl.ttlBoundaries
var steps = []step{{0, 100, 0}, {90, 500, 15}, {450, 1000, 30}, {900, 2000, 60}, {1800, 0, 300}}

// next returns the index of the step for a number of nodes, after the step at an index.
//
//upstream:pkg/controller/ttl.Controller.addNode
//upstream:pkg/controller/ttl.Controller.deleteNode
func next(i, nodes int) int {
	for steps[i].max > 0 && nodes > steps[i].max {
		i++
	}
	for nodes < steps[i].min {
		i--
	}
	return i
}

// reconciler annotates nodes.
type reconciler struct {
	client client.Client
	step   int
}

// Reconcile annotates the nodes that have another time, or none.
//
//upstream:pkg/controller/ttl.Controller.updateNodeIfNeeded
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	nodes := &corev1.NodeList{}
	if err := r.client.List(ctx, nodes); err != nil {
		return reconcile.Result{}, err
	}
	r.step = next(r.step, len(nodes.Items))
	want := steps[r.step].seconds
	var errs []error
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if has, err := strconv.Atoi(node.Annotations[corev1.ObjectTTLAnnotationKey]); err == nil && has == want {
			continue
		}
		before := node.DeepCopy()
		if node.Annotations == nil {
			node.Annotations = map[string]string{}
		}
		node.Annotations[corev1.ObjectTTLAnnotationKey] = strconv.Itoa(want)
		errs = append(errs, client.IgnoreNotFound(r.client.Patch(ctx, node, client.StrategicMergeFrom(before))))
	}
	return reconcile.Result{}, errors.Join(errs...)
}
