package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "flyball.dev/examples/appservice/api/v1"
	"flyball.dev/examples/internal/exampletest"
	"flyball.dev/lab"
)

// TestLab explores what can go wrong while an AppService is created, scaled, deleted, created again and changed.
func TestLab(t *testing.T) {
	app := &appv1.AppService{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       appv1.AppServiceSpec{Image: "nginx:1.29", Replicas: 2},
	}
	exampletest.Lab(t, appService, lab.Scenario{Steps: []lab.Step{
		lab.Create(app),
		lab.Update(app, func(a *appv1.AppService) { a.Spec.Replicas = 3 }),
		lab.Remove(app),
		lab.Create(app),
		lab.Update(app, func(a *appv1.AppService) { a.Spec.Image = "nginx:1.30" }),
	}}, nil)
}
