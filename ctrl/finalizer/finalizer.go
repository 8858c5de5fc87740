// Package finalizer runs finalizers of objects that are being deleted.
//
// Each finalizer is registered under its key in metadata.finalizers. Finalize adds the keys to an
// object that is not being deleted. If the object is being deleted, Finalize runs the finalizers for
// the keys that it has, and removes the key of each finalizer that succeeded. It changes only the
// object in memory: the caller writes it as the [Result] requires.
package finalizer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	kerrors "k8s.io/apimachinery/pkg/util/errors"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/internal/reflectutil"
)

// Result has the parts of the object that were changed and have to be written.
type Result struct {
	// Updated is set if anything but the status changed.
	Updated bool
	// StatusUpdated is set if the status changed.
	StatusUpdated bool
}

// Finalizer finalizes an object and returns what it changed.
type Finalizer interface {
	Finalize(context.Context, client.Object) (Result, error)
}

// Registerer registers finalizers.
type Registerer interface {
	// Register adds a finalizer under a key. It returns an error if the key is registered or the
	// finalizer is nil.
	Register(key string, f Finalizer) error
}

// Finalizers is a set of finalizers. Register must not be called concurrently with Finalize.
type Finalizers interface {
	Registerer
	Finalizer
}

// NewFinalizers returns an empty set.
func NewFinalizers() Finalizers {
	return finalizers{}
}

// finalizers has the registered finalizers by their keys.
type finalizers map[string]Finalizer

func (f finalizers) Register(key string, finalizer Finalizer) error {
	if reflectutil.IsNil(finalizer) {
		return fmt.Errorf("finalizer for key %q must not be nil", key)
	}
	if _, taken := f[key]; taken {
		return fmt.Errorf("finalizer for key %q already registered", key)
	}
	f[key] = finalizer
	return nil
}

// Finalize runs the finalizers in the order of their keys. If one fails, its key remains and the
// others still run; the error aggregates all errors.
func (f finalizers) Finalize(ctx context.Context, obj client.Object) (Result, error) {
	var result Result
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(f)) {
		if obj.GetDeletionTimestamp().IsZero() {
			if controllerutil.AddFinalizer(obj, key) {
				result.Updated = true
			}
			continue
		}
		if !controllerutil.ContainsFinalizer(obj, key) {
			continue
		}
		did, err := f[key].Finalize(ctx, obj)
		result.Updated = result.Updated || did.Updated
		result.StatusUpdated = result.StatusUpdated || did.StatusUpdated
		if err != nil {
			errs = append(errs, fmt.Errorf("finalizer %q failed: %w", key, err))
			continue
		}
		controllerutil.RemoveFinalizer(obj, key)
		result.Updated = true
	}
	return result, kerrors.NewAggregate(errs)
}
