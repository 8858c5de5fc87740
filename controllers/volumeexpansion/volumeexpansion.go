// Package volumeexpansion expands the volumes of the provisioner of package localpath, as an external resizer does: a claim
// that requests more than it has gets the condition Resizing, then its volume grows, and then the node has to expand the file
// system, which kubelet's stand-in does when a pod uses the claim. A claim of a block device needs no node.
//
// Admission refuses to change the request of a claim if its StorageClass does not allow expansion, so this controller does not
// ask for the class.
package volumeexpansion

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/events"
	"flyball.dev/controllers/internal/volume"
	"flyball.dev/controllers/localpath"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// AddToManager adds the controller.
//
//upstream:pkg/controller/volume/expand.NewExpandController
func AddToManager(mgr manager.Manager) error {
	r := &reconciler{client: mgr.GetClient(), recorder: events.RecorderFor(mgr, "external-resizer "+localpath.Provisioner)}
	return builder.ControllerManagedBy(mgr).
		Named("volume-expander").
		For(&corev1.PersistentVolumeClaim{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			return needsExpansion(o.(*corev1.PersistentVolumeClaim))
		}))).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(claimOf)).
		Complete(r)
}

// claimOf maps a volume to its claim.
func claimOf(_ context.Context, o client.Object) []reconcile.Request {
	v := o.(*corev1.PersistentVolume)
	if ref := v.Spec.ClaimRef; ref != nil && expands(v) {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}}}
	}
	return nil
}

// expands reports whether the controller expands a volume.
func expands(v *corev1.PersistentVolume) bool {
	return v.Annotations[volume.ProvisionedBy] == localpath.Provisioner && v.DeletionTimestamp == nil
}

// needsExpansion reports whether a claim requests more than it has.
func needsExpansion(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Status.Phase == corev1.ClaimBound && claim.DeletionTimestamp == nil && requested(claim).Cmp(*claim.Status.Capacity.Storage()) > 0
}

func requested(claim *corev1.PersistentVolumeClaim) *resource.Quantity {
	return claim.Spec.Resources.Requests.Storage()
}

// reconciler expands volumes.
type reconciler struct {
	client   client.Client
	recorder record.EventRecorder
}

// Reconcile takes the next step of the expansion of a claim's volume.
//
//upstream:pkg/controller/volume/expand.expandController.syncHandler
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := r.client.Get(ctx, req.NamespacedName, claim); err != nil || !needsExpansion(claim) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	v := &corev1.PersistentVolume{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, v); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !expands(v) || v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != claim.UID {
		return reconcile.Result{}, nil
	}
	s := next(claim, v, metav1.Now())
	var err error
	switch {
	case s.size != nil:
		v.Spec.Capacity[corev1.ResourceStorage] = *s.size
		err = r.client.Update(ctx, v)
	case s.status != nil:
		claim.Status = *s.status
		if err = r.client.Status().Update(ctx, claim); err == nil {
			r.recorder.Event(claim, corev1.EventTypeNormal, s.reason, s.message)
		}
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// step is the next change of a claim or of its volume.
type step struct {
	size            *resource.Quantity                  // of the volume
	status          *corev1.PersistentVolumeClaimStatus // of the claim
	reason, message string                              // of the event for the status
}

// next returns the next step of the expansion of a claim that requests more than it has.
//
//upstream:pkg/volume/util.MarkControllerReisizeInProgress
//upstream:pkg/volume/util.MarkForFSResize
func next(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume, now metav1.Time) step {
	size, state := *requested(claim), claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
	if v.Spec.Capacity.Storage().Cmp(size) < 0 {
		if state == corev1.PersistentVolumeClaimControllerResizeInProgress && claim.Status.AllocatedResources.Storage().Cmp(size) == 0 {
			return step{size: &size}
		}
		s := with(claim, corev1.PersistentVolumeClaimControllerResizeInProgress, condition(corev1.PersistentVolumeClaimResizing, "", now))
		if s.AllocatedResources == nil {
			s.AllocatedResources = corev1.ResourceList{}
		}
		s.AllocatedResources[corev1.ResourceStorage] = size
		return step{status: s, reason: "Resizing", message: "External resizer is resizing volume " + v.Name}
	}
	switch {
	case ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) == corev1.PersistentVolumeBlock:
		s := volume.Expanded(claim, *v.Spec.Capacity.Storage())
		return step{status: &s, reason: "VolumeResizeSuccessful", message: "Resize volume succeeded"}
	case state == corev1.PersistentVolumeClaimNodeResizePending, state == corev1.PersistentVolumeClaimNodeResizeInProgress:
		return step{} // the node is next
	}
	s := with(claim, corev1.PersistentVolumeClaimNodeResizePending, condition(corev1.PersistentVolumeClaimFileSystemResizePending,
		"Waiting for user to (re-)start a pod to finish file system resize of volume on node.", now))
	return step{status: s, reason: "FileSystemResizeRequired", message: "Require file system resize of volume on node"}
}

func condition(of corev1.PersistentVolumeClaimConditionType, message string, now metav1.Time) corev1.PersistentVolumeClaimCondition {
	return corev1.PersistentVolumeClaimCondition{Type: of, Status: corev1.ConditionTrue, LastTransitionTime: now, Message: message}
}

// with returns the status of a claim with a state of its expansion, and with the condition of that state instead of others of
// expansion.
func with(claim *corev1.PersistentVolumeClaim, state corev1.ClaimResourceStatus, c corev1.PersistentVolumeClaimCondition) *corev1.PersistentVolumeClaimStatus {
	s := claim.Status.DeepCopy()
	if s.AllocatedResourceStatuses == nil {
		s.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{}
	}
	s.AllocatedResourceStatuses[corev1.ResourceStorage] = state
	s.Conditions = append(volume.OtherConditions(claim), c)
	return s
}
