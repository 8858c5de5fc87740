// Command batch is an operator for Migrations: tasks that are executed once, by a Job, and never
// again, whatever is deleted, restarted or lost in between.
//
// Without a kubeconfig it starts a control plane of its own in the same process, creates samples,
// and prints what it does. With a kubeconfig it is an operator like any other and runs against that
// cluster.
package main

//go:generate go run flyball.dev/cmd/flyball generate

import (
	"flyball.dev/ctrl"
	migrationv1 "flyball.dev/examples/batch/api/v1"
	"flyball.dev/examples/batch/config"
	"flyball.dev/examples/batch/internal/controller"
	"flyball.dev/examples/batch/internal/tour"
	"flyball.dev/examples/internal/example"
)

func main() { batch.Main() }

var batch = &example.Example{
	Name:        "batch",
	Does:        "It executes each Migration once, by a Job.",
	AddToScheme: migrationv1.AddToScheme,
	Config:      config.Files,
	SetUp: func(mgr ctrl.Manager) error {
		return (&controller.MigrationReconciler{
			Client:   mgr.GetClient(),
			Live:     mgr.GetAPIReader(),
			Scheme:   mgr.GetScheme(),
			Recorder: mgr.GetEventRecorder("batch"),
		}).SetupWithManager(mgr)
	},
	Tour: tour.Steps,
	Invitation: `
kubectl get migrations,jobs   # the first has succeeded, the second fails
kubectl delete jobs --all     # nothing is executed again
kubectl patch migration add-index --type merge -p '{"spec":{"attempt":2,"podAnnotations":{"flyball.dev/outcome":"Succeeded"}}}'
kubectl patch migration add-index --type merge -p '{"spec":{"attempt":3}}'   # rejected: it has succeeded`,
}
