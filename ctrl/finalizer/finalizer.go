// Package finalizer runs what must happen before an object may go.
//
// Each finalizer is registered under the key that stands in metadata.finalizers. Finalize puts the
// keys on an object that lives; on one that is being deleted it runs the finalizers whose keys are
// there, and takes away the key of each that succeeded. It changes only the object in memory: the
// caller writes it if the [Result] says so.
package finalizer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	kerrors "k8s.io/apimachinery/pkg/util/errors"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller/controllerutil"
)

// Result says which parts of the object were changed and have to be written.
type Result struct {
	// Updated is set if anything but the status changed.
	Updated bool
	// StatusUpdated is set if the status changed.
	StatusUpdated bool
}

// Finalizer acts on an object, and says what it changed.
type Finalizer interface {
	Finalize(context.Context, client.Object) (Result, error)
}

// Registerer takes finalizers.
type Registerer interface {
	// Register adds a finalizer under a key. It returns an error if the key is taken.
	Register(key string, f Finalizer) error
}

// Finalizers are many finalizers that act as one. Register must not be called at the same time as
// Finalize.
type Finalizers interface {
	Registerer
	Finalizer
}

// NewFinalizers returns Finalizers without any.
func NewFinalizers() Finalizers {
	return finalizers{}
}

type finalizers map[string]Finalizer

func (f finalizers) Register(key string, finalizer Finalizer) error {
	if _, taken := f[key]; taken {
		return fmt.Errorf("finalizer for key %q already registered", key)
	}
	f[key] = finalizer
	return nil
}

// Finalize acts in the order of the keys. A finalizer that fails keeps its key and does not stop the
// others; the error holds all that failed.
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
