package handler

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type EventHandler interface{}

func EnqueueRequestsFromMapFunc(f func(context.Context, client.Object) []reconcile.Request) EventHandler {
	return nil
}
