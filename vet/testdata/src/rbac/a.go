package rbac

import (
	"context"

	"api"
	appsv1 "k8s.io/api/apps/v1"
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

// +kubebuilder:rbac:groups=example.com,resources=apps,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods;secrets,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=example.com,resources=apps/status,verbs=patch

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.Update(ctx, app); err != nil { // want `no marker of the module grants update of apps`
		return ctrl.Result{}, err
	}
	if err := r.Create(ctx, &corev1.Pod{}); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.Delete(ctx, &corev1.Pod{}); err != nil { // want `no marker of the module grants delete of pods: add \+kubebuilder:rbac:groups="",resources=pods,verbs=delete`
		return ctrl.Result{}, err
	}
	if err := r.List(ctx, &corev1.ServiceList{}); err != nil { // want `no marker of the module grants get, list, watch of services`
		return ctrl.Result{}, err
	}
	if err := r.List(ctx, &corev1.ConfigMapList{}); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.Get(ctx, req.NamespacedName, &corev1.Node{}); err != nil { // want `no marker of the module grants get, list, watch of nodes`
		return ctrl.Result{}, err
	}
	secret := &corev1.Secret{}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, secret, func() error { return nil }); err != nil { // want `no marker of the module grants update of secrets`
		return ctrl.Result{}, err
	}
	if err := r.Status().Update(ctx, &corev1.Pod{}); err != nil { // want `no marker of the module grants update of pods/status`
		return ctrl.Result{}, err
	}
	deployment := &appsv1.Deployment{}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error { return nil }); err != nil { // want `no marker of the module grants create, update, delete of deployments: add \+kubebuilder:rbac:groups=apps,resources=deployments,verbs=create;update;delete`
		return ctrl.Result{}, err
	}
	if err := r.Delete(ctx, deployment); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.Status().Update(ctx, app)
}

func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&api.App{}).
		Owns(&corev1.Secret{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Event{}). // want `no marker of the module grants get, list, watch of events`
		Complete(r)
}
