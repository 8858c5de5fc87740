package generatename

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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

// Looker looks for a pod by a name that it has not got yet.
type Looker struct{ client.Client }

func (r *Looker) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: req.Name, Namespace: req.Namespace}}
	found := &corev1.Pod{}
	err := r.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, found) // want `this Pod has a new name each time`
	if apierrors.IsNotFound(err) {
		err = r.Create(ctx, pod)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	deployment := newDeployment(req.Name)
	if err := r.Get(ctx, client.ObjectKeyFromObject(deployment), &appsv1.Deployment{}); err != nil { // want `this Deployment has a new name each time`
		return ctrl.Result{}, r.Create(ctx, deployment)
	}
	return ctrl.Result{}, nil
}
