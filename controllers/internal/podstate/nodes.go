package podstate

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/ctrl/client"
)

// byNode is the name of the index of pods by their nodes.
const byNode = "spec.nodeName"

// IndexNodes adds the index that [OnNode] needs.
func IndexNodes(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &corev1.Pod{}, byNode, func(o client.Object) []string {
		if node := o.(*corev1.Pod).Spec.NodeName; node != "" {
			return []string{node}
		}
		return nil
	})
}

// OnNode returns the pods that are bound to a node.
func OnNode(ctx context.Context, c client.Reader, node string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := c.List(ctx, pods, client.MatchingFields{byNode: node})
	return pods.Items, err
}
