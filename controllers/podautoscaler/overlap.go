package podautoscaler

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// overlapping returns the scalers of a namespace that select any of the pods, sorted. Pods of one template have the same
// labels, and each set of labels is matched once.
//
//upstream:pkg/controller/podautoscaler.hpaSelectorStore.HPAsMatchingPods
func overlapping(scalers map[types.NamespacedName]*scaler, namespace string, pods []*corev1.Pod) (keys []types.NamespacedName) {
	distinct := map[string]labels.Set{}
	for _, pod := range pods {
		distinct[labels.Set(pod.Labels).String()] = pod.Labels
	}
	for key, s := range scalers {
		if key.Namespace != namespace || s.selector == nil {
			continue
		}
		for _, set := range distinct {
			if s.selector.Matches(set) {
				keys = append(keys, key)
				break
			}
		}
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return keys
}
