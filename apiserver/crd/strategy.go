package crd

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
)

// strategy is the interface of upstream's strategies for custom resources.
type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
}

// lazyStrategy is a strategy whose schema is compiled for the first validation: compiling its rules
// takes longer than the rest of serving it.
type lazyStrategy struct {
	strategy
	whole func() (versionStrategy, error)
}

// versionStrategy is a strategy with a compiled schema.
type versionStrategy struct {
	strategy
	creates func(context.Context, runtime.Object) bool            // valid for sure
	updates func(_ context.Context, obj, old runtime.Object) bool // valid for sure
}

func (s lazyStrategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	whole, err := s.whole()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	if whole.creates(ctx, obj) {
		return nil
	}
	return whole.Validate(ctx, obj)
}

func (s lazyStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	whole, err := s.whole()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	if whole.updates(ctx, obj, old) {
		observeRatcheting()
		return nil
	}
	return whole.ValidateUpdate(ctx, obj, old)
}

// strategies are those of one version, with its schema.
type strategies struct{ main, status versionStrategy }
