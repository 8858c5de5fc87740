package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"flyball.dev/test/compat/operator/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/finalizer"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const finalizerName = api.Group + "/finalizer"

// reconciler gives each widget a config map with its color.
type reconciler struct {
	client.Client
	finalizers finalizer.Finalizers
	events     recorder.EventRecorder
}

// finalize implements finalizer.Finalizer.
type finalize func(client.Object)

func (f finalize) Finalize(_ context.Context, obj client.Object) (finalizer.Result, error) {
	f(obj)
	return finalizer.Result{}, nil
}

func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var w api.Widget
	if err := r.Get(ctx, req.NamespacedName, &w); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	log.FromContext(ctx).V(1).Info("reconciling", "id", controller.ReconcileIDFromContext(ctx))
	result, err := r.finalizers.Finalize(ctx, &w)
	if err != nil {
		return reconcile.Result{}, err
	}
	if result.Updated {
		if err := r.Update(ctx, &w); err != nil {
			return reconcile.Result{}, err
		}
	}
	if w.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	operation, err := controllerutil.CreateOrUpdate(ctx, r, cm, func() error {
		cm.Data = map[string]string{"color": w.Spec.Color}
		return controllerutil.SetControllerReference(&w, cm, r.Scheme())
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	if operation == controllerutil.OperationResultCreated {
		r.events.Eventf(&w, nil, corev1.EventTypeNormal, "Created", "Create", "config map %s", cm.Name)
	}
	before := client.MergeFrom(w.DeepCopyObject().(client.Object))
	w.Status.Phase = "Ready"
	return reconcile.Result{RequeueAfter: time.Hour}, r.Status().Patch(ctx, &w, before)
}

// addControllers adds the controller of widgets, and one of strings that arrive on a channel.
func addControllers(mgr manager.Manager, finalized func(client.Object), in <-chan event.TypedGenericEvent[string], out chan<- string) error {
	finalizers := finalizer.NewFinalizers()
	if err := finalizers.Register(finalizerName, finalize(finalized)); err != nil {
		return err
	}
	r := &reconciler{mgr.GetClient(), finalizers, mgr.GetEventRecorder("widget-controller")}
	err := ctrl.NewControllerManagedBy(mgr).Named("widget").
		For(&api.Widget{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.ResourceVersionChangedPredicate{}))).
		Owns(&corev1.ConfigMap{}).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(
			func(context.Context, client.Object) []reconcile.Request { return nil })).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), objectReconciler{r}))
	if err != nil {
		return err
	}
	typed, err := controller.NewTyped("strings", mgr, controller.TypedOptions[string]{
		Reconciler: reconcile.TypedFunc[string](func(_ context.Context, s string) (reconcile.Result, error) {
			out <- s
			return reconcile.Result{}, nil
		}),
		SkipNameValidation: ptr.To(true),
	})
	if err != nil {
		return err
	}
	return typed.Watch(source.TypedChannel(in, handler.TypedEnqueueRequestsFromMapFunc(
		func(_ context.Context, s string) []string { return []string{s + "!"} })))
}

// objectReconciler passes objects to a reconciler by name.
type objectReconciler struct{ *reconciler }

func (r objectReconciler) Reconcile(ctx context.Context, w *api.Widget) (reconcile.Result, error) {
	return r.reconciler.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w)})
}

// controllerDefaults are the defaults of the controllers.
func controllerDefaults() config.Controller {
	return config.Controller{MaxConcurrentReconciles: 1, RecoverPanic: ptr.To(true)}
}

// firstOfQueue returns the first item of a priority queue.
func firstOfQueue() string {
	q := priorityqueue.New[string]("compat")
	defer q.ShutDown()
	q.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(1)}, "second")
	q.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(5)}, "first")
	item, _, _ := q.GetWithPriority()
	q.Done(item)
	return item
}
