// Package ephemeralvolume creates the claims of the generic ephemeral volumes of pods. A claim is
// owned by its pod, with which the garbage collector deletes it.
package ephemeralvolume

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"flyball.dev/controllers/internal/events"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/internal/watches"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// AddToManager adds the controller.
//
//upstream:pkg/controller/volume/ephemeral.NewController
func AddToManager(mgr manager.Manager) error {
	if err := podstate.IndexClaims(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r := &reconciler{mgr.GetClient(), events.RecorderFor(mgr, "ephemeral_volume")}
	return builder.ControllerManagedBy(mgr).
		Named("ephemeral-volume").
		For(&corev1.Pod{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			return needsClaims(o.(*corev1.Pod))
		}))).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(podstate.UserRequests(r.client, needsClaims)),
			builder.WithPredicates(watches.OnlyDeletes)).
		Complete(r)
}

// needsClaims reports whether claims are created for a pod.
func needsClaims(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil &&
		slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Ephemeral != nil })
}

// reconciler reconciles the claims of a pod.
type reconciler struct {
	client   client.Client
	recorder record.EventRecorder
}

// Reconcile creates the claims that a pod lacks.
//
//upstream:pkg/controller/volume/ephemeral.ephemeralController.syncHandler
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := r.client.Get(ctx, req.NamespacedName, pod); err != nil || !needsClaims(pod) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral == nil {
			continue
		}
		err := r.ensure(ctx, pod, v)
		if err == nil {
			continue
		}
		r.recorder.Eventf(pod, corev1.EventTypeWarning, "FailedBinding", "ephemeral volume %s: %v", v.Name, err)
		if errors.As(err, new(foreignError)) {
			err = nil // the deletion of that claim causes another reconcile
		}
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, nil
}

// foreignError is the error for a claim that has the name of a volume's claim, and another owner.
type foreignError struct{ error }

// ensure creates the claim of a volume, unless it exists.
//
//upstream:pkg/controller/volume/ephemeral.ephemeralController.handleVolume
func (r *reconciler) ensure(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) error {
	claim, name := &corev1.PersistentVolumeClaim{}, podstate.EphemeralClaim(pod, v)
	err := r.client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, claim)
	if err == nil {
		if err := podstate.ForeignClaim(pod, claim); err != nil {
			return foreignError{err}
		}
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	template := v.Ephemeral.VolumeClaimTemplate
	err = r.client.Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: name, Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))},
		},
		Spec: template.Spec,
	})
	if err != nil {
		return fmt.Errorf("create PVC %s: %w", name, err)
	}
	return nil
}
