package cache

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/apiutil"
)

// defaultSyncPeriod is the resync period if Options.SyncPeriod is nil, as in controller-runtime.
const defaultSyncPeriod = 10 * time.Hour

const (
	nameField      = "metadata.name"
	namespaceField = "metadata.namespace"
)

// byKind is Options.ByObject by kind.
type byKind map[schema.GroupVersionKind]ByObject

var errNamespacesOfClusterScoped = errors.New("ByObject.Namespaces must be nil for a cluster-scoped kind")

// newByKind indexes Options.ByObject by kind.
func newByKind(byObject map[client.Object]ByObject, scheme *runtime.Scheme, mapper meta.RESTMapper) (byKind, error) {
	kinds := byKind{}
	for obj, settings := range byObject {
		gvk, err := apiutil.GVKForObject(obj, scheme)
		if err != nil {
			return nil, fmt.Errorf("unable to get the kind of %T in ByObject: %w", obj, err)
		}
		if settings.Namespaces != nil {
			// If discovery fails or does not find the kind, its first use returns the error.
			if namespaced, err := apiutil.IsGVKNamespaced(gvk, mapper); err == nil && !namespaced {
				return nil, fmt.Errorf("%s: %w", gvk.Kind, errNamespacesOfClusterScoped)
			}
		}
		if _, ok := kinds[gvk]; ok {
			return nil, fmt.Errorf("ByObject has several entries for %s", gvk)
		}
		kinds[gvk] = settings
	}
	return kinds, nil
}

// configs returns the settings of a kind for each namespace in which it is cached.
func (o *Options) configs(settings ByObject, namespaced bool) (map[string]Config, error) {
	if !namespaced && settings.Namespaces != nil {
		return nil, errNamespacesOfClusterScoped
	}
	kind := Config{
		LabelSelector:         settings.Label,
		FieldSelector:         settings.Field,
		Transform:             settings.Transform,
		UnsafeDisableDeepCopy: settings.UnsafeDisableDeepCopy,
		EnableWatchBookmarks:  settings.EnableWatchBookmarks,
		SyncPeriod:            settings.SyncPeriod,
	}
	defaults := Config{
		LabelSelector:         o.DefaultLabelSelector,
		FieldSelector:         o.DefaultFieldSelector,
		Transform:             o.DefaultTransform,
		UnsafeDisableDeepCopy: o.DefaultUnsafeDisableDeepCopy,
		EnableWatchBookmarks:  o.DefaultEnableWatchBookmarks,
		SyncPeriod:            o.SyncPeriod,
	}
	namespaces := settings.Namespaces
	if namespaced && namespaces == nil {
		namespaces = o.DefaultNamespaces
	}
	if len(namespaces) == 0 {
		return map[string]Config{AllNamespaces: kind.orElse(defaults)}, nil
	}
	configs := make(map[string]Config, len(namespaces))
	for namespace, config := range namespaces {
		config = config.orElse(kind).orElse(o.DefaultNamespaces[namespace]).orElse(defaults)
		if namespace == AllNamespaces {
			config.FieldSelector = excludeNamespaces(namespaces, config.FieldSelector)
		}
		configs[namespace] = config
	}
	return configs, nil
}

// orElse returns c with its nil fields taken from the next level.
func (c Config) orElse(next Config) Config {
	if c.LabelSelector == nil {
		c.LabelSelector = next.LabelSelector
	}
	if c.FieldSelector == nil {
		c.FieldSelector = next.FieldSelector
	}
	if c.Transform == nil {
		c.Transform = next.Transform
	}
	c.UnsafeDisableDeepCopy = cmp.Or(c.UnsafeDisableDeepCopy, next.UnsafeDisableDeepCopy)
	c.EnableWatchBookmarks = cmp.Or(c.EnableWatchBookmarks, next.EnableWatchBookmarks)
	c.SyncPeriod = cmp.Or(c.SyncPeriod, next.SyncPeriod)
	return c
}

// excludeNamespaces returns a field selector that excludes the namespaces with settings of their
// own from a watch of all namespaces.
func excludeNamespaces(namespaces map[string]Config, selector fields.Selector) fields.Selector {
	var terms []fields.Selector
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		if namespace != AllNamespaces {
			terms = append(terms, fields.OneTermNotEqualSelector(namespaceField, namespace))
		}
	}
	if selector != nil {
		terms = append(terms, selector)
	}
	return fields.AndSelectors(terms...)
}

// requestNamespace returns the namespace of requests: the namespace of the settings, or else the only one
// that the field selector matches, so that permission for that namespace is sufficient.
func (c Config) requestNamespace(namespace string) string {
	if namespace == AllNamespaces && c.FieldSelector != nil {
		namespace, _ = c.FieldSelector.RequiresExactMatch(namespaceField)
	}
	return namespace
}

// jittered returns a random period within 10 % of the given one, so that informers do not resync
// together.
func jittered(period time.Duration) time.Duration {
	return time.Duration(float64(period) * (0.9 + 0.2*rand.Float64()))
}
