package twoowners

import (
	"context"

	"api"
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

func (r *Reconciler) sync(ctx context.Context, app, other *api.App, pods []*corev1.Pod) error {
	pod := &corev1.Pod{}
	if err := ctrl.SetControllerReference(app, pod, r.Scheme); err != nil {
		return err
	}
	if err := ctrl.SetControllerReference(other, pod, r.Scheme); err != nil { // want `pod has app as its controller since line`
		return err
	}
	for _, pod := range pods {
		if err := ctrl.SetControllerReference(app, pod, r.Scheme); err != nil {
			return err
		}
	}
	pod = &corev1.Pod{}
	if app.Name == "" {
		return ctrl.SetControllerReference(app, pod, r.Scheme)
	}
	if err := controllerutil.SetOwnerReference(app, pod, r.Scheme); err != nil {
		return err
	}
	return ctrl.SetControllerReference(other, pod, r.Scheme)
}
