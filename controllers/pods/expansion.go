package pods

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/internal/volume"
	"flyball.dev/ctrl/client"
)

// expand expands the file systems of the claims of a pod that has mounted its volumes, as far as they wait for the node.
//
//upstream:pkg/volume/util/operationexecutor.operationGenerator.GenerateExpandInUseVolumeFunc
func (r *reconciler) expand(ctx context.Context, pod *corev1.Pod) error {
	if !wasMounted(pod) || podstate.Finished(pod) || pod.DeletionTimestamp != nil {
		return nil
	}
	var waiting []*corev1.PersistentVolumeClaim
	err := podstate.UsedClaims(ctx, r.client, pod, func(used podstate.UsedClaim) bool {
		if used.Object != nil && volume.NeedsNode(used.Object) {
			waiting = append(waiting, used.Object.DeepCopy())
		}
		return true
	})
	for _, claim := range waiting {
		if err == nil {
			err = r.expandClaim(ctx, pod, claim)
		}
	}
	return err
}

// expandClaim expands the file system of a claim to the size of its volume.
func (r *reconciler) expandClaim(ctx context.Context, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) error {
	v := &corev1.PersistentVolume{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, v); err != nil {
		return client.IgnoreNotFound(err)
	}
	claim.Status = volume.Expanded(claim, *v.Spec.Capacity.Storage())
	if err := r.client.Status().Update(ctx, claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	message := fmt.Sprintf("MountVolume.NodeExpandVolume succeeded for volume %q %s", v.Name, pod.Spec.NodeName)
	r.recorder.Event(pod, corev1.EventTypeNormal, "FileSystemResizeSuccessful", message)
	r.recorder.Event(claim, corev1.EventTypeNormal, "FileSystemResizeSuccessful", message)
	return nil
}
