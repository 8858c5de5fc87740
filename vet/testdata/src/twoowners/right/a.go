package right

import (
	"context"

	"api"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

type Reconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// The object is handed over: the first controller is removed before the second is set.
func (r *Reconciler) handOver(ctx context.Context, from, to *api.App, pod *corev1.Pod) error {
	if err := ctrl.SetControllerReference(from, pod, r.Scheme); err != nil {
		return err
	}
	if err := r.Update(ctx, pod); err != nil {
		return err
	}
	if err := controllerutil.RemoveControllerReference(from, pod, r.Scheme); err != nil {
		return err
	}
	return ctrl.SetControllerReference(to, pod, r.Scheme)
}

func (r *Reconciler) clear(from, to *api.App, pod, other *corev1.Pod) error {
	if err := ctrl.SetControllerReference(from, pod, r.Scheme); err != nil {
		return err
	}
	pod.OwnerReferences = nil
	if err := ctrl.SetControllerReference(to, pod, r.Scheme); err != nil {
		return err
	}
	*pod = *other
	return ctrl.SetControllerReference(from, pod, r.Scheme)
}

// Both names are of one object.
func (r *Reconciler) alias(app *api.App, pod *corev1.Pod) error {
	owner := app
	if err := ctrl.SetControllerReference(app, pod, r.Scheme); err != nil {
		return err
	}
	return ctrl.SetControllerReference(owner, pod, r.Scheme)
}
