// Package controller has the controller of Pods that use too much memory.
package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/events"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/log"
)

const (
	// GuardLabel selects the Pods that are guarded: those where its value is "true".
	GuardLabel = "podguard.example.com/guard"
	// UsageAnnotation has the memory that a Pod uses, as a quantity. An agent on the node would write
	// it; here the user does.
	UsageAnnotation = "podguard.example.com/memory-usage"
)

// PodReconciler deletes Pods of [GuardLabel] that use more memory than the limits of their containers
// allow. The cache of its manager need not have others.
type PodReconciler struct {
	client.Client
	Recorder events.EventRecorder
}

// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager adds the controller to the manager.
func (r *PodReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&corev1.Pod{}).
		Named("podguard").
		Complete(r)
}

// Reconcile deletes one Pod if it uses too much memory. What owns it replaces it.
func (r *PodReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	if err := r.Get(ctx, req.NamespacedName, pod); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if pod.Labels[GuardLabel] != "true" {
		return ctrl.Result{}, nil // what the cache has is decided elsewhere, and a deletion is final
	}
	if !pod.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // it stops already
	}
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return ctrl.Result{}, nil // it uses no memory any more, and may be kept for its logs
	}
	excess, err := excessOf(pod)
	if err != nil {
		// A retry would not help; the next change of the annotation is a new event.
		r.Recorder.Eventf(pod, nil, corev1.EventTypeWarning, "InvalidMemoryUsage", "Observe", "%v", err)
		return ctrl.Result{}, nil
	}
	if excess == "" {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.delete(ctx, pod, excess)
}

// delete deletes the pod, if it is still the one that was judged: the cache may be behind, and the
// usage may have sunk, or a pod of a StatefulSet may have been replaced by one of the same name.
func (r *PodReconciler) delete(ctx context.Context, pod *corev1.Pod, excess string) error {
	err := r.Delete(ctx, pod, client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err // after a conflict, too: the pod is judged again, as the cache has it then
	}
	log.FromContext(ctx).Info("Pod deleted.", "because", excess)
	r.Recorder.Eventf(pod, nil, corev1.EventTypeWarning, "MemoryExceeded", "Delete", "Deleted: %s", excess)
	return nil
}

// excessOf says by how much a pod uses more memory than it may, or returns "" if it does not, if its
// usage is not known, or if a container has no limit.
func excessOf(pod *corev1.Pod) (string, error) {
	value, ok := pod.Annotations[UsageAnnotation]
	if !ok {
		return "", nil
	}
	usage, err := resource.ParseQuantity(value)
	if err != nil {
		return "", fmt.Errorf("annotation %s: %q is not a quantity: %w", UsageAnnotation, value, err)
	}
	limit := &resource.Quantity{}
	for _, c := range pod.Spec.Containers {
		of := c.Resources.Limits.Memory()
		if of.IsZero() {
			return "", nil
		}
		limit.Add(*of)
	}
	if usage.Cmp(*limit) <= 0 {
		return "", nil
	}
	return fmt.Sprintf("it uses %s of memory, its limit is %s", usage.String(), limit.String()), nil
}
