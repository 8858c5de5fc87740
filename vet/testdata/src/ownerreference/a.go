package ownerreference

import (
	"context"

	"api"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"platform"
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
	return ctrl.NewControllerManagedBy(mgr).For(&api.App{}).Owns(&appsv1.Deployment{}).Owns(&corev1.Service{}).Complete(r)
}

func (r *Reconciler) sync(ctx context.Context, app *api.App) error {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: app.Name}}
	if err := ctrl.SetControllerReference(app, deployment, r.Scheme); err != nil {
		return err
	}
	if err := r.Create(ctx, deployment); err != nil {
		return err
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: app.Name}}
	if err := r.Create(ctx, service); err != nil { // want `this Service gets no owner, so Owns does not see it`
		return err
	}
	// Another one of a kind that gets owners elsewhere.
	other := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: app.Name + "-other", Namespace: app.Namespace}}
	if err := platform.CreateOrUpdate(ctx, r.Client, other, func() error { // want `this Deployment gets no owner, so Owns does not see it`
		other.Spec.Image = app.Spec.Image
		return nil
	}); err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: app.Name}}
	return r.Create(ctx, secret)
}
