// Package predicate holds filters that decide which events reach a handler.
//
// Predicates filter the events of one controller; the objects in the cache are selected by the
// cache's options. They run on the goroutine that delivers events, so they must be fast, and must
// not modify the objects.
package predicate

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
)

// TypedPredicate reports for each event whether it should be handled.
type TypedPredicate[object any] interface {
	Create(event.TypedCreateEvent[object]) bool
	Delete(event.TypedDeleteEvent[object]) bool
	Update(event.TypedUpdateEvent[object]) bool
	Generic(event.TypedGenericEvent[object]) bool
}

// Predicate is a TypedPredicate of any object.
type Predicate = TypedPredicate[client.Object]

// TypedFuncs is a TypedPredicate made of functions. If a function is nil, all events of its type
// pass.
type TypedFuncs[object any] struct {
	CreateFunc  func(event.TypedCreateEvent[object]) bool
	DeleteFunc  func(event.TypedDeleteEvent[object]) bool
	UpdateFunc  func(event.TypedUpdateEvent[object]) bool
	GenericFunc func(event.TypedGenericEvent[object]) bool
}

// Funcs is a TypedFuncs of any object.
type Funcs = TypedFuncs[client.Object]

// Create reports whether the event passes CreateFunc.
func (p TypedFuncs[object]) Create(e event.TypedCreateEvent[object]) bool {
	return p.CreateFunc == nil || p.CreateFunc(e)
}

// Delete reports whether the event passes DeleteFunc.
func (p TypedFuncs[object]) Delete(e event.TypedDeleteEvent[object]) bool {
	return p.DeleteFunc == nil || p.DeleteFunc(e)
}

// Update reports whether the event passes UpdateFunc.
func (p TypedFuncs[object]) Update(e event.TypedUpdateEvent[object]) bool {
	return p.UpdateFunc == nil || p.UpdateFunc(e)
}

// Generic reports whether the event passes GenericFunc.
func (p TypedFuncs[object]) Generic(e event.TypedGenericEvent[object]) bool {
	return p.GenericFunc == nil || p.GenericFunc(e)
}

// NewPredicateFuncs returns a predicate that calls filter with the object of every event; of an
// update, with the new one.
func NewPredicateFuncs(filter func(object client.Object) bool) Funcs {
	return NewTypedPredicateFuncs(filter)
}

// NewTypedPredicateFuncs is NewPredicateFuncs for objects of one type.
func NewTypedPredicateFuncs[object any](filter func(object object) bool) TypedFuncs[object] {
	return TypedFuncs[object]{
		CreateFunc:  func(e event.TypedCreateEvent[object]) bool { return filter(e.Object) },
		DeleteFunc:  func(e event.TypedDeleteEvent[object]) bool { return filter(e.Object) },
		UpdateFunc:  func(e event.TypedUpdateEvent[object]) bool { return filter(e.ObjectNew) },
		GenericFunc: func(e event.TypedGenericEvent[object]) bool { return filter(e.Object) },
	}
}

// LabelSelectorPredicate returns a predicate that events pass if the labels of the object match the
// selector. It returns an error if the selector is invalid.
func LabelSelectorPredicate(s metav1.LabelSelector) (Predicate, error) {
	selector, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		return Funcs{}, err
	}
	return NewPredicateFuncs(func(o client.Object) bool {
		return selector.Matches(labels.Set(o.GetLabels()))
	}), nil
}
