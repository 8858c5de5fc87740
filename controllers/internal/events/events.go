// Package events has the recorder of events of the controllers.
//
//upstream:none The package adapts our manager's recorder.
package events

import (
	"k8s.io/client-go/tools/record"

	"flyball.dev/ctrl/manager"
)

// RecorderFor returns a recorder of core events. kube-controller-manager, kubelet and external provisioners record core
// events, and no events of the group events.k8s.io.
func RecorderFor(mgr manager.Manager, component string) record.EventRecorder {
	//lint:ignore SA1019 it is the recorder of core events
	return mgr.GetEventRecorderFor(component)
}
