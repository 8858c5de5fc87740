package controllerruntime_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"flyball.dev/lab"
)

// TestLab explores an operator that imports controller-runtime. If it is not right, it gives its copies a name each time.
func TestLab(t *testing.T) {
	for _, right := range []bool{true, false} {
		op := lab.Operator{Start: func(cfg *rest.Config) (manager.Manager, error) {
			mgr, err := ctrl.NewManager(cfg, ctrl.Options{Metrics: server.Options{BindAddress: "0"},
				Controller: config.Controller{SkipNameValidation: new(true)}})
			if err != nil {
				return nil, err
			}
			c := mgr.GetClient()
			return mgr, ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(
				reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
					cm := &corev1.ConfigMap{}
					if err := c.Get(ctx, req.NamespacedName, cm); err != nil || cm.Labels["copy"] != "true" {
						return ctrl.Result{}, client.IgnoreNotFound(err)
					}
					secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
					err := c.Get(ctx, req.NamespacedName, secret)
					if right && err == nil && !metav1.IsControlledBy(secret, cm) {
						err = errors.New("the Secret belongs to somebody else")
					}
					if right && err == nil || client.IgnoreNotFound(err) != nil {
						return ctrl.Result{}, err
					}
					if !right && cm.Annotations["copied"] != "" {
						return ctrl.Result{}, nil
					}
					if !right {
						secret.Name, secret.GenerateName = "", req.Name+"-"
					}
					if err := ctrl.SetControllerReference(cm, secret, mgr.GetScheme()); err != nil {
						return ctrl.Result{}, err
					}
					if err := c.Create(ctx, secret); err != nil || right {
						return ctrl.Result{}, err
					}
					metav1.SetMetaDataAnnotation(&cm.ObjectMeta, "copied", "true")
					return ctrl.Result{}, c.Update(ctx, cm)
				}))
		}}
		original := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"copy": "true"}}}
		report, err := lab.Find(t, op, lab.Scenario{Steps: []lab.Step{lab.Create(original)}, Schedules: 20})
		if err != nil {
			t.Fatal(err)
		}
		if found := len(report.Findings) > 0; found == right {
			t.Errorf("right: %v, findings: %v", right, report.Findings)
		}
		if !right && report.Schedules > 1 {
			t.Errorf("the double create is found after %d schedules", report.Schedules)
		}
	}
}
