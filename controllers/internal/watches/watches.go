// Package watches has the predicates and mappings that the watches of controllers share.
//
//upstream:none The predicates belong to our runtime; client-go's informers have none.
package watches

import (
	"context"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// OnlyDeletes is a predicate for delete events.
var OnlyDeletes = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// Named returns a predicate for the events of objects of a name.
func Named(name string) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == name })
}

// NamespaceOf is a handler.MapFunc that maps an object to its namespace.
func NamespaceOf(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.GetNamespace()}}}
}
