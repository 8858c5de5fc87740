package conversion

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/conversion"
)

// IsConvertible reports whether the versions of the kind of obj that are in scheme convert to each
// other by their methods: one is a [conversion.Hub] and all others are [conversion.Convertible]. It
// returns a PartialImplementationError if only some versions have such methods.
func IsConvertible(scheme *runtime.Scheme, obj runtime.Object) (bool, error) {
	kinds, err := objectGVKs(scheme, obj)
	if err != nil {
		return false, err
	}
	result := PartialImplementationError{gvk: kinds[0]}
	for _, gvk := range kinds {
		instance, err := scheme.New(gvk)
		if err != nil {
			return false, fmt.Errorf("failed to allocate an instance for gvk %v: %w", gvk, err)
		}
		switch {
		case isHub(instance):
			result.hubs++
		case isConvertible(instance):
			result.spokes++
		default:
			result.neither++
		}
	}
	switch {
	case len(kinds) == 1, result.hubs == 0 && result.spokes == 0:
		return false, nil
	case result.hubs == 1 && result.neither == 0:
		return true, nil
	default:
		return false, result
	}
}

// PartialImplementationError is the error of a kind with a hub, or versions that convert to one,
// but not exactly one hub that all others convert to.
type PartialImplementationError struct {
	gvk                   schema.GroupVersionKind
	hubs, spokes, neither int
}

func (e PartialImplementationError) Error() string {
	switch {
	case e.hubs == 0:
		return fmt.Sprintf("no hub defined for gvk %s", e.gvk)
	case e.hubs > 1:
		return fmt.Sprintf("multiple(%d) hubs defined for group-kind '%s' ", e.hubs, e.gvk.GroupKind())
	default:
		return fmt.Sprintf("%d inconvertible types detected for group-kind '%s'", e.neither, e.gvk.GroupKind())
	}
}

// objectGVKs returns all versions in scheme of the kind of obj, at least one, in order. It returns
// an error if the type of obj stands for several kinds.
func objectGVKs(scheme *runtime.Scheme, obj runtime.Object) ([]schema.GroupVersionKind, error) {
	// What obj says about its kind is not considered: it may be empty.
	kinds, _, err := scheme.ObjectKinds(obj)
	if err != nil {
		return nil, err
	}
	if len(kinds) != 1 {
		return nil, fmt.Errorf("expect to get only one GVK for %v", obj)
	}
	var all []schema.GroupVersionKind
	for gvk := range scheme.AllKnownTypes() {
		if gvk.GroupKind() == kinds[0].GroupKind() {
			all = append(all, gvk)
		}
	}
	slices.SortFunc(all, func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.Version, b.Version) })
	return all, nil
}

func isHub(obj runtime.Object) bool {
	_, ok := obj.(conversion.Hub)
	return ok
}

func isConvertible(obj runtime.Object) bool {
	_, ok := obj.(conversion.Convertible)
	return ok
}

// convertByMethods writes src into dst, another version of the same kind, by their own methods.
func convertByMethods(scheme *runtime.Scheme, src, dst runtime.Object) error {
	srcHub, _ := src.(conversion.Hub)
	dstHub, _ := dst.(conversion.Hub)
	from, _ := src.(conversion.Convertible)
	to, _ := dst.(conversion.Convertible)
	switch {
	case srcHub != nil && to != nil:
		return to.ConvertFrom(srcHub)
	case dstHub != nil && from != nil:
		return from.ConvertTo(dstHub)
	case from != nil && to != nil:
		return convertViaHub(scheme, from, to)
	default:
		return fmt.Errorf("%T is not convertible to %T", src, dst)
	}
}

func convertViaHub(scheme *runtime.Scheme, src, dst conversion.Convertible) error {
	hub, err := newHub(scheme, src)
	if err != nil {
		return err
	}
	if err := src.ConvertTo(hub); err != nil {
		return fmt.Errorf("%T failed to convert to hub version %T : %w", src, hub, err)
	}
	if err := dst.ConvertFrom(hub); err != nil {
		return fmt.Errorf("%T failed to convert from hub version %T : %w", dst, hub, err)
	}
	return nil
}

// newHub returns an empty object of the version of the kind of obj that is the hub.
func newHub(scheme *runtime.Scheme, obj runtime.Object) (conversion.Hub, error) {
	kinds, err := objectGVKs(scheme, obj)
	if err != nil {
		return nil, err
	}
	var found conversion.Hub
	for _, gvk := range kinds {
		instance, err := scheme.New(gvk)
		if err != nil {
			return nil, fmt.Errorf("failed to allocate an instance for gvk %v: %w", gvk, err)
		}
		hub, ok := instance.(conversion.Hub)
		if !ok {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("multiple hub version defined for %T", obj)
		}
		found = hub
	}
	if found == nil {
		return nil, fmt.Errorf("%s does not have any Hub defined", obj)
	}
	return found, nil
}
