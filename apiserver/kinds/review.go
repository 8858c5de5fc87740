package kinds

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/resource"
)

// Review describes a kind that is not stored: a create returns the object with its status set.
type Review[T Object] struct {
	// Type is a new, empty value, whose Go type is registered in the scheme.
	Type       T
	Plural     string
	Namespaced bool
	// Answer sets the status of a review.
	Answer func(ctx context.Context, question T) error
}

// Register does nothing: reviews have neither defaults nor selectable fields.
func (r Review[T]) Register(*runtime.Scheme) {}

func (r Review[T]) install(i *installer) error {
	gvk, err := i.kindOf(r.Type)
	if err != nil {
		return err
	}
	storage := reviewREST[T]{r}
	served := &resource.Resource{
		GroupVersion: gvk.GroupVersion(), Kind: gvk, Name: r.Plural, Singular: storage.GetSingularName(),
		Namespaced: r.Namespaced, Storage: storage,
	}
	served.Scope, err = i.scope(served.GroupVersionResource(), "", gvk, gvk.GroupVersion(), r.Namespaced, storage, nil)
	i.resources = append(i.resources, served)
	return err
}

// reviewREST serves creates of reviews.
type reviewREST[T Object] struct{ review Review[T] }

var _ rest.Creater = reviewREST[Object]{}

func (r reviewREST[T]) New() runtime.Object     { return NewOf(r.review.Type)() }
func (r reviewREST[T]) Destroy()                {}
func (r reviewREST[T]) NamespaceScoped() bool   { return r.review.Namespaced }
func (r reviewREST[T]) GetSingularName() string { return strings.TrimSuffix(r.review.Plural, "s") }

func (r reviewREST[T]) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc,
	_ *metav1.CreateOptions) (runtime.Object, error) {
	question, ok := obj.(T)
	if !ok {
		return nil, errors.NewBadRequest("not a review of this kind")
	}
	if validate != nil {
		if err := validate(ctx, question.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	return question, r.review.Answer(ctx, question)
}
