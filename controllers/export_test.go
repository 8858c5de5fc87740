package controllers

import (
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
)

// AddAllWithClient is AddAll with the function that creates the clients of the controllers.
func AddAllWithClient(mgr manager.Manager, o Options, newClient client.NewClientFunc) error {
	return addAll(mgr, o, newClient)
}
