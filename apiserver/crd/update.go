package crd

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	"flyball.dev/apiserver/resource"
)

var _, _ resource.BeforeUpdater = lazyStrategy{}, lazyStatusStrategy{}

// BeforeUpdate implements [resource.BeforeUpdater].
func (s lazyStrategy) BeforeUpdate(ctx context.Context, obj, old runtime.Object) bool {
	return beforeUpdate(ctx, s, obj, old)
}

// BeforeUpdate implements [resource.BeforeUpdater].
func (s lazyStatusStrategy) BeforeUpdate(ctx context.Context, obj, old runtime.Object) bool {
	return beforeUpdate(ctx, s, obj, old)
}

// validatingStrategy is a strategy that can tell that an update is certainly valid.
type validatingStrategy interface {
	rest.RESTUpdateStrategy
	updates(ctx context.Context, obj, old runtime.Object) bool
}

// beforeUpdate has the same effect as rest.BeforeUpdate for plain metadata. rest.BeforeUpdate decodes the managed
// fields four times.
//
//upstream:k8s.io/apiserver/pkg/registry/rest.BeforeUpdate
func beforeUpdate(ctx context.Context, strategy validatingStrategy, obj, old runtime.Object) bool {
	next, isCustom := obj.(*unstructured.Unstructured)
	before, isCustomToo := old.(*unstructured.Unstructured)
	namespace, found := request.NamespaceFrom(ctx)
	if !isCustom || !isCustomToo || !found {
		return false
	}
	metadata, isMap := next.Object["metadata"].(map[string]any)
	oldMetadata, isMapToo := before.Object["metadata"].(map[string]any)
	if !isMap || !isMapToo || oldMetadata["generation"] == nil || oldMetadata["creationTimestamp"] == nil ||
		textOf(metadata["namespace"]) != rest.ExpectedNamespaceForScope(namespace, strategy.NamespaceScoped()) {
		return false
	}
	metadata["generation"] = oldMetadata["generation"]
	strategy.PrepareForUpdate(ctx, next, before)
	metadata = next.Object["metadata"].(map[string]any)
	if metadata["uid"] == nil {
		metadata["uid"] = oldMetadata["uid"]
	}
	metadata["creationTimestamp"] = oldMetadata["creationTimestamp"]
	if seconds := oldMetadata["deletionGracePeriodSeconds"]; seconds != nil && metadata["deletionGracePeriodSeconds"] == nil {
		metadata["deletionGracePeriodSeconds"] = seconds
	}
	if !strategy.updates(ctx, next, before) {
		return false
	}
	observeRatcheting()
	if metadata["finalizers"] != nil {
		for _, w := range strategy.WarningsOnUpdate(ctx, next, before) {
			warning.AddWarning(ctx, "", w)
		}
	}
	return true
}
