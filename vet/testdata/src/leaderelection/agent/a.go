// An agent runs once on each node, and all of them reconcile what is on their nodes.
package main

import (
	"context"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	node := os.Getenv("NODE_NAME")
	mgr, _ := ctrl.NewManager(nil, ctrl.Options{Address: ":8080"})
	_ = node
	ctrl.NewControllerManagedBy(mgr)
}

// leader is a leader election of another library.
var leader election

type election struct{}

func (election) Become(ctx context.Context, lock string) error { return nil }

func elected() {
	if err := leader.Become(context.Background(), "app-lock"); err != nil {
		return
	}
	mgr, _ := ctrl.NewManager(nil, ctrl.Options{Address: ":8080"})
	ctrl.NewControllerManagedBy(mgr)
	mgr.Start(context.Background())
}
