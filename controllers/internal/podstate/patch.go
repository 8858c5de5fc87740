package podstate

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"flyball.dev/ctrl/client"
)

// PatchStatus applies a change to the status of a pod and writes the changed fields by a strategic merge patch. A
// concurrent write of other fields is not lost, and is no conflict. PatchStatus fails if another pod has the name now. It
// writes nothing if the change has no effect.
//
//upstream:pkg/util/pod.PatchPodStatus
func PatchStatus(ctx context.Context, c client.Client, pod *corev1.Pod, change func(*corev1.PodStatus)) error {
	before := pod.DeepCopy()
	change(&pod.Status)
	if equality.Semantic.DeepEqual(pod.Status, before.Status) {
		return nil
	}
	before.UID = "" // so that the patch has it, as a precondition
	return c.Status().Patch(ctx, pod, client.StrategicMergeFrom(before))
}
