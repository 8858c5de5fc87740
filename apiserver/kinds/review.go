package kinds

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Review describes a kind that is not stored: a create returns the object with its status set.
type Review[T Object] struct {
	// Type is a new, empty value. Its Go type is registered in the scheme.
	Type       T
	Plural     string
	Namespaced bool
	// Answer sets the status of a review.
	Answer func(ctx context.Context, question T) error
}

// Register does nothing: reviews have neither defaults nor selectable fields.
func (r Review[T]) Register(*runtime.Scheme) {}

func (r Review[T]) install(i *installer) error {
	return Action[T]{Type: r.Type, Plural: r.Plural, Namespaced: r.Namespaced, Create: r.create}.install(i)
}

func (r Review[T]) create(ctx context.Context, question T, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	if validate != nil {
		if err := validate(ctx, question.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	return question, r.Answer(ctx, question)
}
