package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/internal/volume"
	"flyball.dev/ctrl/client"
)

// missingClaim returns kube-scheduler's message for a pod that cannot be scheduled because of a claim, or "". The claim
// does not exist, belongs to another pod, is being deleted, or is not bound though its class does not wait for a pod.
// A change of the claim causes a retry.
//
//upstream:pkg/scheduler/framework/plugins/volumebinding.VolumeBinding.podHasPVCs
//upstream:pkg/scheduler/framework/plugins/volumebinding.VolumeBinding.PreFilter
func (r *reconciler) missingClaim(ctx context.Context, pod *corev1.Pod) (message string, err error) {
	unbound := false
	err = podstate.UsedClaims(ctx, r.client, pod, func(used podstate.UsedClaim) bool {
		name, claim := used.Name, used.Object
		switch {
		case claim == nil && used.Ephemeral:
			message = fmt.Sprintf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", name)
		case claim == nil:
			message = fmt.Sprintf("persistentvolumeclaim %q not found", name)
		case claim.Status.Phase == corev1.ClaimLost:
			message = fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", name, claim.Spec.VolumeName)
		case claim.DeletionTimestamp != nil:
			message = fmt.Sprintf("persistentvolumeclaim %q is being deleted", name)
		case used.Ephemeral && podstate.ForeignClaim(pod, claim) != nil:
			message = podstate.ForeignClaim(pod, claim).Error()
		case claim.Status.Phase != corev1.ClaimBound:
			unbound = unbound || !r.waitsForPod(ctx, claim)
		}
		return message == ""
	})
	if message == "" && unbound {
		message = "pod has unbound immediate PersistentVolumeClaims"
	}
	return message, err
}

// waitsForPod reports whether a claim is bound only when a pod that uses it has a node.
//
//upstream:k8s.io/component-helpers/storage/volume.IsDelayBindingMode
func (r *reconciler) waitsForPod(ctx context.Context, claim *corev1.PersistentVolumeClaim) bool {
	name, class := volume.ClassOf(claim), &storagev1.StorageClass{}
	return name != "" && r.client.Get(ctx, client.ObjectKey{Name: name}, class) == nil && volume.WaitsForConsumer(class)
}
