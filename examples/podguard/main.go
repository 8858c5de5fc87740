// Command podguard is a controller without a kind of its own: it deletes Pods that use more memory
// than they may.
//
// Without a kubeconfig it starts a control plane of its own in the same process, creates a
// Deployment, and prints what it does. With a kubeconfig it is an operator like any other and runs
// against that cluster.
package main

//go:generate go run flyball.dev/cmd/flyball generate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/podguard/config"
	"flyball.dev/examples/podguard/internal/controller"
	"flyball.dev/examples/podguard/internal/tour"
)

func main() { podGuard.Main() }

var podGuard = &example.Example{
	Name:   "podguard",
	Does:   "It deletes Pods with the label " + controller.GuardLabel + "=true that use too much memory.",
	Config: config.Files,
	// The cache holds only the pods that the controller is for, not all pods of the cluster.
	Options: func(o *ctrl.Options) {
		o.Cache.ByObject = map[client.Object]cache.ByObject{
			&corev1.Pod{}: {Label: labels.SelectorFromSet(labels.Set{controller.GuardLabel: "true"})},
		}
	},
	SetUp: func(mgr ctrl.Manager) error {
		return (&controller.PodReconciler{
			Client:   mgr.GetClient(),
			Recorder: mgr.GetEventRecorder("podguard"),
		}).SetupWithManager(mgr)
	},
	Tour: tour.Steps,
	Invitation: `
kubectl get pods
kubectl annotate pods --all ` + controller.UsageAnnotation + `=100Mi
kubectl annotate pods --all --overwrite ` + controller.UsageAnnotation + `=300Mi   # more than the limit
kubectl events`,
}
