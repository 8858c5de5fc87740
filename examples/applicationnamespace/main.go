// Command applicationnamespace is an operator for ApplicationNamespaces: it creates a Namespace for
// each, or adopts one that exists.
//
// Without a kubeconfig it starts a control plane of its own in the same process, creates a sample,
// and prints what it does. With a kubeconfig it is an operator like any other and runs against that
// cluster.
package main

//go:generate go run flyball.dev/cmd/flyball generate

import (
	"flyball.dev/ctrl"
	tenancyv1 "flyball.dev/examples/applicationnamespace/api/v1"
	"flyball.dev/examples/applicationnamespace/config"
	"flyball.dev/examples/applicationnamespace/internal/controller"
	"flyball.dev/examples/applicationnamespace/internal/tour"
	"flyball.dev/examples/internal/example"
)

func main() { applicationNamespace.Main() }

var applicationNamespace = &example.Example{
	Name:        "applicationnamespace",
	Does:        "It creates or adopts a Namespace for each ApplicationNamespace.",
	AddToScheme: tenancyv1.AddToScheme,
	Config:      config.Files,
	SetUp: func(mgr ctrl.Manager) error {
		return (&controller.ApplicationNamespaceReconciler{
			Client:   mgr.GetClient(),
			Live:     mgr.GetAPIReader(),
			Scheme:   mgr.GetScheme(),
			Recorder: mgr.GetEventRecorder("applicationnamespace"),
		}).SetupWithManager(mgr)
	},
	Tour: tour.Steps,
	Invitation: `
kubectl get applicationnamespaces,namespaces
kubectl label namespace payments team=intruders --overwrite
kubectl get namespace payments --show-labels
sed 's/^  name: payments/  name: rival/' examples/applicationnamespace/config/samples/*.yaml | kubectl create -f -
kubectl get applicationnamespaces
kubectl delete applicationnamespace payments
kubectl get applicationnamespaces,namespaces`,
}
