package kinds

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/resource"
)

// Action describes a kind that is not stored: to create an object does something, and returns what it
// results in.
type Action[T Object] struct {
	// Type is a new, empty value. Its Go type is registered in the scheme.
	Type       T
	Plural     string
	Namespaced bool
	// Create is as in [rest.Creater].
	Create func(ctx context.Context, obj T, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error)
}

// Register does nothing: actions have neither defaults nor selectable fields.
func (a Action[T]) Register(*runtime.Scheme) {}

func (a Action[T]) install(i *installer) error {
	gvk, err := i.kindOf(a.Type)
	if err != nil {
		return err
	}
	storage := actionREST[T]{a}
	served := &resource.Resource{
		GroupVersion: gvk.GroupVersion(), Kind: gvk, Name: a.Plural, Singular: storage.GetSingularName(),
		Namespaced: a.Namespaced, Storage: storage,
	}
	served.Scope, err = i.scope(served.GroupVersionResource(), "", gvk, gvk.GroupVersion(), a.Namespaced, storage, nil)
	i.resources = append(i.resources, served)
	return err
}

// actionREST serves creates of an action.
type actionREST[T Object] struct{ action Action[T] }

var _ rest.Creater = actionREST[Object]{}

func (r actionREST[T]) New() runtime.Object     { return NewOf(r.action.Type)() }
func (r actionREST[T]) Destroy()                {}
func (r actionREST[T]) NamespaceScoped() bool   { return r.action.Namespaced }
func (r actionREST[T]) GetSingularName() string { return strings.TrimSuffix(r.action.Plural, "s") }

func (r actionREST[T]) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc,
	options *metav1.CreateOptions) (runtime.Object, error) {
	o, ok := obj.(T)
	if !ok {
		return nil, errors.NewBadRequest(fmt.Sprintf("not a %T: %T", r.action.Type, obj))
	}
	return r.action.Create(ctx, o, validate, options)
}
