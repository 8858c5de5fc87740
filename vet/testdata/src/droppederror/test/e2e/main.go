// Command e2e checks an operator in a cluster. It reconciles objects itself, and whoever runs it sees what fails.
package main

import (
	"context"

	"api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Reconciler struct{ client.Client }

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.Create(ctx, &api.App{})
	return ctrl.Result{}, nil
}

func main() {}
