package predicate

import "sigs.k8s.io/controller-runtime/pkg/event"

type Funcs struct {
	CreateFunc func(event.CreateEvent) bool
	UpdateFunc func(event.UpdateEvent) bool
	DeleteFunc func(event.DeleteEvent) bool
}

type GenerationChangedPredicate struct{ Funcs }
