// Package record stands for that of client-go.
package record

import "k8s.io/apimachinery/pkg/runtime"

type EventRecorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}
