package podstate

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"flyball.dev/ctrl/client"
)

// PatchStatus writes a change of the status of a pod, as upstream's PatchPodStatus does: a strategic merge patch
// that names only what has changed, so a write of something else at the same time neither makes it fail nor is
// lost. It fails if another pod has the name now, and does nothing if the change is none. The pod, which is
// changed too, becomes the written one.
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
