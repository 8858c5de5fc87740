package right

import (
	"context"

	"api"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"platform"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reconciler creates what the status does not name yet.
type Reconciler struct{ client.Client }

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if app.Status.Phase != "" {
		return ctrl.Result{}, nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: req.Name + "-", Namespace: req.Namespace}}
	if err := r.Create(ctx, secret); err != nil {
		return ctrl.Result{}, err
	}
	app.Status.Phase = secret.Name
	return ctrl.Result{}, r.Status().Update(ctx, app)
}

// Listing looks by a lister.
type Listing struct {
	client.Client
	Pods platform.Pods
}

func (r *Listing) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pods, err := r.Pods.List(req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	for range 3 - len(pods) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: req.Name + "-"}}
		if err := r.Create(ctx, pod); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, nil
}

// Named gives what is created a name that stays, beside or instead of a generated one.
type Named struct{ client.Client }

func (r *Named) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: req.Name, GenerateName: req.Name + "-"}}
	if err := client.IgnoreAlreadyExists(r.Create(ctx, config)); err != nil {
		return ctrl.Result{}, err
	}
	service := newService(req.Name)
	service.Name, service.GenerateName = req.Name, ""
	return ctrl.Result{}, client.IgnoreAlreadyExists(r.Create(ctx, service))
}

func newService(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}}
}

// Reading reads what it has created.
type Reading struct{ client.Client }

func (r *Reading) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.InNamespace(req.Namespace)); err != nil || len(pods.Items) > 0 {
		return ctrl.Result{}, err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: req.Name + "-", Namespace: req.Namespace}}
	if err := r.Create(ctx, pod); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.Get(ctx, client.ObjectKeyFromObject(pod), pod)
}

// Choosing creates where there is none that it was told of.
type Choosing struct{ client.Client }

func (r *Choosing) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: app.Status.Phase, Namespace: req.Namespace}}
	err := r.Get(ctx, client.ObjectKeyFromObject(pod), pod)
	if err != nil {
		pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: req.Name + "-", Namespace: req.Namespace}}
		return ctrl.Result{}, r.Create(ctx, pod)
	}
	return ctrl.Result{}, nil
}
