// Command patches is an operator for Overrides, which writes to Deployments of others by update, by
// each kind of patch, and by server-side apply, so that the ways can be compared.
//
// Without a kubeconfig it starts a control plane of its own in the same process, creates a sample,
// and prints what it does. With a kubeconfig it is an operator like any other and runs against that
// cluster.
package main

//go:generate go run flyball.dev/cmd/flyball generate

import (
	"flyball.dev/ctrl"
	"flyball.dev/examples/internal/example"
	patchesv1 "flyball.dev/examples/patches/api/v1"
	"flyball.dev/examples/patches/config"
	"flyball.dev/examples/patches/internal/controller"
	"flyball.dev/examples/patches/internal/tour"
)

func main() { patches.Main() }

var patches = &example.Example{
	Name:        "patches",
	Does:        "It overrides the image and the environment of a container of each Override's Deployment.",
	AddToScheme: patchesv1.AddToScheme,
	Config:      config.Files,
	SetUp: func(mgr ctrl.Manager) error {
		return (&controller.OverrideReconciler{
			Client:   mgr.GetClient(),
			Live:     mgr.GetAPIReader(),
			Recorder: mgr.GetEventRecorder("patches"),
		}).SetupWithManager(mgr)
	},
	Tour: tour.Steps,
	Invitation: `
kubectl get deployment web -o yaml --show-managed-fields
kubectl patch override web --type merge -p '{"spec":{"env":{"REGION":null}}}'
kubectl set env deployment/web --list
kubectl set image deployment/web app=app:2
kubectl get overrides -o wide
kubectl patch override web --type merge -p '{"spec":{"force":true}}'
kubectl get overrides,deployments -o wide`,
}
