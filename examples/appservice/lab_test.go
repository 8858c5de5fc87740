package main

import (
	"errors"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics/server"
	appv1 "flyball.dev/examples/appservice/api/v1"
	"flyball.dev/examples/appservice/internal/controller"
	"flyball.dev/examples/internal/exampletest"
	"flyball.dev/lab"
)

// TestLab explores what can go wrong while an AppService is created, scaled, deleted, created again and changed.
func TestLab(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), appv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	app := &appv1.AppService{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       appv1.AppServiceSpec{Image: "nginx:1.29", Replicas: 2},
	}
	lab.Explore(t, lab.Operator{
		CRDPaths: []string{filepath.Join("config", "crd", "bases")},
		Scheme:   scheme,
		Start: func(cfg *rest.Config) (manager.Manager, error) {
			mgr, err := ctrl.NewManager(cfg, ctrl.Options{
				Scheme:     scheme,
				Metrics:    server.Options{BindAddress: "0"},                 // virtual time has no sockets
				Controller: config.Controller{SkipNameValidation: new(true)}, // the next process has the same controller
			})
			if err != nil {
				return nil, err
			}
			r := &controller.AppServiceReconciler{Client: mgr.GetClient(), Scheme: scheme, Recorder: mgr.GetEventRecorder("appservice")}
			return mgr, r.SetupWithManager(mgr)
		},
	}, lab.Scenario{
		Steps: []lab.Step{
			lab.Create(app),
			lab.Update(app, func(a *appv1.AppService) { a.Spec.Replicas = 3 }),
			lab.Remove(app),
			lab.Create(app),
			lab.Update(app, func(a *appv1.AppService) { a.Spec.Image = "nginx:1.30" }),
		},
		Schedules: exampletest.Schedules(), // the number for all examples; the default is 300
	})
}
