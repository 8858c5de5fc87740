package persistentvolume

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// addVolumes adds the controller of volumes.
func addVolumes(mgr manager.Manager) error {
	r := &volumeReconciler{client: mgr.GetClient(), live: mgr.GetAPIReader()}
	return builder.ControllerManagedBy(mgr).
		Named("persistentvolume").
		For(&corev1.PersistentVolume{}).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(r.ofClaim)).
		Complete(r)
}

// volumeReconciler sets the phase of a volume, and deletes a released volume with the reclaim policy Delete.
type volumeReconciler struct {
	client client.Client
	live   client.Reader
}

// ofClaim returns the volume that a claim names and the volumes that are reserved for the claim. A claim may be
// deleted before it names its volume.
func (r *volumeReconciler) ofClaim(ctx context.Context, obj client.Object) []reconcile.Request {
	names := sets.New(obj.(*corev1.PersistentVolumeClaim).Spec.VolumeName)
	volumes, err := volumesFor(ctx, r.client, client.ObjectKeyFromObject(obj).String())
	if err != nil {
		return nil
	}
	for _, v := range volumes {
		names.Insert(v.Name)
	}
	var requests []reconcile.Request
	for name := range names.Delete("") {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	}
	return requests
}

// Reconcile implements [reconcile.Reconciler].
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.syncVolume
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.reclaimVolume
func (r *volumeReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	v := &corev1.PersistentVolume{}
	if err := r.client.Get(ctx, req.NamespacedName, v); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	phase, err := r.phase(ctx, v)
	if err != nil {
		return reconcile.Result{}, err
	}
	if v.Status.Phase != phase {
		v.Status.Phase = phase
		if err := r.client.Status().Update(ctx, v); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
	}
	if phase != corev1.VolumeReleased || v.DeletionTimestamp != nil ||
		v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return reconcile.Result{}, nil
	}
	// The claim, the reclaim policy or the whole volume may have been replaced since it was read.
	return reconcile.Result{}, client.IgnoreNotFound(r.client.Delete(ctx, v,
		client.Preconditions{UID: &v.UID, ResourceVersion: &v.ResourceVersion}))
}

// phase returns the phase of a volume. A live read confirms that the claim is gone.
//
//upstream:pkg/controller/volume/persistentvolume.PersistentVolumeController.syncVolume
func (r *volumeReconciler) phase(ctx context.Context, v *corev1.PersistentVolume) (corev1.PersistentVolumePhase, error) {
	ref := v.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		return corev1.VolumeAvailable, nil
	}
	for _, reader := range []client.Reader{r.client, r.live} {
		claim := &corev1.PersistentVolumeClaim{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, claim)
		if err == nil && claim.UID == ref.UID {
			return corev1.VolumeBound, nil
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return "", err
		}
	}
	return corev1.VolumeReleased, nil
}
