package generatename

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func newDeployment(name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}}
}

type Reconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: req.Name}}
	if err := r.Create(ctx, pod); err != nil { // want `every reconcile creates another Pod`
		return ctrl.Result{}, err
	}
	secret := &corev1.Secret{}
	secret.Name = req.Name + time.Now().String()
	if err := r.Create(ctx, secret); err != nil { // want `every reconcile creates another Secret`
		return ctrl.Result{}, err
	}
	deployment := newDeployment(req.Name)
	if err := r.Create(ctx, deployment); err != nil { // want `every reconcile creates another Deployment`
		return ctrl.Result{}, err
	}
	services := &corev1.ServiceList{}
	if err := r.List(ctx, services); err != nil || len(services.Items) > 0 {
		return ctrl.Result{}, err
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{GenerateName: req.Name}}
	if err := r.Create(ctx, service); err != nil {
		return ctrl.Result{}, err
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: req.Name}}
	return ctrl.Result{}, r.Create(ctx, config)
}
