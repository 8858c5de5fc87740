package right

import (
	"context"

	"api"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"platform"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reconciler gives each Secret an owner that can have one.
type Reconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	inside := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: app.Namespace}}
	if err := platform.CreateOrUpdate(ctx, r.Client, inside, func() error {
		return ctrl.SetControllerReference(app, inside, r.Scheme)
	}); err != nil {
		return ctrl.Result{}, err
	}
	// An owner in another namespace is not possible.
	outside := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: app.Spec.Namespace}}
	if err := r.Create(ctx, outside); err != nil {
		return ctrl.Result{}, err
	}
	helped := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "helped", Namespace: app.Namespace}}
	r.decorate(helped)
	if err := r.Create(ctx, helped); err != nil {
		return ctrl.Result{}, err
	}
	listed := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "listed", Namespace: app.Namespace}}
	for _, object := range []client.Object{listed} {
		r.decorate(object)
	}
	if err := r.Create(ctx, listed); err != nil {
		return ctrl.Result{}, err
	}
	referred := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "referred", Namespace: app.Namespace}}
	referred.OwnerReferences = []metav1.OwnerReference{{Name: app.Name}}
	return ctrl.Result{}, r.Create(ctx, referred)
}

func (r *Reconciler) decorate(object client.Object) {}

func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&api.App{}).Owns(&corev1.Secret{}).Complete(r)
}
