// Package events has the recorder of events of the controllers.
//
//upstream:none The recorder is of the runtime.
package events

import (
	"k8s.io/client-go/tools/record"

	"flyball.dev/ctrl/manager"
)

// RecorderFor returns a recorder of core events, which kube-controller-manager, kubelet and external
// provisioners record instead of those of the group events.k8s.io.
func RecorderFor(mgr manager.Manager, component string) record.EventRecorder {
	//lint:ignore SA1019 it is the recorder of core events
	return mgr.GetEventRecorderFor(component)
}
