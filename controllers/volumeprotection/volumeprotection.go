// Package volumeprotection removes the finalizers that protect persistent volumes, claims and classes
// of their attributes which are in use from their deletion.
package volumeprotection

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// The finalizers, which the admission plugin StorageObjectInUseProtection adds.
const (
	volumeFinalizer = "kubernetes.io/pv-protection"
	claimFinalizer  = "kubernetes.io/pvc-protection"
	classFinalizer  = "kubernetes.io/vac-protection"
)

// AddToManager adds the controllers of claims, volumes and VolumeAttributesClasses.
func AddToManager(mgr manager.Manager) error {
	claims := &claimReconciler{client: mgr.GetClient(), live: mgr.GetAPIReader()}
	err := builder.ControllerManagedBy(mgr).
		Named("persistentvolumeclaim-protection").
		For(&corev1.PersistentVolumeClaim{}, builder.WithPredicates(predicate.NewPredicateFuncs(deleting))).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(claimsOf), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false },
			UpdateFunc: podEnded,
		})).
		Complete(claims)
	if err != nil {
		return err
	}
	err = builder.ControllerManagedBy(mgr).
		Named("persistentvolume-protection").
		For(&corev1.PersistentVolume{}, builder.WithPredicates(predicate.NewPredicateFuncs(deleting))).
		Complete(&volumeReconciler{client: mgr.GetClient()})
	if err != nil {
		return err
	}
	return addClasses(mgr)
}

func deleting(obj client.Object) bool { return obj.GetDeletionTimestamp() != nil }

func podEnded(e event.UpdateEvent) bool {
	return podstate.Finished(e.ObjectNew.(*corev1.Pod)) && !podstate.Finished(e.ObjectOld.(*corev1.Pod))
}

// claimsOf returns the claims that a pod uses.
func claimsOf(_ context.Context, obj client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, name := range podstate.Claims(obj.(*corev1.Pod)) {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}})
	}
	return requests
}

// claimReconciler removes the finalizer of claims that are deleted and that no pod uses.
type claimReconciler struct {
	client client.Client
	live   client.Reader
}

func (r *claimReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := r.client.Get(ctx, req.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !deleting(claim) || !controllerutil.ContainsFinalizer(claim, claimFinalizer) {
		return reconcile.Result{}, nil
	}
	// A live read confirms what the cache says, as it may not have a new pod yet.
	for _, reader := range []client.Reader{r.client, r.live} {
		pods := &corev1.PodList{}
		if err := reader.List(ctx, pods, client.InNamespace(req.Namespace)); err != nil {
			return reconcile.Result{}, err
		}
		for i := range pods.Items {
			if uses(&pods.Items[i], claim.Name) {
				return reconcile.Result{}, nil
			}
		}
	}
	controllerutil.RemoveFinalizer(claim, claimFinalizer)
	return reconcile.Result{}, client.IgnoreNotFound(r.client.Update(ctx, claim))
}

// uses reports whether a pod that has not ended, and has a node or may get one, uses a claim.
func uses(pod *corev1.Pod, claim string) bool {
	if podstate.Finished(pod) {
		return false
	}
	for _, name := range podstate.Claims(pod) {
		if name == claim {
			return true
		}
	}
	return false
}

// volumeReconciler removes the finalizer of volumes that are deleted and not bound.
type volumeReconciler struct{ client client.Client }

func (r *volumeReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	volume := &corev1.PersistentVolume{}
	if err := r.client.Get(ctx, req.NamespacedName, volume); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !deleting(volume) || volume.Status.Phase == corev1.VolumeBound || !controllerutil.RemoveFinalizer(volume, volumeFinalizer) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(r.client.Update(ctx, volume))
}
