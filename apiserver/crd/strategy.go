package crd

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/managedfields"
	"flyball.dev/apiserver/resource"
)

// strategy is the interface of the strategies in apiextensions-apiserver.
type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
}

// lazyStrategy is a strategy that compiles its schema for the first validation, because compiling rules takes longer
// than all other work of serving a definition.
type lazyStrategy struct {
	strategy
	whole  func() (versionStrategy, error)
	status bool // updates leave the status as it is
}

// PrepareForUpdate has the same effect as customResourceStrategy.PrepareForUpdate, which compares whole objects by
// reflection.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/registry/customresource.customResourceStrategy.PrepareForUpdate
func (s lazyStrategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	next, isCustom := obj.(*unstructured.Unstructured)
	before, isCustomToo := old.(*unstructured.Unstructured)
	if !isCustom || !isCustomToo || !s.sameGeneration(next.Object, before.Object) {
		s.strategy.PrepareForUpdate(ctx, obj, old)
		return
	}
	if !s.status {
		return
	}
	if status, ok := before.Object["status"]; ok {
		next.Object["status"] = status
	} else {
		delete(next.Object, "status")
	}
}

// sameGeneration reports whether an update leaves the generation unchanged.
func (s lazyStrategy) sameGeneration(obj, old map[string]any) bool {
	within := func(a, b map[string]any) bool {
		for name, value := range a {
			if name == "metadata" || s.status && name == "status" {
				continue
			}
			if other, ok := b[name]; !ok || !managedfields.EqualJSON(value, other) {
				return false
			}
		}
		return true
	}
	return within(obj, old) && within(old, obj)
}

// lazyStatusStrategy is the strategy of the status subresource.
type lazyStatusStrategy struct{ lazyStrategy }

// PrepareForUpdate has the same effect as statusStrategy.PrepareForUpdate, which copies the old object and decodes the
// managed fields. obj shares everything except the status with the old object.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/registry/customresource.statusStrategy.PrepareForUpdate
func (s lazyStatusStrategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	next, isCustom := obj.(*unstructured.Unstructured)
	before, isCustomToo := old.(*unstructured.Unstructured)
	if !isCustom || !isCustomToo {
		s.strategy.PrepareForUpdate(ctx, obj, old)
		return
	}
	metadata, _ := next.Object["metadata"].(map[string]any)
	_, isMap := before.Object["metadata"].(map[string]any)
	managed := metadata["managedFields"]
	if !isMap || !plainList(managed, plainManager) {
		s.strategy.PrepareForUpdate(ctx, obj, old)
		return
	}
	status, found := next.Object["status"]
	content := withOwnMetadata(before.Object)
	content["metadata"].(map[string]any)["managedFields"] = managed
	if found {
		content["status"] = status
	} else {
		delete(content, "status")
	}
	next.Object = content
}

// withOwnMetadata returns a copy of an object with a new map for the object and a new map for its metadata. It shares
// everything else.
func withOwnMetadata(object map[string]any) map[string]any {
	object = maps.Clone(object)
	if metadata, ok := object["metadata"].(map[string]any); ok {
		object["metadata"] = maps.Clone(metadata)
	}
	return object
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
	return resource.Bounded(whole.Validate(ctx, obj))
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
	return resource.Bounded(whole.ValidateUpdate(ctx, obj, old))
}

// updates reports whether an update is certainly valid.
func (s lazyStrategy) updates(ctx context.Context, obj, old runtime.Object) bool {
	whole, err := s.whole()
	return err == nil && whole.updates(ctx, obj, old)
}

// strategies are the strategies of one version, with its schema.
type strategies struct{ main, status versionStrategy }
