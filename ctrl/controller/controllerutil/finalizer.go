package controllerutil

import (
	"slices"

	"flyball.dev/ctrl/client"
)

// AddFinalizer puts finalizer on o unless it is there, and reports whether it did.
func AddFinalizer(o client.Object, finalizer string) (finalizersUpdated bool) {
	if ContainsFinalizer(o, finalizer) {
		return false
	}
	o.SetFinalizers(append(o.GetFinalizers(), finalizer))
	return true
}

// RemoveFinalizer takes finalizer off o, and reports whether it was there.
func RemoveFinalizer(o client.Object, finalizer string) (finalizersUpdated bool) {
	if !ContainsFinalizer(o, finalizer) {
		return false
	}
	o.SetFinalizers(slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == finalizer }))
	return true
}

// ContainsFinalizer reports whether finalizer is on o.
func ContainsFinalizer(o client.Object, finalizer string) bool {
	return slices.Contains(o.GetFinalizers(), finalizer)
}
