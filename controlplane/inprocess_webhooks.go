package controlplane

// InProcess reports that requests stay in this process. A manager asks the transport for it, to know
// that this API server reaches webhooks on loopback.
func (t *inProcess) InProcess() bool { return true }
