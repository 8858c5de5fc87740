package droppederror

import (
	"context"

	"api"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

type Reconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

type pods interface {
	Update(ctx context.Context, pod *corev1.Pod, options metav1.UpdateOptions) (*corev1.Pod, error)
}

func (r *Reconciler) drop(ctx context.Context, app *api.App, p pods, pod *corev1.Pod) error {
	r.Update(ctx, pod)                                                             // want `the error of Update is dropped`
	_ = r.Status().Update(ctx, app)                                                // want `the error of Update of the status is dropped`
	defer r.Delete(ctx, pod)                                                       // want `the error of Delete is dropped`
	go r.Client.Create(ctx, pod)                                                   // want `the error of Create is dropped`
	_, _ = p.Update(ctx, pod, metav1.UpdateOptions{})                              // want `the error of Update is dropped`
	_, _ = controllerutil.CreateOrUpdate(ctx, r, pod, func() error { return nil }) // want `the error of CreateOrUpdate is dropped`
	_ = r.Get(ctx, types.NamespacedName{}, app)
	if err := r.Update(ctx, app); err != nil {
		// The reconcile is tried again whatever becomes of the status.
		_ = r.Status().Update(ctx, app)
		return err
	}
	err := r.Delete(ctx, app)
	return err
}

func (r *Reconciler) described(ctx context.Context, app *api.App) (ctrl.Result, error) {
	// The phase is shown to people.
	_ = r.Status().Update(ctx, app) // want `the error of Update of the status is dropped`
	// This is best effort, but nobody has said so with _.
	r.Update(ctx, app) // want `the error of Update is dropped`
	return ctrl.Result{}, nil
}

func (r *Reconciler) later(ctx context.Context, app *api.App) (ctrl.Result, error) {
	_ = r.Status().Update(ctx, app)
	return ctrl.Result{RequeueAfter: 1}, nil
}

func (r *Reconciler) finalize(ctx context.Context, app *api.App, pod *corev1.Pod) (ctrl.Result, error) {
	_ = r.Delete(ctx, pod) // want `the error of Delete is dropped`
	controllerutil.RemoveFinalizer(app, "example.com/app")
	if err := r.Update(ctx, app); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: 1}, nil
}

func (r *Reconciler) expire(ctx context.Context, app *api.App) (ctrl.Result, error) {
	if app.Status.Phase == "Done" {
		_ = r.Delete(ctx, app) // want `the error of Delete is dropped`
		return ctrl.Result{}, nil
	}
	if app.Status.Phase == "Failed" {
		_ = r.Status().Update(ctx, app) // want `the error of Update of the status is dropped`
		return ctrl.Result{Requeue: false}, nil
	}
	for range 3 {
		_ = r.Update(ctx, app) // want `the error of Update is dropped`
	}
	if app.Status.Phase == "Waiting" {
		return ctrl.Result{RequeueAfter: 1}, nil
	}
	return ctrl.Result{}, nil
}

func (r *Reconciler) gone(ctx context.Context, app *api.App) (ctrl.Result, error) {
	if err := r.Update(ctx, app); err != nil {
		_ = r.Status().Update(ctx, app) // want `the error of Update of the status is dropped`
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.Update(ctx, app); err != nil {
		err = r.Delete(ctx, app)
		_ = r.Status().Update(ctx, app) // want `the error of Update of the status is dropped`
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, nil
}

func (r *Reconciler) again(ctx context.Context, app *api.App) (ctrl.Result, error) {
	_ = r.Status().Update(ctx, app) // want `the error of Update of the status is dropped`
	if err := r.Update(ctx, app); err != nil {
		return ctrl.Result{}, err
	}
	_ = r.Status().Update(ctx, app) // want `the error of Update of the status is dropped`
	return ctrl.Result{}, nil
}
