// Command mlmodel is an operator for MLModelDeployments: a Deployment and a Service for each. It is
// the happy path of an operator, and writes nothing when there is nothing to do.
//
// Without a kubeconfig it starts a control plane of its own in the same process, creates a sample,
// and prints what it does. With a kubeconfig it is an operator like any other and runs against that
// cluster.
package main

//go:generate go run flyball.dev/cmd/flyball generate

import (
	"flyball.dev/ctrl"
	"flyball.dev/examples/internal/example"
	mlv1 "flyball.dev/examples/mlmodel/api/v1"
	"flyball.dev/examples/mlmodel/config"
	"flyball.dev/examples/mlmodel/internal/controller"
	"flyball.dev/examples/mlmodel/internal/tour"
)

func main() { mlModel.Main() }

var mlModel = &example.Example{
	Name:        "mlmodel",
	Does:        "It creates a Deployment and a Service for each MLModelDeployment.",
	AddToScheme: mlv1.AddToScheme,
	Config:      config.Files,
	SetUp: func(mgr ctrl.Manager) error {
		return (&controller.MLModelDeploymentReconciler{
			Client:   mgr.GetClient(),
			Scheme:   mgr.GetScheme(),
			Recorder: mgr.GetEventRecorder("mlmodel"),
		}).SetupWithManager(mgr)
	},
	Tour: tour.Steps,
	Invitation: `
kubectl get mlmodeldeployments,deployments,services,pods
kubectl patch mlmodeldeployment sentiment --type merge -p '{"spec":{"model":"s3://models/sentiment/4"}}'
kubectl scale mlmodeldeployment sentiment --replicas 3
kubectl annotate mlmodeldeployment sentiment look=again   # a reconcile that writes nothing
kubectl delete service sentiment                          # it is created again
kubectl describe mlmodeldeployment sentiment
kubectl delete mlmodeldeployment sentiment`,
}
