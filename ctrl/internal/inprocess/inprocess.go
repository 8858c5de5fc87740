// Package inprocess tells whether the API server of a config runs in this process.
package inprocess

import "k8s.io/client-go/rest"

// Serves returns whether the API server of config runs in this process. Its transport says so, by a
// method InProcess.
func Serves(config *rest.Config) bool {
	transport, ok := config.Transport.(interface{ InProcess() bool })
	return ok && transport.InProcess()
}
