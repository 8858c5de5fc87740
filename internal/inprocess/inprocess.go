// Package inprocess tells whether the API server of a config runs in this process.
package inprocess

import "k8s.io/client-go/rest"

// Transport is a transport that may reach an API server in this process.
type Transport interface{ InProcess() bool }

// Serves returns whether the API server of config runs in this process. Its [Transport] says so.
func Serves(config *rest.Config) bool {
	transport, ok := config.Transport.(Transport)
	return ok && transport.InProcess()
}
