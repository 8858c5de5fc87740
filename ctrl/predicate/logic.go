package predicate

import "flyball.dev/ctrl/event"

// And returns a predicate that events pass if they pass all predicates. With none, all events pass.
func And[object any](predicates ...TypedPredicate[object]) TypedPredicate[object] {
	return all[object](predicates)
}

// Or returns a predicate that events pass if they pass any of the predicates. With none, no event
// passes.
func Or[object any](predicates ...TypedPredicate[object]) TypedPredicate[object] {
	inverse := make([]TypedPredicate[object], len(predicates))
	for i, p := range predicates {
		inverse[i] = Not(p)
	}
	return Not(And(inverse...))
}

// Not returns a predicate that events pass if they do not pass the given one.
func Not[object any](predicate TypedPredicate[object]) TypedPredicate[object] {
	return not[object]{predicate}
}

// all is a predicate that is true if all of its predicates are.
type all[object any] []TypedPredicate[object]

func (a all[object]) Create(e event.TypedCreateEvent[object]) bool {
	return every(a, func(p TypedPredicate[object]) bool { return p.Create(e) })
}

func (a all[object]) Delete(e event.TypedDeleteEvent[object]) bool {
	return every(a, func(p TypedPredicate[object]) bool { return p.Delete(e) })
}

func (a all[object]) Update(e event.TypedUpdateEvent[object]) bool {
	return every(a, func(p TypedPredicate[object]) bool { return p.Update(e) })
}

func (a all[object]) Generic(e event.TypedGenericEvent[object]) bool {
	return every(a, func(p TypedPredicate[object]) bool { return p.Generic(e) })
}

func every[object any](predicates []TypedPredicate[object], passes func(TypedPredicate[object]) bool) bool {
	for _, p := range predicates {
		if !passes(p) {
			return false
		}
	}
	return true
}

// not is a predicate that is true if its predicate is not.
type not[object any] struct{ of TypedPredicate[object] }

func (n not[object]) Create(e event.TypedCreateEvent[object]) bool   { return !n.of.Create(e) }
func (n not[object]) Delete(e event.TypedDeleteEvent[object]) bool   { return !n.of.Delete(e) }
func (n not[object]) Update(e event.TypedUpdateEvent[object]) bool   { return !n.of.Update(e) }
func (n not[object]) Generic(e event.TypedGenericEvent[object]) bool { return !n.of.Generic(e) }
