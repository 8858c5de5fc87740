// Command appservice is an operator for AppServices: a Deployment and a Service for each.
//
// Without a kubeconfig it starts a control plane of its own in the same process, creates a sample,
// and prints what it does. With a kubeconfig it is an operator like any other and runs against that
// cluster.
package main

//go:generate go run flyball.dev/cmd/flyball generate

import (
	"flyball.dev/ctrl"
	appv1 "flyball.dev/examples/appservice/api/v1"
	"flyball.dev/examples/appservice/config"
	"flyball.dev/examples/appservice/internal/controller"
	"flyball.dev/examples/appservice/internal/tour"
	"flyball.dev/examples/internal/example"
)

func main() { appService.Main() }

var appService = &example.Example{
	Name:        "appservice",
	Does:        "It creates a Deployment and a Service for each AppService.",
	AddToScheme: appv1.AddToScheme,
	Config:      config.Files,
	SetUp: func(mgr ctrl.Manager) error {
		return (&controller.AppServiceReconciler{
			Client:   mgr.GetClient(),
			Scheme:   mgr.GetScheme(),
			Recorder: mgr.GetEventRecorder("appservice"),
		}).SetupWithManager(mgr)
	},
	Tour: tour.Steps,
	Invitation: `
kubectl get appservices,deployments,pods
kubectl patch appservice hello --type merge -p '{"spec":{"replicas":4}}'
kubectl set image deployment/hello app=intruder:1
kubectl delete deployment hello
kubectl delete appservice hello`,
}
