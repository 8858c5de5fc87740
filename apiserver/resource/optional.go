package resource

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	apistorage "k8s.io/apiserver/pkg/storage"
)

// This file has the optional interfaces that package endpoints and package crd ask for. A type that implements one says
// so in its package: var _ resource.BeforeUpdater = strategy{}.

// BeforeUpdater is a [rest.RESTUpdateStrategy] with a faster [rest.BeforeUpdate] for common updates.
type BeforeUpdater interface {
	// BeforeUpdate reports whether it has done the work of [rest.BeforeUpdate]. It does so only for updates that are
	// certainly valid; otherwise the caller must call [rest.BeforeUpdate]. BeforeUpdate changes obj and does not change
	// old. The two may share parts.
	BeforeUpdate(ctx context.Context, obj, old runtime.Object) bool
}

// RegistryUpdater is a [rest.Updater] that updates objects in the same way as its registry.
type RegistryUpdater interface {
	Registry() *registry.Store
}

// StorageUpdater is an [apistorage.Interface] that can update an object without copying the result. It takes the new object, which
// must not be changed afterwards. It does not copy an unstructured current object either: the new object may share parts with
// it.
type StorageUpdater interface {
	Update(ctx context.Context, key string, preconditions *apistorage.Preconditions,
		update apistorage.UpdateFunc) (runtime.Object, error)
}

// StorageCreater is an [apistorage.Interface] that can create an object without copying the result.
type StorageCreater interface {
	// CreateShared creates an object that expires after ttl seconds, or never if ttl is zero. Like Update of a
	// [StorageUpdater], it takes the object, and returns a shallow copy of the stored object.
	CreateShared(ctx context.Context, key string, obj runtime.Object, ttl uint64) (runtime.Object, error)
}

// EventServer is a [watch.Interface] that can send its events without a channel.
type EventServer interface {
	// ServeEvents calls send with each event, on the caller's goroutine, until the watch ends, and flush when no more
	// events are available for now. An error of a function ends the watch. Unless stored is nil, ServeEvents first calls it
	// for initial events.
	ServeEvents(send func(watch.Event) error, stored SendStored, flush func() error)
}

// SendStored sends the event ADDED of an object, which is valid until it returns. It returns false, and has sent nothing, if the
// object must be decoded.
type SendStored func(StoredObject) (sent bool, err error)

// Shareable is an object of an event that other watchers get too.
type Shareable interface {
	// Shallow returns a copy with fields that may be set. What they refer to is shared and must not be changed.
	Shallow() runtime.Object
}

// StrictDecoder is a [runtime.Decoder] that may return an error for unknown fields, as the serializers of apimachinery
// may.
type StrictDecoder interface {
	IsStrict() bool
}
