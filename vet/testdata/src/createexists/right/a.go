package right

import (
	"context"
	"time"

	"api"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"platform"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pending is one phase of a state machine, which another phase follows.
type pending struct{ client.Client }

func (r *pending) Reconcile(ctx context.Context, app *api.App) (ctrl.Result, error) {
	return ctrl.Result{}, r.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: app.Name}})
}

// Reconciler ignores AlreadyExists by a function of another package.
type Reconciler struct{ client.Client }

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	err := r.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: req.Name}})
	if platform.IgnoreAlreadyExistsError(err) != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, nil
}

// Existing passes the error to a function of another package.
type Existing struct{ client.Client }

func (r *Existing) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return ctrl.Result{}, platform.IgnoreExisting(r.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: req.Name}}))
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
		if err := r.Create(ctx, &corev1.Pod{}); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, nil
}

// Logged creates one with a name of its own each time, which is what generatename is about.
type Logged struct{ client.Client }

func (r *Logged) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: req.Name + time.Now().String()}}
	return ctrl.Result{}, r.Create(ctx, config)
}
