// Package inprocess has what a client may know of an API server that runs in its process.
package inprocess

import (
	"context"
	"sync"

	"k8s.io/client-go/rest"
)

// Transport is a transport that may reach an API server in this process.
type Transport interface{ InProcess() bool }

// Discoverer is a transport to one of several API servers with the same discovery documents.
type Discoverer interface {
	// Discovered returns what clients have made of the documents, by keys of their own. It returns nil if the documents
	// of this server may have changed.
	Discovered() *sync.Map
}

// Discovered returns what clients of config's API server, and of others with the same discovery documents, have made of the
// documents, or nil. See [Discoverer]. A value must be immutable, and only depend on the documents.
func Discovered(config *rest.Config) *sync.Map {
	if d, ok := config.Transport.(Discoverer); ok {
		return d.Discovered()
	}
	return nil
}

// Serves returns whether the API server of config runs in this process. Its [Transport] says so.
func Serves(config *rest.Config) bool {
	transport, ok := config.Transport.(Transport)
	return ok && transport.InProcess()
}

// Checker is a transport that checks the program that uses it.
type Checker interface{ Checks() bool }

// Checks returns whether the transport of config checks the program itself, so that its manager need not warn of mistakes. Its
// [Checker] says so.
func Checks(config *rest.Config) bool {
	transport, ok := config.Transport.(Checker)
	return ok && transport.Checks()
}

// Caller is a transport that decides about the calls that its program makes of external systems.
type Caller interface {
	// Call calls do, or refuses to, and returns the error of the call. The name identifies the call.
	Call(name string, do func() error) error
}

// Reconciles is a transport that learns of the reconciles of its program.
type Reconciles interface {
	// Reconciled is called after each reconcile of a request by a controller, before the request is queued again. It may wait
	// until ctx ends, and so keep the controller from going on. Several goroutines may call it at once.
	Reconciled(ctx context.Context, controller string, request any)
}

// ReconcilesOf returns the transport of config if it is a [Reconciles], or nil.
func ReconcilesOf(config *rest.Config) Reconciles {
	if config == nil {
		return nil
	}
	r, _ := config.Transport.(Reconciles)
	return r
}
