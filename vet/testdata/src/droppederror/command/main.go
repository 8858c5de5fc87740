// A command does not reconcile.
package main

import (
	"context"

	"api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func main() {
	var c client.Client
	defer c.Delete(context.Background(), &api.App{})
	_ = c.Update(context.Background(), &api.App{})
}
