package controlplane

import (
	"context"

	"flyball.dev/apiserver"
	"flyball.dev/internal/inprocess"
)

var _ inprocess.Observable = (*inProcess)(nil)

// Observer implements [inprocess.Observable]. Clients with a certificate have no observer.
func (t *inProcess) Observer() inprocess.Observer {
	server, ok := t.handler.(*apiserver.Server)
	if !ok || t.userOf == nil {
		return nil
	}
	return server.Observer(t.userOf(context.Background()))
}

var _ inprocess.Sharer = (*inProcess)(nil)

// SharesObjects implements [inprocess.Sharer].
func (t *inProcess) SharesObjects() bool { return t.controller }
