package controlplane

import "flyball.dev/internal/inprocess"

var _ inprocess.Transport = (*inProcess)(nil)

// InProcess reports that the API server runs in this process. A manager asks the transport, to find out that the API
// server reaches webhooks on loopback.
func (t *inProcess) InProcess() bool { return true }
