// Package volumeprotection removes the finalizers that protect persistent volumes, claims and
// VolumeAttributesClasses from deletion while they are in use.
package volumeprotection

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/internal/watches"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// The finalizers, which the admission plugin StorageObjectInUseProtection adds.
const (
	//upstream:pkg/volume/util.PVProtectionFinalizer
	volumeFinalizer = "kubernetes.io/pv-protection"
	//upstream:pkg/volume/util.PVCProtectionFinalizer
	claimFinalizer = "kubernetes.io/pvc-protection"
	//upstream:pkg/volume/util.VACProtectionFinalizer
	classFinalizer = "kubernetes.io/vac-protection"
)

// AddClaimsToManager adds the controller of claims.
//
//upstream:pkg/controller/volume/pvcprotection.NewPVCProtectionController
func AddClaimsToManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("persistentvolumeclaim-protection").
		For(&corev1.PersistentVolumeClaim{}, ifDeleting).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(podstate.ClaimRequests),
			builder.WithPredicates(predicate.Or[client.Object](watches.OnlyDeletes, predicate.NewPredicateFuncs(shutDown)))).
		Complete(newReconciler(mgr, claimFinalizer, claimInUse))
}

// AddVolumesToManager adds the controller of volumes.
//
//upstream:pkg/controller/volume/pvprotection.NewPVProtectionController
func AddVolumesToManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("persistentvolume-protection").
		For(&corev1.PersistentVolume{}, ifDeleting).
		Complete(newReconciler(mgr, volumeFinalizer, volumeInUse))
}

var ifDeleting = builder.WithPredicates(predicate.NewPredicateFuncs(deleting))

func deleting(obj client.Object) bool { return obj.GetDeletionTimestamp() != nil }

// shutDown reports whether a pod was deleted and only its finalizers are left.
//
//upstream:pkg/controller/volume/pvcprotection.podIsShutDown
func shutDown(pod client.Object) bool {
	grace := pod.GetDeletionGracePeriodSeconds()
	return deleting(pod) && grace != nil && *grace == 0
}

// claimInUse reports whether a pod that has a node uses a claim, even if it has terminated. A pod that is shut
// down does not use the claim of an ephemeral volume, which may wait for the pod's finalizer as the finalizer
// for the claim. A pod without a node gets none while the claim is being deleted.
//
//upstream:pkg/controller/volume/pvcprotection.Controller.podUsesPVCForDeletion
func claimInUse(ctx context.Context, reader client.Reader, claim *corev1.PersistentVolumeClaim) (bool, error) {
	pods := &corev1.PodList{}
	if err := reader.List(ctx, pods, client.InNamespace(claim.Namespace)); err != nil {
		return false, err
	}
	return slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
		return p.Spec.NodeName != "" && slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name ||
				v.Ephemeral != nil && !shutDown(&p) && podstate.EphemeralClaim(&p, &v) == claim.Name && podstate.ForeignClaim(&p, claim) == nil
		})
	}), nil
}

// volumeInUse reports whether a volume is bound.
//
//upstream:pkg/controller/volume/pvprotection.Controller.isBeingUsed
func volumeInUse(_ context.Context, _ client.Reader, volume *corev1.PersistentVolume) (bool, error) {
	return volume.Status.Phase == corev1.VolumeBound, nil
}

// object is a pointer to a T.
type object[T any] interface {
	*T
	client.Object
}

// reconciler removes a finalizer from objects that are being deleted and are not in use.
type reconciler[T any, PT object[T]] struct {
	client    client.Client
	live      client.Reader
	finalizer string
	inUse     func(context.Context, client.Reader, PT) (bool, error)
}

func newReconciler[T any, PT object[T]](mgr manager.Manager, finalizer string,
	inUse func(context.Context, client.Reader, PT) (bool, error)) *reconciler[T, PT] {
	return &reconciler[T, PT]{client: mgr.GetClient(), live: mgr.GetAPIReader(), finalizer: finalizer, inUse: inUse}
}

// Reconcile implements [reconcile.Reconciler].
//
//upstream:pkg/controller/volume/pvcprotection.Controller.processPVC
//upstream:pkg/controller/volume/pvprotection.Controller.processPV
//upstream:pkg/controller/volume/vacprotection.Controller.processVAC
func (r *reconciler[T, PT]) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	obj := PT(new(T))
	if err := r.client.Get(ctx, req.NamespacedName, obj); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !deleting(obj) || !controllerutil.ContainsFinalizer(obj, r.finalizer) {
		return reconcile.Result{}, nil
	}
	// A live read confirms what the cache says, as it may not have a new user of the object yet.
	for _, reader := range []client.Reader{r.client, r.live} {
		if used, err := r.inUse(ctx, reader, obj); used || err != nil {
			return reconcile.Result{}, err
		}
	}
	controllerutil.RemoveFinalizer(obj, r.finalizer)
	return reconcile.Result{}, client.IgnoreNotFound(r.client.Update(ctx, obj))
}
