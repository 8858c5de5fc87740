// Command training is an operator for TrainingJobs: workers and parameter servers that train a model
// together. It creates their Pods itself, and decides what a failure means: that one of them is
// replaced, or that all start again.
//
// Without a kubeconfig it starts a control plane of its own in the same process, creates a sample,
// and prints what it does. With a kubeconfig it is an operator like any other and runs against that
// cluster.
package main

//go:generate go run flyball.dev/cmd/flyball generate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/clock"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/example"
	trainingv1 "flyball.dev/examples/training/api/v1"
	"flyball.dev/examples/training/config"
	"flyball.dev/examples/training/internal/controller"
	"flyball.dev/examples/training/internal/tour"
)

func main() { training.Main() }

var training = &example.Example{
	Name:        "training",
	Does:        "It creates workers and a parameter server for each TrainingJob, and replaces those that fail.",
	AddToScheme: trainingv1.AddToScheme,
	Config:      config.Files,
	// The cache holds only the Pods of TrainingJobs, not all Pods of the cluster.
	Options: func(o *ctrl.Options) {
		ofJobs, err := labels.NewRequirement(controller.JobLabel, selection.Exists, nil)
		if err != nil {
			panic(err) // the label is a constant
		}
		o.Cache.ByObject = map[client.Object]cache.ByObject{
			&corev1.Pod{}: {Label: labels.NewSelector().Add(*ofJobs)},
		}
	},
	SetUp: func(mgr ctrl.Manager) error {
		return (&controller.TrainingJobReconciler{
			Client:   mgr.GetClient(),
			Live:     mgr.GetAPIReader(),
			Scheme:   mgr.GetScheme(),
			Recorder: mgr.GetEventRecorder("training"),
			Clock:    clock.RealClock{},
		}).SetupWithManager(mgr)
	},
	Tour: tour.Steps,
	Invitation: `
kubectl get trainingjobs,pods
kubectl annotate pod mnist-worker-1 --overwrite flyball.dev/outcome=Failed flyball.dev/duration-   # replaced
kubectl delete pod mnist-worker-2                                            # replaced
kubectl annotate pods -l training.example.com/role=worker --overwrite flyball.dev/duration-        # all succeed
kubectl events --for trainingjob/mnist`,
}
