package conversion

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Converter converts objects of a kind between its versions. It must be safe for concurrent use.
type Converter interface {
	// ConvertObject writes src into dst, an object of another version. Both have their apiVersion and
	// kind set, and dst is empty otherwise. Neither must be kept.
	ConvertObject(ctx context.Context, src, dst runtime.Object) error
}

// Registry has the converters of kinds. Registries of [NewRegistry] are safe for concurrent use.
type Registry interface {
	// RegisterConverter sets the converter of a kind. It returns an error if there is one.
	RegisterConverter(gk schema.GroupKind, converter Converter) error
	// GetConverter returns the converter of a kind, if there is one.
	GetConverter(gk schema.GroupKind) (Converter, bool)
}

// NewRegistry returns an empty registry.
func NewRegistry() Registry { return &registry{} }

// registry implements Registry.
type registry struct{ converters sync.Map }

func (r *registry) RegisterConverter(gk schema.GroupKind, converter Converter) error {
	if _, exists := r.converters.LoadOrStore(gk, converter); exists {
		return fmt.Errorf("failed to register Converter for GroupKind %s: converter already registered", gk)
	}
	return nil
}

func (r *registry) GetConverter(gk schema.GroupKind) (Converter, bool) {
	converter, _ := r.converters.Load(gk)
	c, ok := converter.(Converter)
	return c, ok
}
