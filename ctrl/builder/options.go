package builder

import (
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/predicate"
)

// watch is one kind that is watched.
type watch struct {
	object       client.Object
	predicates   []predicate.Predicate
	onlyMetadata bool
}

func (w *watch) setPredicates(p []predicate.Predicate) { w.predicates = p }
func (w *watch) setOnlyMetadata()                      { w.onlyMetadata = true }

// ForInput is the input of For.
type ForInput struct{ watch }

// OwnsInput is the input of Owns.
type OwnsInput struct {
	watch
	everyOwner bool
}

// WatchesInput is the input of Watches.
type WatchesInput[request comparable] struct {
	watch
	handler handler.TypedEventHandler[client.Object, request]
}

// untypedWatchesInput is a WatchesInput of any type of requests.
type untypedWatchesInput interface {
	setPredicates([]predicate.Predicate)
	setOnlyMetadata()
}

// ForOption is an option of For.
type ForOption interface {
	ApplyToFor(*ForInput)
}

// OwnsOption is an option of Owns.
type OwnsOption interface {
	ApplyToOwns(*OwnsInput)
}

// WatchesOption is an option of Watches.
type WatchesOption interface {
	ApplyToWatches(untypedWatchesInput)
}

// Predicates are the predicates that the events of one kind must pass.
type Predicates struct {
	predicates []predicate.Predicate
}

// WithPredicates filters the events: an event must pass all of the predicates.
func WithPredicates(predicates ...predicate.Predicate) Predicates {
	return Predicates{predicates}
}

// ApplyToFor implements ForOption.
func (w Predicates) ApplyToFor(opts *ForInput) { opts.setPredicates(w.predicates) }

// ApplyToOwns implements OwnsOption.
func (w Predicates) ApplyToOwns(opts *OwnsInput) { opts.setPredicates(w.predicates) }

// ApplyToWatches implements WatchesOption.
func (w Predicates) ApplyToWatches(opts untypedWatchesInput) { opts.setPredicates(w.predicates) }

// projectAs is the option OnlyMetadata.
type projectAs struct{}

func (projectAs) ApplyToFor(opts *ForInput)               { opts.setOnlyMetadata() }
func (projectAs) ApplyToOwns(opts *OwnsInput)             { opts.setOnlyMetadata() }
func (projectAs) ApplyToWatches(opts untypedWatchesInput) { opts.setOnlyMetadata() }

// matchEveryOwner is the option MatchEveryOwner.
type matchEveryOwner struct{}

func (*matchEveryOwner) ApplyToOwns(opts *OwnsInput) { opts.everyOwner = true }

var (
	// OnlyMetadata watches and caches only the metadata of a kind, which saves memory if there are
	// many or large objects. The reconciler should then read it as metav1.PartialObjectMetadata
	// with the kind set; reading it by its own type would cache whole objects in a second informer,
	// and the two would not be consistent.
	OnlyMetadata = projectAs{}

	// MatchEveryOwner makes Owns add requests for every owner of the kind given to For, and not
	// only for the one that is the controller.
	MatchEveryOwner = &matchEveryOwner{}
)
