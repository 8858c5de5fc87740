package console

import (
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
)

// onlyNamed selects the objects of the test.
type onlyNamed struct{}

func selected(obj client.Object) bool {
	return obj.GetNamespace() == "default" && obj.GetName() != "kubernetes" && obj.GetName() != "kube-root-ca.crt"
}

func (onlyNamed) Create(e event.CreateEvent) bool   { return selected(e.Object) }
func (onlyNamed) Update(e event.UpdateEvent) bool   { return selected(e.ObjectNew) }
func (onlyNamed) Delete(e event.DeleteEvent) bool   { return selected(e.Object) }
func (onlyNamed) Generic(e event.GenericEvent) bool { return selected(e.Object) }
