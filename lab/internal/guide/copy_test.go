package copy

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics/server"
	"flyball.dev/lab"
)

type reconciler struct{ client.Client }

func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	original := &corev1.ConfigMap{}
	if err := r.Get(ctx, req.NamespacedName, original); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if original.Labels["copy"] == "" || original.Annotations["copied"] != "" {
		return ctrl.Result{}, nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, GenerateName: req.Name + "-"}}
	if err := ctrl.SetControllerReference(original, secret, r.Scheme()); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.Create(ctx, secret); err != nil {
		return ctrl.Result{}, err
	}
	metav1.SetMetaDataAnnotation(&original.ObjectMeta, "copied", "true")
	return ctrl.Result{}, r.Update(ctx, original)
}

func TestCopies(t *testing.T) {
	original := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"copy": "yes"}}}
	lab.Explore(t, lab.Operator{Start: func(cfg *rest.Config) (manager.Manager, error) {
		mgr, err := ctrl.NewManager(cfg, ctrl.Options{
			Metrics:    server.Options{BindAddress: "0"},                 // no sockets in virtual time
			Controller: config.Controller{SkipNameValidation: new(true)}, // a crash starts the same controller again
		})
		if err != nil {
			return nil, err
		}
		return mgr, ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(&reconciler{mgr.GetClient()})
	}}, lab.Scenario{Steps: []lab.Step{lab.Create(original)}})
}
