// Package accepted uses the spellings of older versions of controller-runtime that Flyball still
// accepts, as docs/migrating.md lists them. It is not built with controller-runtime v0.25.
package accepted

import (
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options has the older fields of the options of a manager.
func Options() ctrl.Options {
	return ctrl.Options{
		MetricsBindAddress:    ":8080",
		Port:                  9443,
		ClientDisableCacheFor: []client.Object{&corev1.Secret{}},
	}
}

// Client is made by the older constructor.
func Client(in client.NewDelegatingClientInput) (client.Client, error) {
	return client.NewDelegatingClient(in)
}
