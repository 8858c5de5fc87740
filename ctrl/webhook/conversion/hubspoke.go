package conversion

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/apiutil"
)

// SpokeConverter converts between the hub of a kind and one of its other versions.
type SpokeConverter[hubObject runtime.Object] interface {
	// GetSpoke returns an object of the version's Go type. It may be empty: only its type is used.
	GetSpoke() runtime.Object
	// ConvertHubToSpoke writes hub into spoke.
	ConvertHubToSpoke(ctx context.Context, hub hubObject, spoke runtime.Object) error
	// ConvertSpokeToHub writes spoke into hub.
	ConvertSpokeToHub(ctx context.Context, spoke runtime.Object, hub hubObject) error
}

// NewSpokeConverter returns a converter between the hub and the version of spoke that consists of
// two functions, which write src into dst.
func NewSpokeConverter[hubObject, spokeObject client.Object](
	spoke spokeObject,
	convertHubToSpokeFunc func(ctx context.Context, src hubObject, dst spokeObject) error,
	convertSpokeToHubFunc func(ctx context.Context, src spokeObject, dst hubObject) error,
) SpokeConverter[hubObject] {
	return &spokeConverter[hubObject, spokeObject]{spoke, convertHubToSpokeFunc, convertSpokeToHubFunc}
}

// spokeConverter converts between the hub and one spoke by two functions.
type spokeConverter[hubObject, spokeObject runtime.Object] struct {
	spoke   spokeObject
	fromHub func(ctx context.Context, src hubObject, dst spokeObject) error
	toHub   func(ctx context.Context, src spokeObject, dst hubObject) error
}

func (c *spokeConverter[hubObject, spokeObject]) GetSpoke() runtime.Object { return c.spoke }

func (c *spokeConverter[hubObject, spokeObject]) ConvertHubToSpoke(
	ctx context.Context, hub hubObject, spoke runtime.Object,
) error {
	return c.fromHub(ctx, hub, spoke.(spokeObject))
}

func (c *spokeConverter[hubObject, spokeObject]) ConvertSpokeToHub(
	ctx context.Context, spoke runtime.Object, hub hubObject,
) error {
	return c.toHub(ctx, spoke.(spokeObject), hub)
}

// NewHubSpokeConverter returns the constructor of a converter for the kind of hub, as the builder's
// WithConverter takes it. Two versions that are not the hub are converted by way of the hub. The
// constructor returns an error unless there is exactly one spokeConverter for each version of the
// kind in the scheme other than the hub's.
func NewHubSpokeConverter[hubObject runtime.Object](
	hub hubObject, spokeConverter ...SpokeConverter[hubObject],
) func(scheme *runtime.Scheme) (Converter, error) {
	return func(scheme *runtime.Scheme) (Converter, error) {
		hubGVK, err := apiutil.GVKForObject(hub, scheme)
		if err != nil {
			return nil, fmt.Errorf("failed to create hub spoke converter: failed to get GroupVersionKind for hub: %w", err)
		}
		c := &hubSpokeConverter[hubObject]{scheme, hubGVK, map[schema.GroupVersionKind]SpokeConverter[hubObject]{}}
		if err := c.add(hub, spokeConverter); err != nil {
			return nil, fmt.Errorf("failed to create hub spoke converter for %s: %w", hubGVK.Kind, err)
		}
		return c, nil
	}
}

// hubSpokeConverter converts between all versions of a kind, by way of the hub.
type hubSpokeConverter[hubObject runtime.Object] struct {
	scheme *runtime.Scheme
	hub    schema.GroupVersionKind
	spokes map[schema.GroupVersionKind]SpokeConverter[hubObject]
}

// add sets the converters of the spokes and checks that they are complete.
func (c *hubSpokeConverter[hubObject]) add(hub hubObject, converters []SpokeConverter[hubObject]) error {
	var want, got []string
	kinds, err := objectGVKs(c.scheme, hub)
	if err != nil {
		return err
	}
	for _, gvk := range kinds {
		if gvk != c.hub {
			want = append(want, gvk.Version)
		}
	}
	for _, converter := range converters {
		gvk, err := apiutil.GVKForObject(converter.GetSpoke(), c.scheme)
		if err != nil {
			return fmt.Errorf("failed to get GroupVersionKind for spoke converter: %w", err)
		}
		if gvk.GroupKind() != c.hub.GroupKind() {
			return fmt.Errorf("spoke converter GroupKind %s does not match hub GroupKind %s", gvk.GroupKind(), c.hub.GroupKind())
		}
		if _, exists := c.spokes[gvk]; exists {
			return fmt.Errorf("duplicate spoke converter for version %s", gvk.Version)
		}
		c.spokes[gvk] = converter
		got = append(got, gvk.Version)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		return fmt.Errorf("expected spoke converter for %s got spoke converter for %s",
			strings.Join(want, ","), strings.Join(got, ","))
	}
	return nil
}

// ConvertObject converts src to the version of dst: directly if one of them is the hub, and
// otherwise by way of the hub.
func (c *hubSpokeConverter[hubObject]) ConvertObject(ctx context.Context, src, dst runtime.Object) error {
	from, to, err := versions(src, dst)
	if err != nil {
		return err
	}
	source, target := c.spokes[from], c.spokes[to]
	switch {
	case from == c.hub && target != nil:
		return target.ConvertHubToSpoke(ctx, src.(hubObject), dst)
	case to == c.hub && source != nil:
		return source.ConvertSpokeToHub(ctx, src, dst.(hubObject))
	case source != nil && target != nil:
		hub, err := c.scheme.New(c.hub)
		if err != nil {
			return fmt.Errorf("failed to allocate an instance for GroupVersionKind %s: %w", c.hub, err)
		}
		if err := source.ConvertSpokeToHub(ctx, src, hub.(hubObject)); err != nil {
			return fmt.Errorf("failed to convert spoke %s to hub %s : %w", from, c.hub, err)
		}
		if err := target.ConvertHubToSpoke(ctx, hub.(hubObject), dst); err != nil {
			return fmt.Errorf("failed to convert hub %s to spoke %s : %w", c.hub, to, err)
		}
		return nil
	default:
		return fmt.Errorf("failed to convert %s to %s: not convertible", from, to)
	}
}

// versions returns the kinds of src and dst. It returns an error unless they are different versions
// of the same kind.
func versions(src, dst runtime.Object) (from, to schema.GroupVersionKind, err error) {
	from, to = src.GetObjectKind().GroupVersionKind(), dst.GetObjectKind().GroupVersionKind()
	switch {
	case from.GroupKind() != to.GroupKind():
		err = fmt.Errorf("src %T and dst %T does not belong to same API Group", src, dst)
	case from == to:
		err = fmt.Errorf("conversion is not allowed between same type %T", src)
	}
	return from, to, err
}
