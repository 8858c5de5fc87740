// Command database is an operator for Databases: a StatefulSet with a primary and replicas, and a
// vault for snapshots at a backup service outside of the cluster. It waits for what it depends on,
// fails over, upgrades in the order that a database needs, and deletes the vault with the Database.
//
// Without a kubeconfig it starts a control plane of its own in the same process, creates a sample,
// and prints what it does. With a kubeconfig it is an operator like any other and runs against that
// cluster. The backup service runs in the process, too.
package main

//go:generate go run flyball.dev/cmd/flyball generate

import (
	"flag"
	"fmt"
	"os"
	"time"

	"flyball.dev/ctrl"
	dbv1 "flyball.dev/examples/database/api/v1"
	"flyball.dev/examples/database/config"
	"flyball.dev/examples/database/internal/backup"
	"flyball.dev/examples/database/internal/controller"
	"flyball.dev/examples/database/internal/tour"
	"flyball.dev/examples/internal/example"
)

func main() {
	service, err := backup.Start(backup.Settings{Delay: 2000})
	if err != nil {
		fmt.Fprintf(os.Stderr, "database: the backup service: %v\n", err)
		os.Exit(1)
	}
	newExample(service).Main()
}

// newExample returns the example with a backup service, which must run.
func newExample(service *backup.Server) *example.Example {
	url, poll := service.URL(), time.Second
	return &example.Example{
		Name:        "database",
		Does:        "It runs a StatefulSet for each Database, with a vault at a backup service.",
		AddToScheme: dbv1.AddToScheme,
		Config:      config.Files,
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&url, "backup-service", url, "the `URL` of the backup service; by default one in this process")
			flags.DurationVar(&poll, "poll-interval", poll, "how often the backup service is asked for what is pending")
		},
		SetUp: func(mgr ctrl.Manager) error {
			return (&controller.DatabaseReconciler{
				Client:         mgr.GetClient(),
				Secrets:        mgr.GetAPIReader(),
				Scheme:         mgr.GetScheme(),
				Recorder:       mgr.GetEventRecorder("database"),
				Backups:        backup.NewClient(url),
				PollInterval:   poll,
				ResyncInterval: 10 * time.Minute,
			}).SetupWithManager(mgr)
		},
		Tour: func(w *example.World) []example.Step {
			poll = tour.PollInterval
			return tour.Steps(w, service)
		},
		Invitation: `
kubectl get databases,statefulsets,pods,services,persistentvolumeclaims
kubectl patch database orders --type merge -p '{"spec":{"version":"17.6"}}'   # snapshot, replicas, promotion
kubectl delete pod orders-0 --wait=false                                      # failover, if it is the primary
kubectl patch database orders --type merge -p '{"spec":{"storage":"2Gi"}}'    # refused: it is immutable
curl ` + service.URL() + `/vaults
curl -X PUT ` + service.URL() + `/settings -d '{"down":true}'
kubectl delete database orders --wait=false                                   # it stays: its vault cannot be deleted
curl -X PUT ` + service.URL() + `/settings -d '{"down":false}'                # now it goes`,
	}
}
