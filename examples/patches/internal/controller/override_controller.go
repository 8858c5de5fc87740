// Package controller has the controller of Overrides, which writes to the Deployment of each by the
// method that the Override names.
package controller

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/log"
	patchesv1 "flyball.dev/examples/patches/api/v1"
	"flyball.dev/examples/patches/internal/write"
)

// OverrideReconciler reconciles the Deployment of each Override.
type OverrideReconciler struct {
	client.Client
	// Live reads from the API server, not from the cache.
	Live     client.Reader
	Recorder events.EventRecorder
}

// +kubebuilder:rbac:groups=patches.example.com,resources=overrides,verbs=get;list;watch
// +kubebuilder:rbac:groups=patches.example.com,resources=overrides/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the controller to the manager. An Override has the name of its Deployment, so
// a Deployment is mapped to the Override of its own name.
func (r *OverrideReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&patchesv1.Override{}).
		Watches(&appsv1.Deployment{}, &handler.EnqueueRequestForObject{}).
		Named("override").
		Complete(r)
}

// Reconcile writes to the Deployment of one Override, if it is not as the Override says, and updates
// the status.
func (r *OverrideReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	override := &patchesv1.Override{}
	if err := r.Get(ctx, req.NamespacedName, override); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !override.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // what was written stays
	}
	deployment := &appsv1.Deployment{}
	err := r.Get(ctx, req.NamespacedName, deployment)
	if err == nil {
		err = r.ensure(ctx, override, deployment)
	}
	retry := error(nil)
	ready := metav1.Condition{Type: patchesv1.ConditionReady, Status: metav1.ConditionFalse}
	switch {
	case apierrors.IsNotFound(err):
		// An event will come when it is created.
		ready.Reason, ready.Message = patchesv1.ReasonDeploymentNotFound, "There is no Deployment "+req.Name
	case write.IsFieldConflict(err):
		// The same request would fail again; an event will come when the others give the fields up.
		ready.Reason, ready.Message = patchesv1.ReasonFieldConflict, err.Error()
	case apierrors.IsConflict(err):
		return ctrl.Result{}, err // of versions: the next reconcile reads a newer copy
	case err != nil:
		// It is retried with backoff. The user sees in the status why.
		ready.Reason, ready.Message, retry = patchesv1.ReasonReconcileFailed, err.Error(), err
	default:
		ready.Status, ready.Reason = metav1.ConditionTrue, patchesv1.ReasonWritten
		ready.Message = "Container " + override.Spec.Container + " runs " + override.Spec.Image
	}
	return ctrl.Result{}, errors.Join(retry, r.updateStatus(ctx, override, ready))
}

// ensure writes to the Deployment if it is not as the Override says.
func (r *OverrideReconciler) ensure(ctx context.Context, override *patchesv1.Override,
	deployment *appsv1.Deployment) error {
	wanted := write.Container{Name: override.Spec.Container, Image: override.Spec.Image, Env: override.Spec.Env}
	done := wanted.IsIn(deployment)
	if override.Spec.Method == patchesv1.Apply {
		applied, err := wanted.IsApplied(deployment)
		if err != nil {
			return err
		}
		done = applied
	}
	if done {
		return nil
	}
	if err := r.write(ctx, override, deployment, wanted); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Deployment written.", "method", override.Spec.Method, "image", wanted.Image)
	return nil
}

// write writes by the method of the Override.
func (r *OverrideReconciler) write(ctx context.Context, override *patchesv1.Override,
	deployment *appsv1.Deployment, wanted write.Container) error {
	switch override.Spec.Method {
	case patchesv1.Update:
		return write.Update(ctx, r.Client, deployment, wanted)
	case patchesv1.RetryOnConflict:
		return write.UpdateWithRetry(ctx, r.Client, r.Live, deployment, wanted)
	case patchesv1.Merge:
		return write.Merge(ctx, r.Client, deployment, wanted)
	case patchesv1.MergeWithLock:
		return write.MergeWithLock(ctx, r.Client, deployment, wanted)
	case patchesv1.StrategicMerge:
		return write.StrategicMerge(ctx, r.Client, deployment, wanted)
	case patchesv1.JSON:
		return write.JSON(ctx, r.Client, deployment, wanted)
	default:
		return write.Apply(ctx, r.Client, client.ObjectKeyFromObject(deployment), wanted, override.Spec.Force)
	}
}

// updateStatus patches the status if it has changed, and records an event if others own the
// fields or the API server refuses the write.
func (r *OverrideReconciler) updateStatus(ctx context.Context, override *patchesv1.Override,
	ready metav1.Condition) error {
	before := override.DeepCopy()
	override.Status.ObservedGeneration = override.Generation
	ready.ObservedGeneration = override.Generation
	meta.SetStatusCondition(&override.Status.Conditions, ready)
	if equality.Semantic.DeepEqual(before.Status, override.Status) {
		return nil
	}
	if err := r.Status().Patch(ctx, override, client.MergeFrom(before)); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Ready is "+string(ready.Status)+".", "because", ready.Message)
	was := meta.FindStatusCondition(before.Status.Conditions, ready.Type)
	refused := ready.Reason == patchesv1.ReasonFieldConflict || ready.Reason == patchesv1.ReasonReconcileFailed
	if refused && (was == nil || was.Message != ready.Message) {
		r.Recorder.Eventf(override, nil, corev1.EventTypeWarning, ready.Reason, "Apply", "%s", ready.Message)
	}
	return nil
}
