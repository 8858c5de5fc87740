package none

import (
	"context"

	"api"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Reconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{}, r.sync(ctx, app)
}

func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&api.App{}).Owns(&appsv1.Deployment{}).Complete(r)
}

func (r *Reconciler) sync(ctx context.Context, app *api.App) error {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: app.Name}}
	if _, err := ctrl.CreateOrUpdate(ctx, r, deployment, func() error { return nil }); err != nil { // want `this Deployment gets no owner`
		return err
	}
	return r.create(ctx, deployment)
}

func (r *Reconciler) create(ctx context.Context, object client.Object) error {
	return r.Create(ctx, object) // want `the object gets no owner`
}
