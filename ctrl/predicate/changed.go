package predicate

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/internal/reflectutil"
	"flyball.dev/ctrl/log"
)

// TypedResourceVersionChangedPredicate drops updates that did not change the resource version, such as
// the updates of a resync.
type TypedResourceVersionChangedPredicate[T metav1.Object] struct {
	TypedFuncs[T]
}

// Update reports whether the resource version changed.
func (TypedResourceVersionChangedPredicate[T]) Update(e event.TypedUpdateEvent[T]) bool {
	return complete(e) && e.ObjectNew.GetResourceVersion() != e.ObjectOld.GetResourceVersion()
}

// TypedGenerationChangedPredicate drops updates that did not change metadata.generation, which the
// API server raises when the spec changes.
//
// Changes of metadata and of the status are dropped too, so a controller with this predicate does
// not observe that another client overwrote the status. Some built-in kinds raise the generation
// for other reasons, and updates of kinds without a generation never pass.
type TypedGenerationChangedPredicate[object metav1.Object] struct {
	TypedFuncs[object]
}

// Update reports whether the generation changed.
func (TypedGenerationChangedPredicate[object]) Update(e event.TypedUpdateEvent[object]) bool {
	return complete(e) && e.ObjectNew.GetGeneration() != e.ObjectOld.GetGeneration()
}

// TypedAnnotationChangedPredicate drops updates that did not change the annotations. Combine it by
// Or with GenerationChangedPredicate to pass both.
type TypedAnnotationChangedPredicate[object metav1.Object] struct {
	TypedFuncs[object]
}

// Update reports whether the annotations changed.
func (TypedAnnotationChangedPredicate[object]) Update(e event.TypedUpdateEvent[object]) bool {
	return complete(e) && !maps.Equal(e.ObjectNew.GetAnnotations(), e.ObjectOld.GetAnnotations())
}

// TypedLabelChangedPredicate drops updates that did not change the labels. Combine it by Or with
// GenerationChangedPredicate to pass both.
type TypedLabelChangedPredicate[object metav1.Object] struct {
	TypedFuncs[object]
}

// Update reports whether the labels changed.
func (TypedLabelChangedPredicate[object]) Update(e event.TypedUpdateEvent[object]) bool {
	return complete(e) && !maps.Equal(e.ObjectNew.GetLabels(), e.ObjectOld.GetLabels())
}

// The same predicates for any object.
type (
	// ResourceVersionChangedPredicate is a TypedResourceVersionChangedPredicate of any object.
	ResourceVersionChangedPredicate = TypedResourceVersionChangedPredicate[client.Object]
	// GenerationChangedPredicate is a TypedGenerationChangedPredicate of any object.
	GenerationChangedPredicate = TypedGenerationChangedPredicate[client.Object]
	// AnnotationChangedPredicate is a TypedAnnotationChangedPredicate of any object.
	AnnotationChangedPredicate = TypedAnnotationChangedPredicate[client.Object]
	// LabelChangedPredicate is a TypedLabelChangedPredicate of any object.
	LabelChangedPredicate = TypedLabelChangedPredicate[client.Object]
)

// complete reports whether an update has both objects. If not, that is a bug of the source, which
// is logged.
func complete[object metav1.Object](e event.TypedUpdateEvent[object]) bool {
	if reflectutil.IsNil(e.ObjectOld) || reflectutil.IsNil(e.ObjectNew) {
		log.Current().WithName("predicate").Error(nil, "update event without both objects")
		return false
	}
	return true
}
