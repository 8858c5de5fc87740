package controller

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/predicate"
	trainingv1 "flyball.dev/examples/training/api/v1"
)

// nodeIndex is the index of Pods by their node.
const nodeIndex = "spec.nodeName"

// indexPodsByNode adds the index.
func indexPodsByNode(indexer client.FieldIndexer) error {
	return indexer.IndexField(context.Background(), &corev1.Pod{}, nodeIndex, func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.NodeName}
	})
}

// findJobsForNode returns the TrainingJobs that have a Pod on a node, over two hops: from the node to
// the Pods on it, by the index, and from those to the TrainingJobs that own them.
func (r *TrainingJobReconciler) findJobsForNode(ctx context.Context, node client.Object) []ctrl.Request {
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.MatchingFields{nodeIndex: node.GetName()}); err != nil {
		log.FromContext(ctx).Error(err, "cannot list the Pods of a node", "node", node.GetName())
		return nil
	}
	var requests []ctrl.Request // the queue drops duplicates
	for i := range pods.Items {
		owner := metav1.GetControllerOf(&pods.Items[i])
		if owner == nil || owner.Kind != "TrainingJob" || owner.APIVersion != trainingv1.GroupVersion.String() {
			continue
		}
		key := client.ObjectKey{Namespace: pods.Items[i].Namespace, Name: owner.Name}
		requests = append(requests, ctrl.Request{NamespacedName: key})
	}
	return requests
}

// readinessChanged selects the events of nodes that matter: a node becomes ready or not ready, or is
// deleted. The others are many, because each node reports its state again and again.
var readinessChanged = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, _ := readiness(e.ObjectOld.(*corev1.Node))
		after, _ := readiness(e.ObjectNew.(*corev1.Node))
		return before != after
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return true },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// readiness reports whether a node is ready, and since when.
func readiness(node *corev1.Node) (ready bool, since time.Time) {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	return false, node.CreationTimestamp.Time
}
